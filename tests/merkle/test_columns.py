"""Columns and tables encode, hash and copy as the plain lists that they stand for."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.errors import MalformedSSZ
from anchor.merkle import table
from anchor.merkle.columns import Column
from anchor.merkle.container import Container
from anchor.merkle.scope import Scope
from anchor.merkle.state import MutableContainer
from anchor.merkle.table import Table
from anchor.types import Bytes32, Bytes48, Epoch, Gwei, Length, Limit, Root


class Keeper(Container):
    """A record shaped as a validator."""

    pubkey: Bytes48
    credentials: Bytes32
    balance: Gwei
    slashed: bool
    exit_epoch: Epoch


class Plain(Container):
    """Every large list held as a tuple."""

    balances: Annotated[tuple[Gwei, ...], Limit(2**40)]
    roots: Annotated[tuple[Root, ...], Length(8)]
    keepers: Annotated[tuple[Keeper, ...], Limit(2**40)]
    slot: Epoch


class Columnar(MutableContainer):
    """The same, held as columns."""

    balances: Annotated[Column[Gwei], Limit(2**40)]
    roots: Annotated[Column[Root], Length(8)]
    keepers: Annotated[Table[Keeper], Limit(2**40)]
    slot: Epoch


SCOPE = Scope()
PLAIN, COLUMNAR = SCOPE.schema(Plain), SCOPE.schema(Columnar)

numbers = st.integers(0, 2**64 - 1)
keepers = st.builds(
    Keeper,
    pubkey=st.binary(min_size=48, max_size=48),
    credentials=st.binary(min_size=32, max_size=32),
    balance=numbers,
    slashed=st.booleans(),
    exit_epoch=numbers,
)
plains = st.builds(
    Plain,
    balances=st.lists(numbers, max_size=20).map(tuple),
    roots=st.lists(st.binary(min_size=32, max_size=32), min_size=8, max_size=8).map(tuple),
    keepers=st.lists(keepers, max_size=9).map(tuple),
    slot=numbers,
)


def to_columns(plain: Plain) -> Any:
    return COLUMNAR.decode(PLAIN.encode(plain))


@given(plains)
def test_columns_are_the_plain_list(plain: Plain) -> None:
    state = to_columns(plain)
    assert COLUMNAR.encode(state) == PLAIN.encode(plain)
    assert COLUMNAR.hash_tree_root(state) == PLAIN.hash_tree_root(plain)
    assert COLUMNAR.tree(state).root == PLAIN.hash_tree_root(plain)
    assert tuple(state.balances) == plain.balances
    assert tuple(state.keepers) == plain.keepers


@given(plains, keepers, st.lists(st.tuples(st.integers(0, 8), keepers), max_size=4))
def test_roots_follow_writes(plain: Plain, added: Keeper, writes: list[tuple[int, Keeper]]) -> None:
    state = to_columns(plain)
    COLUMNAR.hash_tree_root(state)
    state.keepers.append(added)
    state.balances.append(5)
    expected = [*plain.keepers, added]
    for index, keeper in writes:
        if index < len(expected):
            expected[index] = keeper
            state.keepers[index] = keeper
            COLUMNAR.hash_tree_root(state)
    after = plain.replace(keepers=tuple(expected), balances=(*plain.balances, 5))
    assert COLUMNAR.hash_tree_root(state) == PLAIN.hash_tree_root(after)


def test_tables_are_hashed_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "BLOCK", 2)
    registry = [
        Keeper(pubkey=bytes([i]) * 48, credentials=bytes([i]) * 32, balance=i, slashed=i == 3, exit_epoch=i)
        for i in range(7)
    ]
    plain = PLAIN.default().replace(keepers=tuple(registry[:5]))
    state = to_columns(plain)
    assert COLUMNAR.hash_tree_root(state) == PLAIN.hash_tree_root(plain)
    for row in (0, 3, 4):
        state.keepers[row] = registry[6]
    state.keepers.append(registry[5])
    after = plain.replace(keepers=tuple(registry[i] for i in (6, 1, 2, 6, 6, 5)))
    assert COLUMNAR.hash_tree_root(state) == PLAIN.hash_tree_root(after)


@given(plains, keepers)
def test_copies_are_independent(plain: Plain, added: Keeper) -> None:
    state = to_columns(plain)
    COLUMNAR.hash_tree_root(state)
    twin = state.copy()
    twin.keepers.append(added)
    twin.roots[3] = b"\7" * 32
    twin.slot = 1
    state.balances.append(9)
    assert COLUMNAR.hash_tree_root(twin) == PLAIN.hash_tree_root(
        plain.replace(
            keepers=(*plain.keepers, added), roots=(*plain.roots[:3], b"\7" * 32, *plain.roots[4:]), slot=1
        )
    )
    assert COLUMNAR.hash_tree_root(state) == PLAIN.hash_tree_root(
        plain.replace(balances=(*plain.balances, 9))
    )


def test_arrays_cannot_be_written_behind_the_column() -> None:
    state = COLUMNAR.default()
    with pytest.raises(ValueError, match="read-only"):
        state.roots.array[0] = 1


def test_a_flag_is_zero_or_one() -> None:
    schema = COLUMNAR.schemas["keepers"]
    row = bytearray(121 - 24)
    row[48 + 32 + 8] = 2
    with pytest.raises(MalformedSSZ, match="boolean"):
        schema.decode(bytes(row))


def test_decoding_counts_before_it_builds() -> None:
    class Small(MutableContainer):
        balances: Annotated[Column[Gwei], Limit(4)]

    data = (4).to_bytes(4, "little") + np.zeros(5, "<u8").tobytes()
    with pytest.raises(MalformedSSZ, match="at most 4, not 5"):
        Scope().schema(Small).decode(data)


class Flagged(Container):
    """Flags in both representations."""

    flags: Annotated[Column[bool], Limit(8)]
    keepers: Annotated[Table[Keeper], Limit(8)]


def test_flags_are_booleans_and_strictly_so() -> None:
    schema = SCOPE.schema(Flagged)
    keeper = Keeper(pubkey=bytes(48), credentials=bytes(32), balance=1, slashed=True, exit_epoch=2)
    value = schema.default()
    value.flags.append(True)
    value.keepers.append(keeper)
    data = schema.encode(value)
    decoded = schema.decode(data)
    assert decoded.flags[0] is True
    assert decoded.keepers[0].slashed is True
    for place in (8, 9 + 48 + 32 + 8):
        assert data[place] == 1
        with pytest.raises(MalformedSSZ):
            schema.decode(data[:place] + b"\2" + data[place + 1 :])
