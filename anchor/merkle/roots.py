"""Long lists of digests, held as one `bytes`: a million of them decode and hash without a million objects."""

from __future__ import annotations

from typing import Any

from anchor.errors import MalformedSSZ
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.ssz import ByteVector, Schema, list_child, list_root, list_tree, require_limit
from anchor.merkle.tree import Leaf, Tree, chunk_depth

DIGEST = ByteVector(32)


class Roots(Schema[bytes]):
    """`List[Bytes32, limit]` whose value is its digests, joined: digest i is at 32 · i."""

    fixed_size = None

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def default(self) -> bytes:
        return b""

    def encode(self, value: bytes) -> bytes:
        self._count(value)
        return bytes(value)

    def decode(self, data: bytes | memoryview) -> bytes:
        self._count(data)
        return bytes(data)

    def hash_tree_root(self, value: bytes) -> bytes:
        return list_root(value, chunk_depth(self.limit), self._count(value))

    def tree(self, value: bytes) -> Tree:
        count = self._count(value)
        return list_tree(value, chunk_depth(self.limit), count, lambda i: Leaf(value[32 * i : 32 * i + 32]))

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return list_child(DIGEST, self.limit, 1, key, self)

    def _count(self, value: bytes | memoryview) -> int:
        """How many digests there are. Raises MalformedSSZ for too many, or a part of one."""
        count, rest = divmod(len(value), 32)
        if rest:
            raise MalformedSSZ(f"{self} has whole digests of 32 bytes, not {len(value)} bytes.")
        require_limit(count, self.limit, self)
        return count

    def __str__(self) -> str:
        return f"List[Bytes32, {self.limit}]"
