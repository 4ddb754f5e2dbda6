"""Vectors and lists of any element (ssz/simple-serialize). Values are tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.hashing import merkle_root
from anchor.merkle.ssz import (
    OFFSET,
    Basic,
    ByteVector,
    Schema,
    list_child,
    list_root,
    list_tree,
    require_index,
    require_limit,
    split,
)
from anchor.merkle.tree import Chunks, Tree, chunk_depth, pack

Values = tuple[Any, ...]


class Vector(Schema[Values]):
    """Exactly `length` elements, at least one."""

    def __init__(self, element: Schema[Any], length: int) -> None:
        if length < 1:
            raise Misuse(f"A vector has at least one element, not {length}.")
        self.element, self.length = element, length

    @property
    def fixed_size(self) -> int | None:  # type: ignore[override]
        return None if self.element.fixed_size is None else self.length * self.element.fixed_size

    def default(self) -> Values:
        return (self.element.default(),) * self.length

    def encode(self, value: Sequence[Any]) -> bytes:
        self._require_length(len(value))
        return encode_elements(self.element, value)

    def decode(self, data: bytes | memoryview) -> Values:
        values = decode_elements(self.element, data, self.length, self)
        self._require_length(len(values))
        return values

    def hash_tree_root(self, value: Sequence[Any]) -> bytes:
        self._require_length(len(value))
        return merkle_root(element_chunks(self.element, value), self.depth)

    def tree(self, value: Sequence[Any]) -> Tree:
        self._require_length(len(value))
        return Chunks(element_chunks(self.element, value), self.depth, open_element(self.element, value))

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        index = require_index(key, self.length, self)
        return self.element, (1 << self.depth) + index // per_chunk(self.element)

    def _require_length(self, count: int) -> None:
        if count != self.length:
            raise MalformedSSZ(f"{self} has {self.length} elements, not {count}.")

    @cached_property
    def depth(self) -> int:
        """Depth of the tree over the chunks."""
        return chunk_depth(-(-self.length // per_chunk(self.element)))

    def __str__(self) -> str:
        return f"Vector[{self.element}, {self.length}]"


class List(Schema[Values]):
    """At most `limit` elements; any number, in a progressive tree, when `limit` is None."""

    fixed_size = None

    def __init__(self, element: Schema[Any], limit: int | None) -> None:
        self.element, self.limit = element, limit

    def default(self) -> Values:
        return ()

    def encode(self, value: Sequence[Any]) -> bytes:
        require_limit(len(value), self.limit, self)
        return encode_elements(self.element, value)

    def decode(self, data: bytes | memoryview) -> Values:
        return decode_elements(self.element, data, self.limit, self)

    def hash_tree_root(self, value: Sequence[Any]) -> bytes:
        require_limit(len(value), self.limit, self)
        return list_root(element_chunks(self.element, value), self.depth, len(value))

    def tree(self, value: Sequence[Any]) -> Tree:
        require_limit(len(value), self.limit, self)
        chunks = element_chunks(self.element, value)
        return list_tree(chunks, self.depth, len(value), open_element(self.element, value))

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return list_child(self.element, self.limit, per_chunk(self.element), key, self)

    @cached_property
    def depth(self) -> int | None:
        """Depth of the contents below the length's mixing in; None when progressive."""
        return None if self.limit is None else chunk_depth(-(-self.limit // per_chunk(self.element)))

    def __str__(self) -> str:
        if self.limit is None:
            return f"ProgressiveList[{self.element}]"
        return f"List[{self.element}, {self.limit}]"


def per_chunk(element: Schema[Any]) -> int:
    """How many elements one 32-byte chunk holds."""
    return 32 // element.fixed_size if isinstance(element, Basic) else 1


def element_chunks(element: Schema[Any], values: Sequence[Any]) -> bytes:
    """The 32-byte chunks over `values`: packed when they are basic, else their roots."""
    if isinstance(element, Basic):
        return pack(element.encode_many(values))
    if isinstance(element, ByteVector):
        return element.hash_many(values)
    root = element.hash_tree_root
    return b"".join([root(value) for value in values])


def open_element(element: Schema[Any], values: Sequence[Any]) -> Callable[[int], Tree] | None:
    """What opens the tree below one chunk, where a chunk is one element."""
    if isinstance(element, Basic):
        return None
    return lambda index: element.tree(values[index])


def encode_elements(element: Schema[Any], values: Sequence[Any]) -> bytes:
    """The joined encodings of `values`, behind a table of offsets where they differ in length."""
    if isinstance(element, Basic):
        return element.encode_many(values)
    parts = apply_each(repeat(element.encode), values, "[{}]".format)
    if element.fixed_size is not None:
        return b"".join(parts)
    offsets, position = [], OFFSET * len(parts)
    for part in parts:
        offsets.append(position.to_bytes(OFFSET, "little"))
        position += len(part)
    return b"".join(offsets + parts)


def decode_elements(
    element: Schema[Any], data: bytes | memoryview, limit: int | None, owner: Schema[Any]
) -> Values:
    """The elements that `data` holds, at most `limit` (counted before anything is built)."""
    size = element.fixed_size
    if size is None:
        parts = _split_by_offsets(memoryview(data), limit, owner)
        return tuple(apply_each(repeat(element.decode), parts, "[{}]".format))
    if len(data) % size:
        raise MalformedSSZ(f"{owner} has elements of {size} bytes, and {len(data)} are not whole ones.")
    require_limit(len(data) // size, limit, owner)
    if isinstance(element, Basic):
        return element.decode_many(data)
    if isinstance(element, ByteVector):
        whole = bytes(data)
        return tuple([whole[i : i + size] for i in range(0, len(whole), size)])
    return tuple(apply_each(repeat(element.decode), split(data, size), "[{}]".format))


def apply_each(
    functions: Iterable[Callable[[Any], Any]], arguments: Iterable[Any], name: Callable[[int], str]
) -> list[Any]:
    """What each function makes of its argument; an error is placed at `name` of its number."""
    results: list[Any] = []
    try:
        for function, argument in zip(functions, arguments, strict=False):
            results.append(function(argument))
    except MalformedSSZ as error:
        raise error.within(name(len(results))) from None
    return results


def _split_by_offsets(data: memoryview, limit: int | None, owner: Schema[Any]) -> list[memoryview]:
    if not data:
        return []
    first = int.from_bytes(data[:OFFSET], "little")
    if first % OFFSET or first < OFFSET or first > len(data):
        raise MalformedSSZ(f"{owner} starts with offset {first}, of {len(data)} bytes.")
    require_limit(first // OFFSET, limit, owner)
    offsets = [int.from_bytes(data[i : i + OFFSET], "little") for i in range(0, first, OFFSET)]
    return slice_by_offsets(data, offsets, owner)


def slice_by_offsets(data: memoryview, offsets: Sequence[int], owner: Schema[Any]) -> list[memoryview]:
    """The variable-size parts that `offsets` delimit; they must not go back or beyond the end."""
    ends = [*offsets[1:], len(data)]
    for start, end in zip(offsets, ends, strict=True):
        if start > end:
            raise MalformedSSZ(f"{owner} has offset {start} beyond the next part's or the end at {end}.")
    return [data[start:end] for start, end in zip(offsets, ends, strict=True)]
