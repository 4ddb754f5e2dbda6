"""Bitvectors and bitlists: an immutable value, and their schemas (ssz/simple-serialize)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.hashing import merkle_root
from anchor.merkle.ssz import (
    Boolean,
    Schema,
    list_child,
    list_root,
    list_tree,
    require_index,
    require_limit,
    require_size,
)
from anchor.merkle.tree import Chunks, Tree, chunk_depth, pack

BITS_PER_CHUNK = 256


class Bits(Sequence[bool]):
    """An immutable sequence of bits, eight in a byte, the lowest first."""

    __slots__ = ("_data", "_length")

    def __init__(self, bits: Iterable[object] = ()) -> None:
        flags = [bool(bit) for bit in bits]
        data = bytearray(-(-len(flags) // 8))
        for i, flag in enumerate(flags):
            data[i >> 3] |= flag << (i & 7)
        self._data, self._length = bytes(data), len(flags)

    @classmethod
    def from_bytes(cls, data: bytes, length: int) -> Bits:
        """`length` bits out of `data`, whose remaining bits must be zero. Raises MalformedSSZ."""
        if len(data) != -(-length // 8) or (length % 8 and data[-1] >> length % 8):
            raise MalformedSSZ(f"{len(data)} bytes do not hold exactly {length} bits with zero padding.")
        bits = cls.__new__(cls)
        bits._data, bits._length = data, length
        return bits

    @classmethod
    def zeros(cls, length: int) -> Bits:
        """`length` bits, none set."""
        return cls.from_bytes(bytes(-(-length // 8)), length)

    @property
    def data(self) -> bytes:
        """The bits in bytes, without a delimiter."""
        return self._data

    def count_set(self) -> int:
        """How many bits are set."""
        return int.from_bytes(self._data, "little").bit_count()

    def get_set_indices(self) -> list[int]:
        """Positions of the set bits, ascending."""
        digits = f"{int.from_bytes(self._data, 'little'):b}"
        return [place for place, digit in enumerate(reversed(digits)) if digit == "1"]

    def is_subset_of(self, other: Bits) -> bool:
        """Whether every bit set here is set in `other`."""
        return int.from_bytes(self._data, "little") & ~int.from_bytes(other._data, "little") == 0

    def with_bit(self, index: int, flag: bool = True) -> Bits:
        """A copy in which bit `index` is `flag`."""
        if not 0 <= index < self._length:
            raise IndexError(index)
        number = int.from_bytes(self._data, "little") & ~(1 << index) | flag << index
        return Bits.from_bytes(number.to_bytes(len(self._data), "little"), self._length)

    def __or__(self, other: Bits) -> Bits:
        if self._length != other._length:
            raise Misuse(f"Only bits of one length combine, not {self._length} and {other._length}.")
        union = bytes([a | b for a, b in zip(self._data, other._data, strict=True)])
        return Bits.from_bytes(union, self._length)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bool]:
        for i in range(self._length):
            yield bool(self._data[i >> 3] >> (i & 7) & 1)

    @overload
    def __getitem__(self, index: int) -> bool: ...
    @overload
    def __getitem__(self, index: slice) -> list[bool]: ...
    def __getitem__(self, index: int | slice) -> bool | list[bool]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return bool(self._data[index >> 3] >> (index & 7) & 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bits):
            return NotImplemented
        return (self._length, self._data) == (other._length, other._data)

    def __hash__(self) -> int:
        return hash((self._length, self._data))

    def __repr__(self) -> str:
        return f"Bits({''.join('1' if bit else '0' for bit in self)})"


class Bitvector(Schema[Bits]):
    """Exactly `length` bits, at least one."""

    def __init__(self, length: int) -> None:
        if length < 1:
            raise Misuse(f"A bitvector has at least one bit, not {length}.")
        self.length = length

    @property
    def fixed_size(self) -> int:  # type: ignore[override]
        return -(-self.length // 8)

    def default(self) -> Bits:
        return Bits.zeros(self.length)

    def encode(self, value: Bits) -> bytes:
        if len(value) != self.length:
            raise MalformedSSZ(f"{self} has {self.length} bits, not {len(value)}.")
        return value.data

    def decode(self, data: bytes | memoryview) -> Bits:
        require_size(data, self.fixed_size, self)
        return Bits.from_bytes(bytes(data), self.length)

    def hash_tree_root(self, value: Bits) -> bytes:
        return merkle_root(pack(self.encode(value)), self._depth)

    def tree(self, value: Bits) -> Tree:
        return Chunks(pack(self.encode(value)), self._depth)

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return Boolean(), (1 << self._depth) + require_index(key, self.length, self) // BITS_PER_CHUNK

    @cached_property
    def _depth(self) -> int:
        return chunk_depth(-(-self.length // BITS_PER_CHUNK))

    def __str__(self) -> str:
        return f"Bitvector[{self.length}]"


class Bitlist(Schema[Bits]):
    """At most `limit` bits; any number, in a progressive tree, when `limit` is None."""

    fixed_size = None

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def default(self) -> Bits:
        return Bits()

    def encode(self, value: Bits) -> bytes:
        require_limit(len(value), self.limit, self)
        length = len(value)
        number = int.from_bytes(value.data, "little") | 1 << length
        return number.to_bytes(length // 8 + 1, "little")

    def decode(self, data: bytes | memoryview) -> Bits:
        if not data or not data[-1]:
            raise MalformedSSZ(f"{self} ends with the byte of its delimiting bit, and this does not.")
        length = 8 * (len(data) - 1) + data[-1].bit_length() - 1
        require_limit(length, self.limit, self)
        number = int.from_bytes(data, "little") ^ 1 << length
        return Bits.from_bytes(number.to_bytes(-(-length // 8), "little"), length)

    def hash_tree_root(self, value: Bits) -> bytes:
        require_limit(len(value), self.limit, self)
        return list_root(pack(value.data), self._depth, len(value))

    def tree(self, value: Bits) -> Tree:
        return list_tree(pack(value.data), self._depth, len(value), None)

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return list_child(Boolean(), self.limit, BITS_PER_CHUNK, key, self)

    @cached_property
    def _depth(self) -> int | None:
        return None if self.limit is None else chunk_depth(-(-self.limit // BITS_PER_CHUNK))

    def __str__(self) -> str:
        return "ProgressiveBitlist" if self.limit is None else f"Bitlist[{self.limit}]"
