"""SSZ schemas: how values encode and hash (consensus specifications, ssz/simple-serialize).

A schema is a plain object; values are plain Python (int, bool, bytes, tuple, Bits, records). Decoding
accepts the one valid encoding of a value and nothing else (rule 27).
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.hashing import hash_pairs, merkle_root, sha256
from anchor.merkle.tree import (
    Chunks,
    Leaf,
    Pair,
    Tree,
    chunk_depth,
    pack,
    progressive_root,
    progressive_tree,
)

V = TypeVar("V")
OFFSET = 4
"""Bytes of an offset: where a variable-size part starts."""


class Schema(ABC, Generic[V]):
    """An SSZ type: its values encode, decode and hash by it."""

    fixed_size: int | None
    """Bytes of every encoding, or None when encodings differ in length."""

    @abstractmethod
    def default(self) -> V:
        """The value whose parts are all zero or empty."""

    @abstractmethod
    def encode(self, value: V) -> bytes:
        """The encoding of `value`. Raises MalformedSSZ when it is not of this type."""

    @abstractmethod
    def decode(self, data: bytes | memoryview) -> V:
        """The value that `data` encodes. Raises MalformedSSZ unless it is the valid encoding."""

    @abstractmethod
    def hash_tree_root(self, value: V) -> bytes:
        """The 32-byte root of `value`'s tree."""

    @abstractmethod
    def tree(self, value: V) -> Tree:
        """The tree of `value`, for cutting proofs."""

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        """The schema at `key` (a field, an index, "__len__") and its index below this root."""
        raise Misuse(f"{self} has no part {key!r}.")

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return str(self)


def get_generalized_index(schema: Schema[Any], *path: str | int) -> GeneralizedIndex:
    """The generalized index of the node that `path` leads to from a value of `schema`."""
    index = 1
    for key in path:
        schema, step = schema.child(key)
        depth = step.bit_length() - 1
        index = (index << depth) | (step - (1 << depth))
    return index


class Basic(Schema[V]):
    """A type whose values are packed into chunks, several in one."""

    fixed_size: int

    def tree(self, value: V) -> Tree:
        return Leaf(self.hash_tree_root(value))

    def hash_tree_root(self, value: V) -> bytes:
        return self.encode(value).ljust(32, b"\0")

    def encode_many(self, values: Sequence[V]) -> bytes:
        """The encodings of `values`, joined."""
        return b"".join([self.encode(value) for value in values])

    def decode_many(self, data: bytes | memoryview) -> tuple[V, ...]:
        """The values whose joined encodings are `data`."""
        return tuple([self.decode(part) for part in split(data, self.fixed_size)])


class Uint(Basic[int]):
    """uintN, little-endian, of `fixed_size` bytes."""

    def __init__(self, fixed_size: int) -> None:
        self.fixed_size = fixed_size

    def default(self) -> int:
        return 0

    def encode(self, value: int) -> bytes:
        try:
            return value.to_bytes(self.fixed_size, "little")
        except OverflowError:
            raise MalformedSSZ(f"{value} is no {self}.") from None

    def decode(self, data: bytes | memoryview) -> int:
        require_size(data, self.fixed_size, self)
        return int.from_bytes(data, "little")

    def encode_many(self, values: Sequence[int]) -> bytes:
        code = _STRUCT_CODES.get(self.fixed_size)
        if code is None:
            return super().encode_many(values)
        try:
            return struct.pack(f"<{len(values)}{code}", *values)
        except struct.error:
            raise MalformedSSZ(f"a value is no {self}.") from None

    def decode_many(self, data: bytes | memoryview) -> tuple[int, ...]:
        code = _STRUCT_CODES.get(self.fixed_size)
        if code is None:
            return super().decode_many(data)
        return struct.unpack(f"<{len(data) // self.fixed_size}{code}", data)

    def __str__(self) -> str:
        return f"uint{8 * self.fixed_size}"


_STRUCT_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Boolean(Basic[bool]):
    """One byte, 0 or 1."""

    fixed_size = 1

    def default(self) -> bool:
        return False

    def encode(self, value: bool) -> bytes:
        return b"\1" if value else b"\0"

    def decode(self, data: bytes | memoryview) -> bool:
        require_size(data, 1, self)
        if data[0] > 1:
            raise MalformedSSZ(f"a boolean is 0 or 1, not {data[0]}.")
        return bool(data[0])

    def __str__(self) -> str:
        return "boolean"


