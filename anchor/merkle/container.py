"""Records: immutable values of SSZ containers (ssz/simple-serialize).

A record class names its fields by annotation and knows no sizes; a `Scope` (a preset's constants, a fork's
records) turns it into a schema. So one `BeaconBlock` serves every fork, and holds the body of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, ClassVar, Self, dataclass_transform

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.hashing import merkle_root, sha256
from anchor.merkle.sequences import apply_each, slice_by_offsets
from anchor.merkle.ssz import OFFSET, Schema, progressive_index
from anchor.merkle.tree import Chunks, Leaf, Pair, Tree, chunk_depth, progressive_root, progressive_tree


@dataclass_transform(kw_only_default=True, frozen_default=True)
class RecordType(type):
    """Class of record classes: a slot for every annotated field."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        renames: Mapping[str, str] | None = None,
        active_fields: str | None = None,
    ) -> RecordType:
        notes = namespace.get("__annotations__", {})
        own = [field for field, note in notes.items() if not note.startswith("ClassVar")]
        namespace.setdefault("__slots__", tuple(own))
        cls = super().__new__(mcs, name, bases, namespace)
        inherited = getattr(bases[0], "fields", ()) if bases else ()
        renamed = [(renames or {}).get(field, field) for field in inherited]
        fields = tuple(dict.fromkeys([*renamed, *own]))
        type.__setattr__(cls, "fields", fields)
        type.__setattr__(cls, "setters", tuple([getattr(cls, field).__set__ for field in fields]))
        if active_fields:
            type.__setattr__(cls, "active_fields", active_fields)
        return cls


class Container(metaclass=RecordType):
    """Base of immutable records. Fields are given by name; `replace` makes a changed copy.

    A subclass adds fields behind those it inherits; `renames={"old": "new"}` puts a new field in an
    old one's place. `active_fields` (a string of 0 and 1) makes it a progressive container (EIP-7495).
    """

    __slots__ = ("_root",)
    fields: ClassVar[tuple[str, ...]]
    """Names of the fields, in SSZ order."""
    setters: ClassVar[tuple[Callable[[Any, Any], None], ...]]
    """What writes each field of a new record."""
    active_fields: ClassVar[str | None] = None

    def __init__(self, **values: Any) -> None:
        names = self.fields
        if len(values) != len(names) or any(name not in values for name in names):
            wrong = sorted(set(names) ^ values.keys())
            raise TypeError(f"{type(self).__name__}(): fields missing or unknown: {', '.join(wrong)}")
        _fill(self, [values[name] for name in names])

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Self:
        """The record with these values, in the order of `fields`."""
        record = cls.__new__(cls)
        _fill(record, values)
        return record

    def replace(self, **changes: Any) -> Self:
        """A copy in which the named fields have new values."""
        return type(self)(**dict(zip(self.fields, self.values(), strict=True)) | changes)

    def values(self) -> tuple[Any, ...]:
        """The fields' values, in order."""
        return tuple([getattr(self, name) for name in self.fields])

    @classmethod
    def make_schema(cls, schemas: Mapping[str, Schema[Any]]) -> ContainerSchema:
        """The SSZ type of this class, given its fields' types."""
        return ContainerSchema(cls, schemas)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: use replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Container) and type(self) is type(other) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.values()))

    def __repr__(self) -> str:
        parts = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.fields])
        return f"{type(self).__name__}({parts})"


set_root: Callable[[Any, Any], None] = vars(Container)["_root"].__set__
"""Keeps what a schema computed of a record: (schema, result)."""
get_root: Callable[[Any], Any] = vars(Container)["_root"].__get__
"""What was kept, or None."""


def _fill(record: Container, values: Sequence[Any]) -> None:
    for setter, value in zip(record.setters, values, strict=True):
        setter(record, value)
    set_root(record, None)


