"""A million validators on one core, beside the SHA-256 that their root needs at least."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchor.consensus.bls import NoSignatures
from anchor.consensus.forks.altair import Altair
from anchor.consensus.presets import MAINNET, MAINNET_CONFIG
from anchor.consensus.shuffling import compute_shuffled_permutation
from anchor.merkle.columns import Column
from anchor.merkle.hashing import hash_pairs_into
from anchor.merkle.table import Table
from anchor.params import FAR_FUTURE_EPOCH
from bench.harness import Comparison, compare

COUNT = 1_000_000
HASHES = 9
"""SHA-256 of 64 bytes for each validator: one of the key, seven of the record, one of the list above it."""
EPOCH = 100


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """Root from scratch, epoch transition, justification sums, shuffling."""
    rules = Altair(MAINNET, MAINNET_CONFIG, NoSignatures())
    state = make_state(rules)
    nodes = np.zeros(64 * COUNT * HASHES // 8, np.uint8)
    candidates = {
        "the hashing alone": lambda: [hash_pairs_into(nodes, nodes) for _ in range(8)],
        "state root from scratch": lambda: rules.hash_tree_root(_forget(rules, state)),
        "epoch transition": lambda: rules.process_epoch(state.copy()),
        "justification sums": lambda: rules.process_justification_and_finalization(state.copy()),
        "shuffling": lambda: compute_shuffled_permutation(COUNT, bytes(32), MAINNET.SHUFFLE_ROUND_COUNT),
    }
    return [compare(f"{COUNT:,} validators, one core", candidates, rounds=min(options.rounds, 5))]


def make_state(rules: Altair) -> Any:
    """A state at the end of an epoch in which almost everyone voted in time."""
    schema = rules.scope.schema("BeaconState")
    state = schema.default()
    state.slot = (EPOCH + 1) * MAINNET.SLOTS_PER_EPOCH - 1
    state.validators = _make_registry(rules)
    numbers = np.arange(COUNT, dtype="<u8")
    state.balances = Column(32 * 10**9 + numbers % 10**6)
    state.inactivity_scores = Column(np.zeros(COUNT, "<u8"))
    voted = np.where(numbers % 100 == 7, 0, 7).astype("u1")
    state.previous_epoch_participation = Column(voted)
    state.current_epoch_participation = Column(voted)
    return state


def _make_registry(rules: Altair) -> Table[Any]:
    numbers = np.arange(COUNT, dtype="<u8")
    spread = (numbers[:, None] * np.uint64(2654435761) >> np.arange(8, dtype="<u8")).astype("u1")
    never = np.full(COUNT, FAR_FUTURE_EPOCH, "<u8")
    columns = {
        "pubkey": np.tile(spread, 6),
        "withdrawal_credentials": np.tile(spread, 4),
        "effective_balance": np.full(COUNT, 32 * 10**9, "<u8"),
        "slashed": numbers % 1000 == 3,
        "activation_eligibility_epoch": numbers // 300_000,
        "activation_epoch": numbers // 300_000 + 5,
        "exit_epoch": never,
        "withdrawable_epoch": never,
    }
    return Table(rules.records["Validator"], columns, COUNT)


def _forget(rules: Altair, state: Any) -> Any:
    """The state without any root that it keeps."""
    values = [_forget_roots(getattr(state, name)) for name in state.fields]
    return rules.records["BeaconState"].from_values(values)


def _forget_roots(value: Any) -> Any:
    if isinstance(value, Column):
        return Column(value.array)
    if isinstance(value, Table):
        names = value[0].fields
        return Table(type(value[0]), {name: value.column(name) for name in names}, len(value))
    return value
