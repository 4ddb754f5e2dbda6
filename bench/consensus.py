"""A million validators on one core, beside the SHA-256 that their root needs at least, and what npm has."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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
from bench.harness import Comparison, Peer, Run, compare

COUNT = 1_000_000
PEERS_COUNT = 200_000
"""Of validators, where peers of npm do the same: at a million they take minutes."""
HASHES = 9
"""SHA-256 of 64 bytes for each validator: one of the key, seven of the record, one of the list above it."""
EPOCH = 100


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """Root from scratch, epoch transition, justification sums, shuffling."""
    rules, rounds = Altair(MAINNET, MAINNET_CONFIG, NoSignatures()), min(options.rounds, 5)
    nodes = np.zeros(64 * COUNT * HASHES // 8, np.uint8)
    state = make_state(rules, COUNT)
    alone = {
        "the hashing alone": lambda: [hash_pairs_into(nodes, nodes) for _ in range(8)],
        "state root from scratch": lambda: rules.hash_tree_root(_forget(rules, state)),
        "epoch transition": lambda: rules.process_epoch(state.copy()),
        "justification sums": lambda: rules.process_justification_and_finalization(state.copy()),
        "shuffling": lambda: compute_shuffled_permutation(COUNT, bytes(32), MAINNET.SHUFFLE_ROUND_COUNT),
    }
    found = [compare(f"{COUNT:,} validators, one core", alone, rounds=rounds)]
    state = make_state(rules, PEERS_COUNT)
    with tempfile.TemporaryDirectory() as folder:
        return [
            *found,
            _compare_roots(rules, state, Path(folder, "registry.ssz"), options.node, rounds),
            _compare_epochs(rules, state, Path(folder, "state.ssz"), options.node, rounds),
        ]


def _compare_roots(rules: Altair, state: Any, path: Path, node: Path, rounds: int) -> Comparison:
    schema, registry = rules.scope.schema("BeaconState").schemas["validators"], state.validators
    path.write_bytes(schema.encode(registry))
    with _start(node, "@chainsafe/ssz", "peer_ssz.mjs") as peer:
        runs: dict[str, Run | None] = {
            "anchor": lambda: schema.hash_tree_root(_forget_roots(registry)),
            "@chainsafe/ssz": peer and (lambda: peer.run(path=str(path))),
        }
        return compare(f"Root of {PEERS_COUNT:,} validators, from scratch", runs, rounds=rounds)


def _compare_epochs(rules: Altair, state: Any, path: Path, node: Path, rounds: int) -> Comparison:
    path.write_bytes(rules.scope.encode(state))
    with _start(node, "@lodestar/state-transition", "peer_transition.mjs") as peer:
        runs: dict[str, Run | None] = {
            "anchor": lambda: rules.process_epoch(state.copy()),
            "@lodestar/state-transition": peer and (lambda: peer.run(path=str(path))),
        }
        return compare(f"Epoch transition of {PEERS_COUNT:,} validators", runs, rounds=rounds)


@contextmanager
def _start(node: Path, package: str, script: str) -> Iterator[Peer | None]:
    """A peer of npm, or None where it is not below `node`."""
    if not (node / "node_modules" / package).is_dir():
        yield None
        return
    with Peer(["node", str(Path(__file__).with_name(script)), str(node.resolve())]) as peer:
        yield peer


def make_state(rules: Altair, count: int) -> Any:
    """A state at the end of an epoch in which almost everyone voted in time."""
    schema = rules.scope.schema("BeaconState")
    state = schema.default()
    state.slot = (EPOCH + 1) * MAINNET.SLOTS_PER_EPOCH - 1
    state.validators = _make_registry(rules, count)
    numbers = np.arange(count, dtype="<u8")
    state.balances = Column(32 * 10**9 + numbers % 10**6)
    state.inactivity_scores = Column(np.zeros(count, "<u8"))
    voted = np.where(numbers % 100 == 7, 0, 7).astype("u1")
    state.previous_epoch_participation = Column(voted)
    state.current_epoch_participation = Column(voted)
    return state


def _make_registry(rules: Altair, count: int) -> Table[Any]:
    numbers = np.arange(count, dtype="<u8")
    spread = (numbers[:, None] * np.uint64(2654435761) >> np.arange(8, dtype="<u8")).astype("u1")
    never = np.full(count, FAR_FUTURE_EPOCH, "<u8")
    columns = {
        "pubkey": np.tile(spread, 6),
        "withdrawal_credentials": np.tile(spread, 4),
        "effective_balance": np.full(count, 32 * 10**9, "<u8"),
        "slashed": numbers % 1000 == 3,
        "activation_eligibility_epoch": numbers // 300_000,
        "activation_epoch": numbers // 300_000 + 5,
        "exit_epoch": never,
        "withdrawable_epoch": never,
    }
    return Table(rules.records["Validator"], columns, count)


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