class ContainerSchema(Schema[Any]):
    """The SSZ type of a record class under one scope."""

    def __init__(self, record: type[Container], schemas: Mapping[str, Schema[Any]]) -> None:
        if not schemas:
            raise Misuse(f"{record.__name__} has no fields, and SSZ no such container.")
        self.record = record
        self.schemas = dict(schemas)
        parts = list(self.schemas.values())
        self._variable = [place for place, part in enumerate(parts) if part.fixed_size is None]
        sizes = [OFFSET if part.fixed_size is None else part.fixed_size for part in parts]
        stops = list(accumulate(sizes))
        self._ranges = list(zip([0, *stops], stops, strict=False))
        self._fixed_part = stops[-1]
        self.fixed_size = None if self._variable else self._fixed_part
        self._active = record.active_fields
        self._depth = chunk_depth(len(parts))
        self._get_values = [attrgetter(name) for name in self.schemas]
        self._decoders = [part.decode for part in parts]
        self._encoders = [part.encode for part in parts]
        self._rooters = [part.hash_tree_root for part in parts]

    def default(self) -> Any:
        return self.record.from_values([schema.default() for schema in self.schemas.values()])

    def encode(self, value: Any) -> bytes:
        parts = apply_each(self._encoders, [get(value) for get in self._get_values], self._name_field)
        position, tails = self._fixed_part, [parts[place] for place in self._variable]
        for place, tail in zip(self._variable, tails, strict=True):
            parts[place] = position.to_bytes(OFFSET, "little")
            position += len(tail)
        return b"".join(parts + tails)

    def decode(self, data: bytes | memoryview) -> Any:
        view = memoryview(data)
        if len(view) < self._fixed_part or (self.fixed_size is not None and len(view) > self._fixed_part):
            raise MalformedSSZ(f"{self} has {self._fixed_part} bytes in its fixed part, not {len(view)}.")
        parts = [view[start:stop] for start, stop in self._ranges]
        if self._variable:
            self._follow_offsets(view, parts)
        return self.record.from_values(apply_each(self._decoders, parts, self._name_field))

    def _follow_offsets(self, view: memoryview, parts: list[memoryview]) -> None:
        """Puts what an offset points at into its place in `parts`."""
        offsets = [int.from_bytes(parts[place], "little") for place in self._variable]
        if offsets[0] != self._fixed_part:
            raise MalformedSSZ(f"{self} starts its variable part at {self._fixed_part}, not {offsets[0]}.")
        for place, part in zip(self._variable, slice_by_offsets(view, offsets, self), strict=True):
            parts[place] = part

    def _name_field(self, place: int) -> str:
        return f"{self}.{list(self.schemas)[place]}"

    def hash_tree_root(self, value: Any) -> bytes:
        cached = get_root(value)
        if cached is not None and cached[0] is self:
            return cached[1]  # type: ignore[no-any-return]
        root = self.combine(self.field_roots(value))
        set_root(value, (self, root))
        return root

    def field_roots(self, value: Any) -> bytes:
        """The roots of the fields, joined."""
        values = zip(self._rooters, self._get_values, strict=True)
        return b"".join([root(get(value)) for root, get in values])

    def combine(self, roots: bytes) -> bytes:
        """The container's root over its fields' roots."""
        if self._active is None:
            return merkle_root(roots, self._depth)
        return sha256(progressive_root(self._spread(roots)) + pack_active_fields(self._active))

    def _spread(self, roots: bytes) -> bytes:
        """The field roots, with a zero chunk for every field that is not active."""
        parts = iter([roots[i : i + 32] for i in range(0, len(roots), 32)])
        return b"".join([next(parts) if flag == "1" else bytes(32) for flag in self._active or ""])

    def tree(self, value: Any) -> Tree:
        roots = self.field_roots(value)
        places = self._places()

        def open_field(chunk: int) -> Tree:
            name = list(self.schemas)[places.index(chunk)]
            return self.schemas[name].tree(getattr(value, name))

        if self._active is None:
            return Chunks(roots, self._depth, open_field)
        contents = progressive_tree(self._spread(roots), open_field)
        return Pair(contents, Leaf(pack_active_fields(self._active)))

    def _places(self) -> list[int]:
        """The chunk at which each field stands."""
        active = self._active or "1" * len(self.schemas)
        return [chunk for chunk, flag in enumerate(active) if flag == "1"]

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        if not isinstance(key, str) or key not in self.schemas:
            raise Misuse(f"{self} has no field {key!r}.")
        place = self._places()[list(self.schemas).index(key)]
        if self._active is None:
            return self.schemas[key], (1 << self._depth) + place
        below = progressive_index(place)
        return self.schemas[key], below + (1 << (below.bit_length() - 1))

    def __str__(self) -> str:
        return self.record.__name__


def pack_active_fields(active: str) -> bytes:
    """The 32-byte chunk that tells which fields of a progressive container are active."""
    return int(active[::-1], 2).to_bytes(32, "little")
