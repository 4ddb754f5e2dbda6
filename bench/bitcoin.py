"""Speed of checking Bitcoin's headers: `python -m bench.bitcoin`.

The floor is their hashing alone: SHA-256 twice for each, as hashlib does it.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
from hashlib import sha256

from anchor.consensus.bitcoin.header import get_start, verify_header
from anchor.consensus.bitcoin.network import Network
from anchor.consensus.bitcoin.run import verify_run
from bench.harness import Comparison, compare, show
from tests.consensus.bitcoin_chains import GENESIS, LIMIT_BITS, make_network, mine, split
from tests.oracles import naive_bitcoin as naive

COUNT = 20 * 2016


def main() -> None:
    """Parses the command line and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    show([compare_headers(options.rounds)], as_json=options.json)


def compare_headers(rounds: int) -> Comparison:
    """A chain with Bitcoin's windows at a trivial target, in memory, on one core."""
    headers, network = make_headers(), make_network(interval=2016)
    data = b"".join(headers)
    found = compare(
        "",
        {
            "hashing alone": lambda: [sha256(sha256(raw).digest()).digest() for raw in split(data)],
            "anchor": lambda: verify_run(network, [data]),
            "anchor, header by header": lambda: _verify_singly(network, headers),
        },
        rounds=rounds,
    )
    rate = COUNT / found.rows[1].cpu
    return dataclasses.replace(found, title=f"Bitcoin headers, {COUNT:,}: {rate:,.0f} a second on one core")


def make_headers() -> list[bytes]:
    """COUNT headers, a few out of order as real ones are; slow enough to stay at the easiest target."""
    scatter = random.Random(1)  # noqa: S311
    headers = [GENESIS]
    while len(headers) < COUNT:
        step = -900 if scatter.random() < 0.03 else int(scatter.expovariate(1 / 700))
        time = naive.time_of(headers[-1]) + step
        later = max(time, naive.median_time(headers[-11:]) + 1)
        headers.append(mine(naive.hash_of(headers[-1]), later, LIMIT_BITS))
    return headers


def _verify_singly(network: Network, headers: list[bytes]) -> None:
    tip = get_start(network, 0)
    for raw in headers:
        tip = verify_header(network, tip, raw)


if __name__ == "__main__":
    main()
