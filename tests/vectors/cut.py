"""Cuts the subset beside this file out of a whole set of official vectors.

    python -m tests.vectors.cut SOURCE [DESTINATION]

Of every preset, fork, runner and handler it takes the smallest valid cases and the smallest invalid ones,
with blobs and without.
The same source gives the same archive, byte for byte.
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from anchor.consensus.vectors.cases import Case, find_cases
from anchor.consensus.vectors.fork_choice import DATA_FILES

ARCHIVE = Path(__file__).parent / "vectors.tar.xz"
TAKEN = 2
"""Cases of each kind."""
LARGEST = 180_000
"""Bytes of a case, packed as it comes: larger ones run with the whole set only."""
LARGEST_OF_MAINNET = 700_000
STATES = {"operations", "epoch_processing", "sanity", "finality", "random", "fork", "transition"}
STEPS = {"fast_confirmation", "fork_choice", "fork_choice_compliance", "sync"}


def is_valid(case: Case) -> bool:
    """Whether the case says what comes out, and not just that it is refused."""
    if case.runner == "ssz_generic":
        return case.suite == "valid"
    if case.runner in STEPS:
        return b"valid: false" not in (case.path / "steps.yaml").read_bytes()
    if case.runner == "networking":
        return not any(message["expected"] != "valid" for message in case.meta.get("messages", ()))
    return case.runner not in STATES or case.has("post.ssz_snappy")


def is_small(case: Case) -> bool:
    """Whether the case is worth its room; a state of mainnet packs well."""
    return case.get_size() <= (LARGEST_OF_MAINNET if case.preset == "mainnet" else LARGEST)


def carries_data(case: Case) -> bool:
    """Whether the case carries blobs or columns."""
    return any(file.name.startswith(DATA_FILES) for file in case.path.iterdir())


def choose(cases: Iterable[Case]) -> list[Case]:
    """The cases to keep, in the order of their names."""
    kinds: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in filter(is_small, cases):
        kind = case.preset, case.fork, case.runner, case.handler, is_valid(case), carries_data(case)
        kinds[kind].append(case)
    chosen: list[Case] = []
    for kind in kinds.values():
        chosen += sorted(kind, key=lambda case: (case.get_size(), str(case)))[:TAKEN]
    return sorted(chosen, key=str)


def pack(cases: Iterable[Case], destination: Path) -> None:
    """Writes an archive that depends on nothing but the cases."""
    with tarfile.open(destination, "w:xz", preset=9) as archive:
        for case in cases:
            for file in sorted(case.path.iterdir()):
                data = file.read_bytes()
                info = tarfile.TarInfo(f"tests/{case}/{file.name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    kept = choose(find_cases(Path(sys.argv[1])))
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ARCHIVE
    pack(kept, target)
    print(f"{len(kept)} cases, {target.stat().st_size} bytes")
