"""Every fork's records: they resolve under both presets, and proofs stand where the specification says."""

from __future__ import annotations

from importlib import import_module

import pytest

from anchor import params
from anchor.consensus.presets import MAINNET, MINIMAL, Preset
from anchor.merkle.columns import ColumnSchema
from anchor.merkle.container import Container
from anchor.merkle.scope import Scope
from anchor.merkle.ssz import get_generalized_index
from anchor.merkle.table import TableSchema

FORKS = ["phase0", "altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas"]


def _scope(fork: str, preset: Preset = MINIMAL) -> Scope:
    return Scope(preset, import_module(f"anchor.consensus.containers.{fork}").RECORDS)


@pytest.mark.parametrize("preset", [MINIMAL, MAINNET], ids=lambda preset: preset.name)
@pytest.mark.parametrize("fork", FORKS)
def test_every_record_resolves(fork: str, preset: Preset) -> None:
    scope = _scope(fork, preset)
    for name, record in scope.records.items():
        assert issubclass(record, Container)
        schema = scope.schema(name)
        assert schema.record is record
        if preset is MINIMAL:
            assert schema.decode(schema.encode(schema.default())) == schema.default()


@pytest.mark.parametrize("fork", FORKS[1:])
def test_a_fork_has_the_records_of_the_one_before(fork: str) -> None:
    before, after = _scope(FORKS[FORKS.index(fork) - 1]), _scope(fork)
    assert before.records.keys() <= after.records.keys()
    assert any(after.records[name] is not record for name, record in before.records.items())


@pytest.mark.parametrize("fork", FORKS)
def test_large_lists_are_columns(fork: str) -> None:
    """What has an entry a validator, or a slot, must not be a tuple."""
    schemas = _scope(fork).schema("BeaconState").schemas
    assert isinstance(schemas["validators"], TableSchema)
    for name in ("balances", "block_roots", "state_roots", "randao_mixes", "slashings"):
        assert isinstance(schemas[name], ColumnSchema)
    for name in ("previous_epoch_participation", "current_epoch_participation", "inactivity_scores"):
        assert fork == "phase0" or isinstance(schemas[name], ColumnSchema)


STATE, BODY = "BeaconState", "BeaconBlockBody"
FINAL = ("finalized_checkpoint", "root")


@pytest.mark.parametrize("preset", [MINIMAL, MAINNET], ids=lambda preset: preset.name)
@pytest.mark.parametrize(
    ("forks", "record", "path", "index"),
    [
        (FORKS[1:5], STATE, FINAL, params.FINALIZED_ROOT_GINDEX),
        (FORKS[1:5], STATE, ("current_sync_committee",), params.CURRENT_SYNC_COMMITTEE_GINDEX),
        (FORKS[1:5], STATE, ("next_sync_committee",), params.NEXT_SYNC_COMMITTEE_GINDEX),
        (FORKS[5:7], STATE, FINAL, params.FINALIZED_ROOT_GINDEX_ELECTRA),
        (FORKS[5:7], STATE, ("current_sync_committee",), params.CURRENT_SYNC_COMMITTEE_GINDEX_ELECTRA),
        (FORKS[5:7], STATE, ("next_sync_committee",), params.NEXT_SYNC_COMMITTEE_GINDEX_ELECTRA),
        (FORKS[7:], STATE, FINAL, params.FINALIZED_ROOT_GINDEX_GLOAS),
        (FORKS[7:], STATE, ("current_sync_committee",), params.CURRENT_SYNC_COMMITTEE_GINDEX_GLOAS),
        (FORKS[7:], STATE, ("next_sync_committee",), params.NEXT_SYNC_COMMITTEE_GINDEX_GLOAS),
        (FORKS[3:7], BODY, ("execution_payload",), params.EXECUTION_PAYLOAD_GINDEX),
        (FORKS[3:4], BODY, ("execution_payload", "block_hash"), params.EXECUTION_BLOCK_HASH_GINDEX),
        (FORKS[4:7], BODY, ("execution_payload", "block_hash"), params.EXECUTION_BLOCK_HASH_GINDEX_DENEB),
        (
            FORKS[7:],
            BODY,
            ("signed_execution_payload_bid", "message", "parent_block_hash"),
            params.EXECUTION_BLOCK_HASH_GINDEX_GLOAS,
        ),
    ],
)
def test_light_client_indices(
    forks: list[str], record: str, path: tuple[str, ...], index: int, preset: Preset
) -> None:
    assert {get_generalized_index(_scope(fork, preset).schema(record), *path) for fork in forks} == {index}


def test_a_header_has_the_root_of_its_block() -> None:
    for fork in FORKS:
        scope = _scope(fork)
        block = scope.schema("BeaconBlock").default().replace(slot=3, parent_root=b"p" * 32)
        header = scope.schema("BeaconBlockHeader").record(
            slot=3,
            proposer_index=0,
            parent_root=b"p" * 32,
            state_root=bytes(32),
            body_root=scope.hash_tree_root(block.body),
        )
        assert scope.hash_tree_root(header) == scope.hash_tree_root(block)
