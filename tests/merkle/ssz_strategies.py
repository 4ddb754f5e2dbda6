"""Any SSZ type, and any value of a type."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from anchor.merkle.bits import Bitlist, Bits, Bitvector
from anchor.merkle.container import Container, ContainerSchema, RecordType
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint
from anchor.merkle.union import Selected, Union

MOST = 40
"""Elements of a value."""
lengths = st.one_of(st.integers(1, 9), st.sampled_from([31, 32, 33]))
limits = st.one_of(st.integers(1, 9), st.sampled_from([31, 32, 33, 255, 256, 257, 1024, 2**40]))
progressive_limits = st.one_of(st.none(), limits)
basic = st.one_of(st.just(Boolean()), st.sampled_from([1, 2, 4, 8, 16, 32]).map(Uint))
flat = st.one_of(
    basic,
    st.one_of(lengths, st.sampled_from([48, 96, 200])).map(ByteVector),
    st.one_of(lengths, st.sampled_from([255, 256, 257])).map(Bitvector),
    progressive_limits.map(ByteList),
    progressive_limits.map(Bitlist),
)


def make_record(count: int, active_fields: str | None = None) -> type[Container]:
    """A record class of `count` fields: f0, f1, …"""
    notes = {f"f{i}": "object" for i in range(count)}
    namespace = {"__annotations__": notes, "__module__": __name__}
    return RecordType("Record", (Container,), namespace, active_fields=active_fields)


@st.composite
def containers(draw: st.DrawFn, parts: st.SearchStrategy[Schema[Any]]) -> Schema[Any]:
    """A container, or a progressive container with gaps."""
    fields = draw(st.lists(parts, min_size=1, max_size=6))
    active = None
    if draw(st.booleans()):
        gaps = [draw(st.integers(0, 3)) for _ in fields]
        active = "".join(["0" * gap + "1" for gap in gaps])
    record = make_record(len(fields), active)
    return ContainerSchema(record, {f"f{i}": part for i, part in enumerate(fields)})


def _extend(parts: st.SearchStrategy[Schema[Any]]) -> st.SearchStrategy[Schema[Any]]:
    few = st.integers(1, 5)
    unions = st.dictionaries(st.integers(1, 127), parts, min_size=1, max_size=3).map(Union)
    return st.one_of(
        st.builds(Vector, parts, few), st.builds(List, parts, progressive_limits), containers(parts), unions
    )


many = st.one_of(st.builds(Vector, basic, lengths), st.builds(List, basic, progressive_limits))
schemas: st.SearchStrategy[Schema[Any]] = st.recursive(st.one_of(flat, many), _extend, max_leaves=8)
"""Any type."""


def values(schema: Schema[Any]) -> st.SearchStrategy[Any]:
    """Any value of a type."""
    match schema:
        case Boolean():
            return st.booleans()
        case Uint():
            return st.integers(0, 256**schema.fixed_size - 1)
        case ByteVector():
            return st.binary(min_size=schema.fixed_size, max_size=schema.fixed_size)
        case Bitvector():
            return st.lists(st.booleans(), min_size=schema.length, max_size=schema.length).map(Bits)
        case ByteList():
            return st.binary(max_size=_most(schema.limit, 100))
        case Bitlist():
            return _bits(_most(schema.limit, 1400))
    return _composite_values(schema)


def _composite_values(schema: Schema[Any]) -> st.SearchStrategy[Any]:
    match schema:
        case Vector():
            return st.tuples(*[values(schema.element)] * schema.length)
        case List():
            return st.lists(values(schema.element), max_size=_most(schema.limit, MOST)).map(tuple)
        case ContainerSchema():
            fields = {name: values(part) for name, part in schema.schemas.items()}
            return st.fixed_dictionaries(fields).map(lambda given: schema.record(**given))
        case Union():
            return st.sampled_from(sorted(schema.options)).flatmap(lambda key: _selected(schema, key))
    raise TypeError(schema)


def _bits(most: int) -> st.SearchStrategy[Bits]:
    """Up to `most` bits, drawn as a number: a list of flags is slow to draw."""
    lengths = st.one_of(st.integers(0, min(most, 20)), st.integers(0, most))
    return lengths.flatmap(
        lambda length: st.integers(0, (1 << length) - 1).map(
            lambda number: Bits.from_bytes(number.to_bytes(-(-length // 8), "little"), length)
        )
    )


def _selected(schema: Union, key: int) -> st.SearchStrategy[Selected]:
    option = schema.options[key]
    return (st.none() if option is None else values(option)).map(lambda data: Selected(key, data))


def _most(limit: int | None, cap: int) -> int:
    return cap if limit is None else min(limit, cap)


@st.composite
def typed_values(draw: st.DrawFn, types: st.SearchStrategy[Schema[Any]] = schemas) -> tuple[Schema[Any], Any]:
    """A type and a value of it."""
    schema = draw(types)
    return schema, draw(values(schema))
