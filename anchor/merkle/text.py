"""Text: a byte list that holds UTF-8, whose value is a str."""

from __future__ import annotations

from typing import Any

from anchor.errors import MalformedSSZ
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.ssz import ByteList, Schema
from anchor.merkle.tree import Tree


class Text(Schema[str]):
    """At most `limit` bytes of UTF-8: `ByteList[limit]` in every other respect."""

    fixed_size = None

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._list = ByteList(limit)

    def default(self) -> str:
        return ""

    def encode(self, value: str) -> bytes:
        return self._list.encode(self._bytes(value))

    def decode(self, data: bytes | memoryview) -> str:
        try:
            return self._list.decode(data).decode()
        except UnicodeDecodeError as error:
            raise MalformedSSZ(f"{self} is not UTF-8 at byte {error.start}.") from None

    def hash_tree_root(self, value: str) -> bytes:
        return self._list.hash_tree_root(self._bytes(value))

    def tree(self, value: str) -> Tree:
        return self._list.tree(self._bytes(value))

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return self._list.child(key)

    def _bytes(self, value: str) -> bytes:
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise MalformedSSZ(f"{value!r} is not UTF-8.") from None

    def __str__(self) -> str:
        return f"Text[{self.limit}]"
