"""Runs the targets under atheris, which looks for bytes that lead to code that no others led to.

    python -m tests.fuzz [--seconds 60] [TARGET ...]

Each target has a process of its own. What it has learnt, and the bytes of a defect, are kept below .fuzz.
Exit code 0: no defect. 1: some target has one. 3: atheris is not installed, so nothing was looked for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(".fuzz")
LONGEST = 20
"""Seconds for one input: more is a hang."""
MEMORY = 1024
"""MiB for a process: more is a leak, or an allocation that no bound stops."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line, runs the targets one after another."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    options = parser.parse_args(arguments)
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    if find_spec("atheris") is None:
        print(f"Nothing was fuzzed: atheris is not installed. {sys.executable} -m pip install atheris")
        return 3
    failed = [name for name in options.targets or TARGETS if not _run(name, options.seconds)]
    print(f"Defects: {', '.join(failed)}; their bytes are in {FOLDER}." if failed else "No defects.")
    return int(bool(failed))


def _run(name: str, seconds: int) -> bool:
    """Runs one target in a process of its own. True when it finds no defect."""
    print(f"\n{name}, {seconds} s", flush=True)
    command = [sys.executable, "-c", f"from tests.fuzz.__main__ import fuzz; fuzz({name!r}, {seconds})"]
    return subprocess.run(command, check=False).returncode == 0


def fuzz(name: str, seconds: int) -> None:
    """Looks for bytes that the target does not cope with, and ends the process."""
    import atheris

    with atheris.instrument_imports(include=["anchor"]):
        from tests.fuzz.targets import TARGETS, is_taken
    target, folder = TARGETS[name], FOLDER / name
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.make_seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
        is_taken(target, seed)  # imports what is imported late, before the clock runs
    limits = [f"-max_total_time={seconds}", f"-timeout={LONGEST}", f"-rss_limit_mb={MEMORY}"]
    places = [f"-artifact_prefix={folder}/", str(corpus)]
    atheris.Setup([name, *limits, *places], lambda data: is_taken(target, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
