"""Encodings and roots against another implementation: the package `ssz` from PyPI.

It has no progressive types and no unions. Its decoder checks neither limits nor, everywhere, offsets; so
what it encodes must decode here, and not the other way round.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.merkle.bits import Bitlist, Bitvector
from anchor.merkle.container import ContainerSchema
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint
from tests.merkle.ssz_strategies import basic, flat, lengths, limits, make_record, typed_values

sedes = pytest.importorskip("ssz.sedes")


def _is_known(schema: Schema[Any]) -> bool:
    return getattr(schema, "limit", 0) is not None


def _extend(parts: st.SearchStrategy[Schema[Any]]) -> st.SearchStrategy[Schema[Any]]:
    containers = st.lists(parts, min_size=1, max_size=6).map(_make_container)
    return st.one_of(st.builds(Vector, parts, st.integers(1, 5)), st.builds(List, parts, limits), containers)


def _make_container(parts: list[Schema[Any]]) -> Schema[Any]:
    return ContainerSchema(make_record(len(parts)), {f"f{i}": part for i, part in enumerate(parts)})


many = st.one_of(st.builds(Vector, basic, lengths), st.builds(List, basic, limits))
schemas = st.recursive(st.one_of(flat.filter(_is_known), many), _extend, max_leaves=8)


def translate(schema: Schema[Any]) -> Any:
    """The type in the words of the other package."""
    match schema:
        case Uint():
            return sedes.UInt(8 * schema.fixed_size)
        case Boolean():
            return sedes.Boolean()
        case ByteVector():
            return sedes.ByteVector(schema.fixed_size)
        case ByteList():
            return sedes.ByteList(schema.limit)
        case Bitvector():
            return sedes.Bitvector(schema.length)
        case Bitlist():
            return sedes.Bitlist(schema.limit)
        case Vector():
            return sedes.Vector(translate(schema.element), schema.length)
        case List():
            return sedes.List(translate(schema.element), schema.limit)
        case ContainerSchema():
            return sedes.Container([translate(part) for part in schema.schemas.values()])
    raise TypeError(schema)


def plain(schema: Schema[Any], value: Any) -> Any:
    """The value in the words of the other package."""
    match schema:
        case Bitvector() | Bitlist():
            return tuple(value)
        case Vector() | List():
            return tuple(plain(schema.element, element) for element in value)
        case ContainerSchema():
            return tuple(plain(part, getattr(value, name)) for name, part in schema.schemas.items())
    return value


@settings(max_examples=40)  # the other package takes its time
@given(typed_values(schemas))
def test_both_encode_and_root_alike(typed: tuple[Schema[Any], Any]) -> None:
    schema, value = typed
    other, theirs = translate(schema), plain(schema, value)
    data = other.serialize(theirs)
    assert schema.encode(value) == data
    assert schema.decode(data) == value
    assert schema.hash_tree_root(value) == other.get_hash_tree_root(theirs)