class ByteVector(Schema[bytes]):
    """Exactly `fixed_size` bytes."""

    fixed_size: int

    def __init__(self, fixed_size: int) -> None:
        self.fixed_size = fixed_size

    def default(self) -> bytes:
        return bytes(self.fixed_size)

    def encode(self, value: bytes) -> bytes:
        require_size(value, self.fixed_size, self)
        return bytes(value)

    def decode(self, data: bytes | memoryview) -> bytes:
        require_size(data, self.fixed_size, self)
        return bytes(data)

    def hash_tree_root(self, value: bytes) -> bytes:
        require_size(value, self.fixed_size, self)
        if self.fixed_size == 32:
            return bytes(value)
        return merkle_root(pack(value), self._depth)

    def hash_many(self, values: Sequence[bytes]) -> bytes:
        """The roots of `values`, joined; a level of all their trees at a time."""
        for value in [value for value in values if len(value) != self.fixed_size]:
            require_size(value, self.fixed_size, self)
        padding = bytes((32 << self._depth) - self.fixed_size)
        level = b"".join([value + padding for value in values])
        for _ in range(self._depth):
            level = hash_pairs(level)
        return level

    def tree(self, value: bytes) -> Tree:
        return Chunks(pack(self.encode(value)), self._depth)

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return BYTE, (1 << self._depth) + require_index(key, self.fixed_size, self) // 32

    @cached_property
    def _depth(self) -> int:
        return chunk_depth(-(-self.fixed_size // 32))

    def __str__(self) -> str:
        return f"ByteVector[{self.fixed_size}]"


class ByteList(Schema[bytes]):
    """At most `limit` bytes; any number, in a progressive tree, when `limit` is None."""

    fixed_size = None

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def default(self) -> bytes:
        return b""

    def encode(self, value: bytes) -> bytes:
        require_limit(len(value), self.limit, self)
        return bytes(value)

    def decode(self, data: bytes | memoryview) -> bytes:
        require_limit(len(data), self.limit, self)
        return bytes(data)

    def hash_tree_root(self, value: bytes) -> bytes:
        require_limit(len(value), self.limit, self)
        return list_root(pack(value), self._depth, len(value))

    def tree(self, value: bytes) -> Tree:
        return list_tree(pack(self.encode(value)), self._depth, len(value), None)

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return list_child(BYTE, self.limit, 32, key, self)

    @cached_property
    def _depth(self) -> int | None:
        return None if self.limit is None else chunk_depth(-(-self.limit // 32))

    def __str__(self) -> str:
        return "ProgressiveByteList" if self.limit is None else f"ByteList[{self.limit}]"


BYTE = Uint(1)
UINT64 = Uint(8)


def list_root(chunks: bytes, depth: int | None, length: int) -> bytes:
    """Root of a list: its chunks' root (progressive when `depth` is None) with the length mixed in."""
    contents = progressive_root(chunks) if depth is None else merkle_root(chunks, depth)
    return sha256(contents + length.to_bytes(32, "little"))


def list_tree(
    chunks: bytes, depth: int | None, length: int, open_chunk: Callable[[int], Tree] | None
) -> Tree:
    """The tree whose root is `list_root` of the same."""
    contents = progressive_tree(chunks, open_chunk) if depth is None else Chunks(chunks, depth, open_chunk)
    return Pair(contents, Leaf(length.to_bytes(32, "little")))


def list_child(
    element: Schema[Any], limit: int | None, per_chunk: int, key: str | int, owner: Schema[Any]
) -> tuple[Schema[Any], GeneralizedIndex]:
    """Where `key` stands below a list's root: contents left, length right."""
    if key == "__len__":
        return UINT64, 3
    chunk = require_index(key, limit, owner) // per_chunk
    if limit is None:
        return element, _under(2, progressive_index(chunk))
    return element, (2 << chunk_depth(-(-limit // per_chunk))) + chunk


def progressive_index(chunk: int) -> GeneralizedIndex:
    """The generalized index of a chunk of a progressive tree: leftmost subtrees of 1, 4, 16, … chunks."""
    index, depth = 1, 0
    while chunk >= 1 << depth:
        chunk -= 1 << depth
        index, depth = 2 * index + 1, depth + 2
    return (2 * index << depth) + chunk


def _under(top: GeneralizedIndex, index: GeneralizedIndex) -> GeneralizedIndex:
    depth = index.bit_length() - 1
    return (top << depth) | (index - (1 << depth))


def require_size(data: bytes | memoryview, size: int, owner: Schema[Any]) -> None:
    """Raises MalformedSSZ unless `data` has `size` bytes."""
    if len(data) != size:
        raise MalformedSSZ(f"{owner} has {size} bytes, not {len(data)}.")


def require_limit(count: int, limit: int | None, owner: Schema[Any]) -> None:
    """Raises MalformedSSZ when there are more than `limit`."""
    if limit is not None and count > limit:
        raise MalformedSSZ(f"{owner} holds at most {limit}, not {count}.")


def require_index(key: str | int, limit: int | None, owner: Schema[Any]) -> int:
    """`key` as a position below `limit`. Raises Misuse when it is none."""
    if not isinstance(key, int) or key < 0 or (limit is not None and key >= limit):
        raise Misuse(f"{owner} has no part {key!r}.")
    return key


def split(data: bytes | memoryview, size: int) -> Iterator[memoryview]:
    """`data` in pieces of `size` bytes, without a copy."""
    view = memoryview(data)
    return (view[start : start + size] for start in range(0, len(view), size))
