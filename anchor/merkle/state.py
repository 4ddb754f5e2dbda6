"""Mutable records: a consensus state whose unchanged fields keep their roots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from anchor.merkle.columns import Column
from anchor.merkle.container import Container, ContainerSchema, get_root, set_root
from anchor.merkle.ssz import Schema
from anchor.merkle.table import Table


class MutableContainer(Container):
    """A record whose fields can be set. Field values are immutable, or columns and tables."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> Self:
        """An independent copy; columns and tables are shared until one side writes."""
        values = [value.copy() if isinstance(value, Column | Table) else value for value in self.values()]
        twin = type(self).from_values(values)
        set_root(twin, get_root(self))
        return twin

    @classmethod
    def make_schema(cls, schemas: Mapping[str, Schema[Any]]) -> ContainerSchema:
        """The SSZ type of this class, given its fields' types."""
        return MutableContainerSchema(cls, schemas)


class MutableContainerSchema(ContainerSchema):
    """Hashes only the fields that were set since the last time."""

    def field_roots(self, value: Any) -> bytes:
        known = get_root(value)
        kept = known[1] if known is not None and known[0] is self else {}
        fresh, roots = {}, []
        for name, schema in self.schemas.items():
            field = getattr(value, name)
            old = kept.get(name)
            if old is not None and old[0] is field and not isinstance(field, Column | Table):
                root = old[1]
            else:
                root = schema.hash_tree_root(field)
            fresh[name] = (field, root)
            roots.append(root)
        set_root(value, (self, fresh))
        return b"".join(roots)

    def hash_tree_root(self, value: Any) -> bytes:
        return self.combine(self.field_roots(value))
