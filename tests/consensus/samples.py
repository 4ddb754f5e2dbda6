"""Samples for laws and mutations: states, blocks and operations of the committed vectors."""

from __future__ import annotations

import tarfile
from functools import cache
from typing import Any, NamedTuple

import cramjam
import yaml

from anchor.consensus.bls import NoSignatures
from anchor.consensus.forks.schedule import FORKS
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.consensus.vectors.states import OPERATIONS
from tests.vectors.cut import ARCHIVE

FINALITY = "finality/finality/pyspec_tests/finality_rule_1"
BLOCKS = {
    "phase0": FINALITY,
    "altair": FINALITY,
    "bellatrix": "sanity/blocks/pyspec_tests/is_execution_enabled_false",
    "capella": "sanity/blocks/pyspec_tests/sync_committee_committee_genesis__full",
    "deneb": FINALITY,
    "electra": FINALITY,
    "fulu": FINALITY,
    "gloas": FINALITY,
}
"""By fork: a valid case of blocks."""
RULES: dict[str, Any] = {kind.name: kind(MINIMAL, MINIMAL_CONFIG, NoSignatures()) for kind in FORKS}
"""By fork: its rules, without signatures, so that the rules behind a signature see what is mutated."""


@cache
def read_files() -> dict[str, bytes]:
    """The archive's files of states and what changes them."""
    with tarfile.open(ARCHIVE) as archive:
        members = [m for m in archive.getmembers() if m.isfile() and "/ssz_" not in m.name]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def read(path: str, fork: str, record: str) -> Any:
    """The record in a file of the archive."""
    data = bytes(cramjam.snappy.decompress_raw(read_files()[f"{path}.ssz_snappy"]))
    return RULES[fork].scope.schema(record).decode(data)


@cache
def get_chain(fork: str) -> list[tuple[Any, Any]]:
    """Each block of the fork's case, up to twelve, with the state before it."""
    case = f"tests/minimal/{fork}/{BLOCKS[fork]}"
    count = yaml.safe_load(read_files()[f"{case}/meta.yaml"])["blocks_count"]
    state, chain = read(f"{case}/pre", fork, "BeaconState"), []
    for number in range(min(count, 12)):
        block = read(f"{case}/blocks_{number}", fork, "SignedBeaconBlock")
        chain.append((state, block))
        state = RULES[fork].state_transition(state, block)
    return chain


class Sample(NamedTuple):
    """An operation, and a state that takes it."""

    fork: str
    handler: str
    path: str

    def __str__(self) -> str:
        return f"{self.fork}-{self.handler}"


@cache
def list_operations() -> list[Sample]:
    """A valid operation of every kind: of the first fork that has the kind, and of the last."""
    found: dict[str, list[Sample]] = {}
    for fork in RULES:
        for handler in OPERATIONS:
            paths = [name.removesuffix("/post.ssz_snappy") for name in _list_posts(fork, handler)]
            samples = [Sample(fork, handler, path) for path in paths]
            found.setdefault(handler, []).extend([s for s in samples if _get_file(s) in read_files()][:1])
    return [sample for kind in found.values() for sample in dict.fromkeys([*kind[:1], *kind[-1:]])]


def _list_posts(fork: str, handler: str) -> list[str]:
    start = f"tests/minimal/{fork}/operations/{handler}/"
    return [
        name for name in sorted(read_files()) if name.startswith(start) and name.endswith("/post.ssz_snappy")
    ]


def _get_file(sample: Sample) -> str:
    return f"{sample.path}/{OPERATIONS[sample.handler].file or sample.handler}.ssz_snappy"


def read_operation(sample: Sample) -> tuple[Any, Any, str, str]:
    """The state, the operation, its record's name, and the method that applies it."""
    operation = OPERATIONS[sample.handler]
    state = read(f"{sample.path}/pre", sample.fork, "BeaconState")
    record = read(_get_file(sample).removesuffix(".ssz_snappy"), sample.fork, operation.record)
    return state, record, operation.record, operation.method or f"process_{sample.handler}"
