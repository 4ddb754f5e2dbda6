"""The types of the `ssz_generic` vectors (consensus-specs, tests/formats/ssz_generic)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from anchor.merkle.bits import Bitlist, Bits, Bitvector
from anchor.merkle.container import Container
from anchor.merkle.scope import schema_of
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, Schema, Uint
from anchor.merkle.union import Union
from anchor.types import Length, Limit, Progressive, uint8, uint16, uint32, uint64


class SingleFieldTestStruct(Container):
    """One small field."""

    A: uint8


class SmallTestStruct(Container):
    """Two small fields."""

    A: uint16
    B: uint16


class FixedTestStruct(Container):
    """Fields of fixed size that are not aligned."""

    A: uint8
    B: uint64
    C: uint32


class VarTestStruct(Container):
    """A field of variable size between two fixed ones."""

    A: uint16
    B: Annotated[tuple[uint16, ...], Limit(1024)]
    C: uint8


class ComplexTestStruct(Container):
    """Records within a record."""

    A: uint16
    B: Annotated[tuple[uint16, ...], Limit(128)]
    C: uint8
    D: Annotated[bytes, Limit(256)]
    E: VarTestStruct
    F: Annotated[tuple[FixedTestStruct, ...], Length(4)]
    G: Annotated[tuple[VarTestStruct, ...], Length(2)]


class BitsStruct(Container):
    """Bits of all kinds."""

    A: Annotated[Bits, Limit(5)]
    B: Annotated[Bits, Length(2)]
    C: Annotated[Bits, Length(1)]
    D: Annotated[Bits, Limit(6)]
    E: Annotated[Bits, Length(8)]


class ProgressiveTestStruct(Container):
    """Progressive lists."""

    A: Annotated[bytes, Progressive()]
    B: Annotated[tuple[uint64, ...], Progressive()]
    C: Annotated[tuple[SmallTestStruct, ...], Progressive()]
    D: Annotated[tuple[Annotated[tuple[VarTestStruct, ...], Progressive()], ...], Progressive()]


class ProgressiveBitsStruct(Container):
    """Bits around the sizes of chunks and subtrees."""

    A: Annotated[Bits, Length(256)]
    B: Annotated[Bits, Limit(256)]
    C: Annotated[Bits, Progressive()]
    D: Annotated[Bits, Length(257)]
    E: Annotated[Bits, Limit(257)]
    F: Annotated[Bits, Progressive()]
    G: Annotated[Bits, Length(1280)]
    H: Annotated[Bits, Limit(1280)]
    I: Annotated[Bits, Progressive()]  # noqa: E741 - the name that the vectors give it
    J: Annotated[Bits, Length(1281)]
    K: Annotated[Bits, Limit(1281)]
    L: Annotated[Bits, Progressive()]


class ProgressiveSingleFieldContainerTestStruct(Container, active_fields="1"):
    """A progressive container of one field."""

    A: uint8


class ProgressiveSingleListContainerTestStruct(Container, active_fields="00001"):
    """One field behind four that are gone."""

    C: Annotated[Bits, Progressive()]


class ProgressiveVarTestStruct(Container, active_fields="10101"):
    """Gaps between fields."""

    A: uint8
    B: Annotated[tuple[uint16, ...], Limit(123)]
    C: Annotated[Bits, Progressive()]


class ProgressiveComplexTestStruct(Container, active_fields="1010100010001100000011"):
    """Records and progressive lists within a progressive container."""

    A: uint8
    B: Annotated[tuple[uint16, ...], Limit(123)]
    C: Annotated[Bits, Progressive()]
    D: Annotated[tuple[uint64, ...], Progressive()]
    E: Annotated[tuple[SmallTestStruct, ...], Progressive()]
    F: Annotated[tuple[Annotated[tuple[VarTestStruct, ...], Progressive()], ...], Progressive()]
    G: Annotated[tuple[ProgressiveSingleFieldContainerTestStruct, ...], Limit(10)]
    H: Annotated[tuple[ProgressiveVarTestStruct, ...], Progressive()]


CONTAINERS: Final = {
    record.__name__: schema_of(record)
    for record in (
        SingleFieldTestStruct,
        SmallTestStruct,
        FixedTestStruct,
        VarTestStruct,
        ComplexTestStruct,
        BitsStruct,
        ProgressiveTestStruct,
        ProgressiveBitsStruct,
        ProgressiveSingleFieldContainerTestStruct,
        ProgressiveSingleListContainerTestStruct,
        ProgressiveVarTestStruct,
        ProgressiveComplexTestStruct,
    )
}
_ONE = CONTAINERS["ProgressiveSingleFieldContainerTestStruct"]
_LIST = CONTAINERS["ProgressiveSingleListContainerTestStruct"]
_VAR = CONTAINERS["ProgressiveVarTestStruct"]
STRUCTURES: Final[dict[str, Schema[Any]]] = {
    **CONTAINERS,
    "CompatibleUnionA": Union({1: _ONE}),
    "CompatibleUnionBC": Union({2: _LIST, 3: _VAR}),
    "CompatibleUnionABCA": Union({1: _ONE, 2: _LIST, 3: _VAR, 4: _ONE}),
}
UNBOUNDED: Final = 2**20
"""Stands for the limit of a bitlist that is said to have none."""


def get_type(handler: str, name: str) -> Schema[Any]:
    """The type that a case of this name tests. Raises Misuse when there is no such type."""
    words = name.split("_")
    if handler in ("containers", "progressive_containers", "compatible_unions"):
        return STRUCTURES[words[0]]
    makers: dict[str, Callable[[], Schema[Any]]] = {
        "boolean": Boolean,
        "uints": lambda: Uint(int(words[1]) // 8),
        "bitvector": lambda: Bitvector(int(words[1])),
        "bitlist": lambda: Bitlist(UNBOUNDED if words[1] == "no" else int(words[1])),
        "progressive_bitlist": lambda: Bitlist(None),
        "basic_vector": lambda: Vector(_basic(words[1]), int(words[2])),
        "basic_progressive_list": lambda: List(_basic(words[1]), None),
    }
    return makers[handler]()


def _basic(word: str) -> Schema[Any]:
    return Boolean() if word == "bool" else Uint(int(word.removeprefix("uint")) // 8)
