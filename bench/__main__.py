"""`python -m bench`: speed, as ratios to what others do in the same run.

Peers are measured where they are there, and named where they are not: npm's `@chainsafe/hashtree`,
`@chainsafe/swap-or-not-shuffle`, `@chainsafe/ssz`, `@lodestar/types` and `@lodestar/state-transition` (1.5.1)
under NODE/node_modules; `model-signing` and `eth-consensus-specs` in environments of other interpreters.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from anchor.merkle.hashing import BACKEND
from bench import bitcoin, blocks, consensus, hashing, light_client, node, sync, verify
from bench.harness import show

PARTS = {
    part.__name__.rpartition(".")[2]: part
    for part in (hashing, verify, consensus, blocks, light_client, sync, node, bitcoin)
}


def main() -> None:
    """Parses the command line, measures, prints."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--rounds", type=int, default=7, help="how often each candidate runs (default 7)")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the checkpoint (default 2)")
    parser.add_argument("--node", type=Path, default=Path(), help="folder that holds node_modules")
    parser.add_argument("--model-signing", metavar="PYTHON", help="interpreter that has model-signing")
    parser.add_argument("--executable-spec", metavar="PYTHON", help="interpreter that has that package")
    parser.add_argument("--only", choices=PARTS, help="measure this part alone")
    parser.add_argument("--seconds", type=float, default=3, help="of load on a node a round (default 3)")
    parser.add_argument(
        "--chunks", type=int, default=1500, help="MiB of the model that it serves (default 1500)"
    )
    options = parser.parse_args()
    print(f"kernel: {BACKEND}, cores: {os.cpu_count()}", file=sys.stderr)
    parts = [PARTS[options.only]] if options.only else PARTS.values()
    show([found for part in parts for found in part.measure(options)], as_json=options.json)


if __name__ == "__main__":
    main()
