"""The first difference of two values, by its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anchor.consensus.containers.altair import RECORDS
from anchor.consensus.containers.phase0 import Checkpoint, Validator
from anchor.consensus.presets import MINIMAL
from anchor.consensus.vectors.compare import LONGEST, Difference, compare
from anchor.merkle.scope import Scope

SCHEMA = Scope(MINIMAL, RECORDS).schema("BeaconState")


def _make_state() -> Any:
    state = SCHEMA.default()
    for index in range(4):
        validator = dict.fromkeys(Validator.fields, index) | {
            "pubkey": bytes([index] * 48),
            "withdrawal_credentials": bytes(32),
            "slashed": False,
        }
        state.validators.append(Validator(**validator))
        state.balances.append(10 * index)
    return state


CHANGES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda state: setattr(state, "slot", 1), "slot: expected 0, got 1"),
    (
        lambda state: setattr(state, "finalized_checkpoint", Checkpoint(epoch=0, root=b"r" * 32)),
        f"finalized_checkpoint.root: expected 0x{'00' * 32}, got 0x{'72' * 32}",
    ),
    (
        lambda state: state.validators.write("slashed", 3, True),
        "validators[3].slashed: expected False, got True",
    ),
    (lambda state: state.balances.__setitem__(2, 7), "balances[2]: expected 20, got 7"),
    (lambda state: state.balances.append(1), "len(balances): expected 4, got 5"),
    (
        lambda state: state.block_roots.__setitem__(63, b"b" * 32),
        f"block_roots[63]: expected 0x{'00' * 32}, got 0x{'62' * 32}",
    ),
    (
        lambda state: setattr(state, "historical_roots", (bytes(32),)),
        "len(historical_roots): expected 0, got 1",
    ),
]


@pytest.mark.parametrize(("change", "text"), CHANGES, ids=[text.split(":")[0] for _, text in CHANGES])
def test_the_first_difference_is_placed(change: Callable[[Any], Any], text: str) -> None:
    expected, got = _make_state(), _make_state()
    assert compare(expected, got) is None
    change(got)
    assert str(compare(expected, got)) == text


def test_whole_values() -> None:
    assert compare(1, 1) is None
    assert str(compare(True, False)) == "expected True, got False"
    assert compare((1, 2), (1, 3), "mapping") == Difference("mapping[1]", "2", "3")
    assert compare(Checkpoint(epoch=1, root=bytes(32)), Validator) is not None


def test_long_values_are_cut() -> None:
    difference = compare(bytes(1000), b"", "blob")
    assert difference is not None
    assert len(difference.expected) == LONGEST
