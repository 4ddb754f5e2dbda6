"""Laws of encoding and rooting, over any type: against the oracle, against themselves, under mutation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.errors import Malformed, MalformedSSZ, Misuse
from anchor.merkle.bits import Bitlist, Bits, Bitvector
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint
from anchor.merkle.union import Selected, Union
from tests.merkle.ssz_strategies import schemas, typed_values
from tests.oracles import merkle as oracle

Typed = tuple[Schema[Any], Any]


@given(typed_values())
def test_encodes_as_the_text_says_and_back(typed: Typed) -> None:
    schema, value = typed
    data = schema.encode(value)
    assert data == oracle.encode(schema, value)
    assert schema.decode(data) == value
    assert schema.decode(memoryview(data)) == value
    assert schema.fixed_size == (None if oracle.is_variable(schema) else len(data))


@given(typed_values())
def test_roots_as_the_text_says(typed: Typed) -> None:
    schema, value = typed
    expected = oracle.root(oracle.build(schema, value))
    assert schema.hash_tree_root(value) == expected
    assert schema.tree(value).root == expected


@given(schemas)
def test_the_default_is_a_value(schema: Schema[Any]) -> None:
    value = schema.default()
    assert schema.decode(schema.encode(value)) == value
    assert schema.hash_tree_root(value) == oracle.root(oracle.build(schema, value))


@given(typed_values(), st.data())
def test_a_mutation_is_refused_or_another_value(typed: Typed, data: st.DataObject) -> None:
    """No two encodings of one value: what decodes encodes to the same bytes (rule 27)."""
    schema, value = typed
    mutated = bytearray(schema.encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        _mutate(mutated, data)
    try:
        decoded = schema.decode(bytes(mutated))
    except Malformed:
        return
    assert schema.encode(decoded) == bytes(mutated)


def _mutate(buffer: bytearray, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["flip", "cut", "append", "insert", "remove"]))
    place = data.draw(st.integers(0, max(len(buffer) - 1, 0)))
    if kind == "append" or not buffer:
        buffer += data.draw(st.binary(min_size=1, max_size=5))
    elif kind == "flip":
        buffer[place] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del buffer[place:]
    elif kind == "insert":
        buffer[place:place] = data.draw(st.binary(min_size=1, max_size=5))
    else:
        del buffer[place]


@given(schemas, st.binary(max_size=120))
def test_noise_is_refused_or_a_value(schema: Schema[Any], noise: bytes) -> None:
    try:
        value = schema.decode(noise)
    except Malformed:
        return
    assert schema.encode(value) == noise


SHORT = List(Uint(2), 3)
NESTED = List(List(Uint(1), 4), 3)
REFUSED: list[tuple[Schema[Any], str]] = [
    (Uint(8), "00" * 7),
    (Uint(8), "00" * 9),
    (Boolean(), "02"),
    (Boolean(), ""),
    (ByteVector(4), "000000"),
    (ByteList(2), "000000"),
    (SHORT, "00" * 3),  # half an element
    (SHORT, "00" * 8),  # one more than the limit
    (Vector(Uint(2), 2), "00" * 6),
    (Vector(NESTED, 1), "00000000"),  # an offset into the table of offsets
    (NESTED, "04"),
    (NESTED, "00000000"),
    (NESTED, "03000000"),
    (NESTED, "08000000ffffffff"),  # beyond the end
    (NESTED, "0800000007000000"),  # back into the table
    (NESTED, "0c0000000e0000000d00000001020304"),  # descending
    (NESTED, "10000000" * 4),  # one more than the limit
    (NESTED, "04000000" + "01" * 5),  # an element over its limit
    (Bitlist(4), ""),
    (Bitlist(4), "00"),  # no delimiter
    (Bitlist(4), "20"),  # five bits
    (Bitlist(4), "0100"),  # delimiter not in the last byte
    (Bitvector(4), "10"),  # a bit of the padding
    (Bitvector(9), "00"),
    (Bitvector(8), "0000"),
    (Union({1: Uint(1)}), ""),
    (Union({1: Uint(1)}), "0000"),
    (Union({1: Uint(1)}), "0100ff"),
    (Union({0: None, 1: Uint(1)}), "0000"),  # nothing, and a byte
]


@pytest.mark.parametrize(("schema", "data"), REFUSED, ids=lambda value: str(value) or "empty")
def test_refuses(schema: Schema[Any], data: str) -> None:
    with pytest.raises(MalformedSSZ):
        schema.decode(bytes.fromhex(data))


VALUES_OUTSIDE: list[tuple[Schema[Any], Any]] = [
    (Uint(1), 256),
    (Uint(1), -1),
    (Uint(16), 2**128),
    (List(Uint(8), 2), (2**64,)),
    (SHORT, (1, 2, 3, 4)),
    (Vector(Uint(1), 2), (1,)),
    (ByteVector(2), b"a"),
    (ByteList(2), b"abc"),
    (Bitvector(2), Bits([True])),
    (Bitlist(1), Bits([True, False])),
    (Union({1: Uint(1)}), Selected(2, 0)),
]


@pytest.mark.parametrize(("schema", "value"), VALUES_OUTSIDE, ids=str)
def test_a_value_outside_its_type_does_not_encode(schema: Schema[Any], value: Any) -> None:
    with pytest.raises(MalformedSSZ):
        schema.encode(value)


def test_a_list_over_its_limit_has_no_root() -> None:
    for schema, value in [(SHORT, (1, 2, 3, 4)), (ByteList(2), b"abc"), (Bitlist(1), Bits([0, 0]))]:
        with pytest.raises(MalformedSSZ):
            schema.hash_tree_root(value)  # type: ignore[attr-defined]


def test_an_announced_length_is_refused_before_anything_is_built() -> None:
    """A first offset of 2 GiB announces 2^29 elements."""
    with pytest.raises(MalformedSSZ):
        List(ByteList(8), 2**40).decode(bytes.fromhex("00000080") + bytes(100))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Vector(Uint(1), 0),
        lambda: Bitvector(0),
        lambda: Union({}),
        lambda: Union({128: Uint(1)}),
        lambda: Union({1: None}),
    ],
)
def test_some_types_are_none(make: Any) -> None:
    with pytest.raises(Misuse):
        make()


def test_an_error_names_its_place() -> None:
    with pytest.raises(MalformedSSZ, match=r"\[1\]"):
        NESTED.decode(bytes.fromhex("0800000009000000" + "01" + "01" * 5))
