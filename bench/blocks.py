"""Blocks with few validators, beside the executable spec: altair's finality vectors, minimal preset."""

from __future__ import annotations

import argparse
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from anchor.consensus.bls import Bls, NoSignatures, Signatures
from anchor.consensus.forks.altair import Altair
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.consensus.vectors.cases import Case, find_cases
from bench.harness import Comparison, Peer, Run, compare

HERE = Path(__file__).parent
ARCHIVE = HERE.parent / "tests/vectors/vectors.tar.xz"
FOLDER = "tests/minimal/altair/finality"


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """The blocks of the first case, with signatures and without."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        peer = None
        if options.executable_spec:
            peer = stack.enter_context(Peer([options.executable_spec, str(HERE / "peer_spec.py")]))
        files = Path(folder)
        count = _unpack(_find_case(files), files)
        return [_compare(files, count, signed, peer, options.rounds) for signed in (False, True)]


def _find_case(folder: Path) -> Case:
    with tarfile.open(ARCHIVE) as archive:
        members = [member for member in archive if member.name.startswith(FOLDER)]
        archive.extractall(folder, members, filter="data")
    return find_cases(folder)[0]


def _unpack(case: Case, folder: Path) -> int:
    """Writes what both sides decode; returns the count of blocks."""
    count: int = case.meta["blocks_count"]
    for name in ("pre", *[f"blocks_{number}" for number in range(count)]):
        (folder / f"{name}.ssz").write_bytes(case.read_ssz(name))
    return count


def _compare(folder: Path, count: int, signed: bool, peer: Peer | None, rounds: int) -> Comparison:
    job = {"path": str(folder), "count": count, "signed": signed}
    state, blocks = _decode(folder, count)
    runs: dict[str, Run | None] = {
        "anchor": lambda: _apply(Bls() if signed else NoSignatures(), state, blocks),
        "the executable spec": peer and (lambda: peer.run(**job)),
    }
    title = f"{count} blocks of an altair finality vector, signatures {'on' if signed else 'off'}"
    return compare(title, runs, rounds=rounds)


def _decode(folder: Path, count: int) -> tuple[Any, list[Any]]:
    scope = Altair(MINIMAL, MINIMAL_CONFIG, NoSignatures()).scope
    block = scope.schema("SignedBeaconBlock")
    blocks = [block.decode((folder / f"blocks_{number}.ssz").read_bytes()) for number in range(count)]
    return scope.schema("BeaconState").decode((folder / "pre.ssz").read_bytes()), blocks


def _apply(signatures: Signatures, state: Any, blocks: Sequence[Any]) -> None:
    """Every block, with nothing kept from a run before."""
    rules = Altair(MINIMAL, MINIMAL_CONFIG, signatures)
    for block in blocks:
        state = rules.state_transition(state, block)
