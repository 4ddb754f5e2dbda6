"""From annotations to schemas: a scope knows a preset's constants and a fork's records."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Annotated, Any, get_args, get_origin

from anchor.errors import Misuse
from anchor.merkle.bits import Bitlist, Bits, Bitvector
from anchor.merkle.container import Container, ContainerSchema
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint
from anchor.types import Length, Limit, Progressive, Size, Width

Mark = Width | Length | Limit | Progressive


class Scope:
    """Resolves record classes to schemas.

    `constants` gives the sizes that annotations name. `records` gives, by name, the record class to use
    wherever one of that name is annotated: a fork's own instead of the one it inherits from.
    """

    def __init__(
        self, constants: Mapping[str, int] | None = None, records: Mapping[str, type[Container]] | None = None
    ) -> None:
        self.constants = dict(constants or {})
        self.records = dict(records or {})
        self._schemas: dict[type[Container], ContainerSchema] = {}

    def schema(self, record: type[Container] | str) -> ContainerSchema:
        """The schema of a record class, or of the one with this name."""
        if isinstance(record, str):
            if record not in self.records:
                raise Misuse(f"There is no record {record} here.")
            record = self.records[record]
        chosen = self.records.get(record.__name__, record)
        if chosen not in self._schemas:
            hints = _get_hints(chosen)
            fields = {name: self.resolve(hints[name]) for name in chosen.fields}
            self._schemas[chosen] = chosen.make_schema(fields)
        return self._schemas[chosen]

    def hash_tree_root(self, record: Container) -> bytes:
        """The root of a record, by the schema of its class in this scope."""
        return self.schema(type(record)).hash_tree_root(record)

    def encode(self, record: Container) -> bytes:
        """The encoding of a record, by the schema of its class in this scope."""
        return self.schema(type(record)).encode(record)

    def resolve(self, note: Any) -> Schema[Any]:
        """The schema of an annotation."""
        kind, mark = _split_annotation(note)
        if isinstance(kind, type) and issubclass(kind, Container):
            return self.schema(kind)
        if kind is bool:
            return Boolean()
        if isinstance(mark, Schema):
            return mark
        if kind is int and isinstance(mark, Width):
            return Uint(mark.size)
        if kind is bytes and mark is not None:
            return self._bytes(mark)
        if kind is Bits and mark is not None:
            return self._bits(mark)
        if get_origin(kind) is tuple and mark is not None:
            return self.sequence(self.resolve(get_args(kind)[0]), mark)
        if hasattr(kind, "make_schema"):  # a column: a list with a representation of its own
            return kind.make_schema(self, get_args(kind), mark)  # type: ignore[no-any-return]
        raise Misuse(f"{note} does not tell its SSZ type.")

    def _bytes(self, mark: Mark) -> Schema[Any]:
        if isinstance(mark, Length):
            return ByteVector(self.size(mark.size))
        return ByteList(self.limit(mark))

    def _bits(self, mark: Mark) -> Schema[Any]:
        if isinstance(mark, Length):
            return Bitvector(self.size(mark.size))
        return Bitlist(self.limit(mark))

    def sequence(self, element: Schema[Any], mark: Mark) -> Vector | List:
        """The vector or list of `element` that a mark asks for."""
        if isinstance(mark, Length):
            return Vector(element, self.size(mark.size))
        return List(element, self.limit(mark))

    def limit(self, mark: Limit | Progressive | Width) -> int | None:
        """A list's limit, None when it is progressive."""
        return None if isinstance(mark, Progressive) else self.size(mark.size)

    def size(self, size: Size) -> int:
        """The number that a size stands for."""
        if isinstance(size, int):
            return size
        terms = [term.split("*") for term in size.split("+")]
        return sum([prod([self._number(name.strip()) for name in term]) for term in terms])

    def _number(self, name: str) -> int:
        if name.isdecimal():
            return int(name)
        if name not in self.constants:
            raise Misuse(f"The preset has no constant {name}, which a size needs.")
        return self.constants[name]


@cache
def _get_hints(record: type[Container]) -> dict[str, Any]:
    """The annotations of a record's fields, evaluated: scopes differ in sizes only."""
    hints: dict[str, Any] = {}
    for kind in reversed(record.__mro__):
        notes = vars(kind).get("__annotations__", {})
        hints |= {field: _evaluate(notes[field], kind.__module__) for field in notes.keys() & record.fields}
    return hints


@cache
def _evaluate(note: str, module: str) -> Any:
    """What an annotation of `module` says. Many say the same or are just a name: `typing.get_type_hints`,
    which treats each as if it were the first, takes several times as long.
    """
    names = vars(sys.modules[module])
    return names[note] if note in names else eval(note, names)  # noqa: S307  our own source


def _split_annotation(note: Any) -> tuple[Any, Any]:
    if get_origin(note) is Annotated:
        kind, *marks = get_args(note)
        return kind, marks[-1]
    return note, None


@cache
def schema_of(record: type[Container]) -> ContainerSchema:
    """The schema of a record class whose annotations name no constants."""
    return _PLAIN.schema(record)


def hash_tree_root(record: Container) -> bytes:
    """The root of a record whose annotations name no constants."""
    return schema_of(type(record)).hash_tree_root(record)


_PLAIN = Scope()
