"""Unions and compatible unions (ssz/simple-serialize, EIP-8016)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.hashing import sha256
from anchor.merkle.ssz import BYTE, Schema
from anchor.merkle.tree import Leaf, Pair, Tree

if TYPE_CHECKING:
    from anchor.merkle.container import Container
    from anchor.merkle.scope import Scope


class OneOf:
    """Marks an annotated `Selected`: a union of these records, whose selectors are 0, 1, 2, …"""

    def __init__(self, records: tuple[type[Container], ...]) -> None:
        self.records = records


class Selected(NamedTuple):
    """A union's value: which option, and what it holds."""

    selector: int
    data: Any

    @classmethod
    def make_schema(cls, scope: Scope, _arguments: tuple[Any, ...], mark: OneOf) -> Union:
        """The schema of an annotated union (used by `Scope`)."""
        return Union({selector: scope.schema(record) for selector, record in enumerate(mark.records)})


class Union(Schema[Selected]):
    """One of several types, told by a leading byte. Option None (selector 0 only) holds nothing.

    The selectors of a plain union are 0, 1, 2, …; those of a compatible union are chosen, from 1 to 127.
    """

    fixed_size = None

    def __init__(self, options: Mapping[int, Schema[Any] | None]) -> None:
        if not options or not all(0 <= selector < 128 for selector in options):
            raise Misuse("A union needs options, with selectors from 0 to 127.")
        if any(option is None and selector != 0 for selector, option in options.items()):
            raise Misuse("Only a union's first option can hold nothing.")
        self.options = dict(options)

    def default(self) -> Selected:
        selector, option = next(iter(self.options.items()))
        return Selected(selector, None if option is None else option.default())

    def encode(self, value: Selected) -> bytes:
        option = self._option(value.selector)
        return bytes([value.selector]) + (b"" if option is None else option.encode(value.data))

    def decode(self, data: bytes | memoryview) -> Selected:
        if not data:
            raise MalformedSSZ("a union starts with its selector, and there are no bytes.")
        option = self._option(data[0])
        if option is not None:
            return Selected(data[0], option.decode(data[1:]))
        if len(data) > 1:
            raise MalformedSSZ(f"option {data[0]} of this union holds nothing, not {len(data) - 1} bytes.")
        return Selected(data[0], None)

    def hash_tree_root(self, value: Selected) -> bytes:
        option = self._option(value.selector)
        contents = bytes(32) if option is None else option.hash_tree_root(value.data)
        return sha256(contents + value.selector.to_bytes(32, "little"))

    def tree(self, value: Selected) -> Tree:
        option = self._option(value.selector)
        contents = Leaf(bytes(32)) if option is None else option.tree(value.data)
        return Pair(contents, Leaf(value.selector.to_bytes(32, "little")))

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        if key == "__selector__":
            return BYTE, 3
        option = self.options.get(key) if isinstance(key, int) else None
        if option is None:
            raise Misuse(f"This union has no option {key!r}.")
        return option, 2

    def _option(self, selector: int) -> Schema[Any] | None:
        if selector not in self.options:
            raise MalformedSSZ(f"a union here has no option {selector}.")
        return self.options[selector]

    def __str__(self) -> str:
        return f"Union[{', '.join(f'{k}: {v}' for k, v in self.options.items())}]"
