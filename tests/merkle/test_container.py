"""Records: immutable values whose types a scope resolves by name."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from anchor.errors import Misuse
from anchor.merkle.bits import Bitlist, Bits
from anchor.merkle.container import Container
from anchor.merkle.scope import Scope, hash_tree_root, schema_of
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import ByteList, ByteVector, Uint
from anchor.merkle.state import MutableContainer
from anchor.types import Length, Limit, Progressive, Root, uint8, uint64


class Inner(Container):
    """What the first version holds."""

    number: uint64


class Outer(Container):
    """Declared once, whatever `Inner` is."""

    root: Root
    inner: Inner
    notes: Annotated[bytes, Limit("MOST * 2 + 1")]


class Grown(Container):
    """Takes the place of `Inner`."""

    number: uint64
    more: uint8


Grown.__name__ = "Inner"


class First(Container):
    """To be inherited from."""

    one: uint8
    two: uint8


class Second(First, renames={"one": "uno"}):
    """A new field in an old one's place, another type, and one more behind."""

    uno: uint64
    two: uint64
    three: uint8


OUTER = Outer(root=bytes(32), inner=Inner(number=7), notes=b"hi")


def test_a_scope_puts_its_own_record_in() -> None:
    old, new = Scope({"MOST": 3}), Scope({"MOST": 3}, {"Inner": Grown})
    grown = OUTER.replace(inner=Grown(number=7, more=1))
    assert old.schema("Outer" if "Outer" in old.records else Outer).schemas["inner"].record is Inner
    assert new.schema(Outer).schemas["inner"].record is Grown  # type: ignore[attr-defined]
    assert len(new.encode(grown)) == len(old.encode(OUTER)) + 1


def test_two_scopes_give_one_record_two_roots() -> None:
    """The root that a record keeps is the one of its schema."""
    record = First(one=1, two=2)
    wide = {"one": Uint(8), "two": Uint(8)}
    swapped = First.make_schema({"one": ByteVector(1), "two": Uint(8)})
    one, two = First.make_schema(wide), schema_of(First)
    assert one.hash_tree_root(record) == two.hash_tree_root(record) == hash_tree_root(record)
    with pytest.raises(TypeError):
        swapped.hash_tree_root(record)


def test_sizes_are_sums_of_products() -> None:
    scope = Scope({"A": 3, "B": 5})
    assert scope.size("A * B + 2 * A + 1") == 22
    with pytest.raises(Misuse):
        scope.size("A * C")
    with pytest.raises(Misuse):
        scope.schema("Nobody")


@pytest.mark.parametrize(
    ("note", "schema"),
    [
        (uint64, Uint(8)),
        (Annotated[bytes, Length(5)], ByteVector(5)),
        (Annotated[bytes, Limit(5)], ByteList(5)),
        (Annotated[bytes, Progressive()], ByteList(None)),
        (Annotated[Bits, Progressive()], Bitlist(None)),
        (Annotated[tuple[uint8, ...], Length(5)], Vector(Uint(1), 5)),
        (Annotated[tuple[Root, ...], Progressive()], List(ByteVector(32), None)),
        (Annotated[Any, Uint(32)], Uint(32)),
    ],
    ids=str,
)
def test_annotations(note: Any, schema: Any) -> None:
    found = Scope().resolve(note)
    assert (type(found), str(found)) == (type(schema), str(schema))


@pytest.mark.parametrize("note", [int, bytes, str, tuple[uint8, ...], Annotated[str, Limit(5)]], ids=str)
def test_what_tells_no_type_is_refused(note: Any) -> None:
    with pytest.raises(Misuse):
        Scope().resolve(note)


def test_inheritance_keeps_places() -> None:
    assert Second.fields == ("uno", "two", "three")
    record = Second(uno=1, two=2, three=3)
    assert schema_of(Second).encode(record) == b"\1" + bytes(7) + b"\2" + bytes(7) + b"\3"
    assert First.fields == ("one", "two")
    assert schema_of(First).encode(First(one=1, two=2)) == b"\1\2"


def test_records_do_not_change() -> None:
    record = First(one=1, two=2)
    root = hash_tree_root(record)
    with pytest.raises(AttributeError):
        record.one = 3  # type: ignore[misc]
    changed = record.replace(one=3)
    assert (record.one, changed.one, changed.two) == (1, 3, 2)
    assert hash_tree_root(record) == root != hash_tree_root(changed)


def test_records_compare_by_type_and_value() -> None:
    assert First(one=1, two=2) == First(one=1, two=2)
    assert hash(First(one=1, two=2)) == hash(First(one=1, two=2))
    assert First(one=1, two=2) != First(one=1, two=3)
    assert First(one=1, two=2) != (1, 2)
    assert repr(First(one=1, two=2)) == "First(one=1, two=2)"


@pytest.mark.parametrize("values", [{}, {"one": 1}, {"one": 1, "two": 2, "three": 3}, {"one": 1, "too": 2}])
def test_a_record_takes_exactly_its_fields(values: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        First(**values)


class Counter(MutableContainer):
    """Two fields to be set."""

    one: uint64
    inner: Inner


def test_a_mutable_record_roots_what_it_holds_now() -> None:
    schema = schema_of(Counter)
    state = Counter(one=1, inner=Inner(number=1))
    for change in (lambda: setattr(state, "one", 2), lambda: setattr(state, "inner", Inner(number=9))):
        before = schema.hash_tree_root(state)
        twin = state.copy()
        change()
        fresh = schema.decode(schema.encode(state))
        assert schema.hash_tree_root(state) == schema.hash_tree_root(fresh) != before
        assert schema.hash_tree_root(twin) == before
    with pytest.raises(TypeError):
        hash(state)


def test_bits() -> None:
    bits = Bits([1, 0, 1, 1])
    assert list(bits) == [True, False, True, True]
    assert (len(bits), bits.count_set(), bits.get_set_indices()) == (4, 3, [0, 2, 3])
    assert (bits[0], bits[-3], bits[1:3]) == (True, False, [False, True])
    assert bits.with_bit(1).data == b"\x0f"
    assert bits | Bits([0, 1, 0, 0]) == Bits([1, 1, 1, 1])
    assert Bits([1, 0, 0, 0]).is_subset_of(bits)
    assert not Bits([0, 1, 0, 0]).is_subset_of(bits)
    assert {bits: 1}[Bits([1, 0, 1, 1])] == 1
    assert bits != Bits([1, 0, 1, 1, 0])
    with pytest.raises(IndexError):
        bits[4]
    with pytest.raises(Misuse):
        bits | Bits([1])
