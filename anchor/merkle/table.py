"""Tables: large lists of small fixed-size records, one NumPy array a field (the validator registry)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from anchor.errors import MalformedSSZ
from anchor.merkle.columns import Rows, require_booleans
from anchor.merkle.container import Container, ContainerSchema
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.hashing import hash_pairs_into
from anchor.merkle.lazy import np
from anchor.merkle.sequences import List
from anchor.merkle.ssz import Boolean, ByteVector, Schema, Uint, list_root, require_limit
from anchor.merkle.tree import Tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anchor.merkle.scope import Scope

R = TypeVar("R", bound=Container)
BLOCK = 2048
"""Records hashed at a time: their leaves stay in the processor's cache."""


class Table(Generic[R]):
    """A list of records of fixed-size fields. `table.column("field")` reads, `write` changes."""

    __slots__ = ("_columns", "_count", "_dirty", "_record", "_roots", "_schema", "_shared", "_versions")

    def __init__(self, record: type[R], columns: Mapping[str, NDArray[Any]], count: int) -> None:
        self._record, self._columns, self._count = record, dict(columns), count
        self._shared = set(self._columns)  # fields whose array someone else may hold
        self._roots: NDArray[Any] | None = None  # (count, 32): the records' roots, but for the dirty rows
        self._dirty: NDArray[Any] | None = None  # (count,) flags
        self._schema: object = None
        self._versions = {name: object() for name in self._columns}

    def column(self, name: str) -> NDArray[Any]:
        """The values of one field, (n,) or (n, width); not to be written to."""
        view = self._columns[name][: self._count]
        view.flags.writeable = False
        return view

    def version(self, name: str) -> object:
        """What stays the same, here and in copies, until the field's values or the count change."""
        return self._versions[name]

    def copy(self) -> Self:
        """An independent copy, which costs nothing until one of the two is written to."""
        self._shared = set(self._columns)
        twin = type(self)(self._record, self._columns, self._count)
        twin._versions = self._versions.copy()
        twin._roots, twin._schema = self._roots, self._schema
        twin._dirty = None if self._dirty is None else self._dirty.copy()
        return twin

    def write(self, name: str, rows: Rows, values: Any) -> None:
        """Sets field `name` of `rows` (an index, a slice, an array of indices or flags) to `values`."""
        if name in self._shared:
            self._columns[name] = self._columns[name][: self._count].copy()
            self._shared.discard(name)
        if isinstance(values, bytes):
            values = np.frombuffer(values, np.uint8)
        self._columns[name][: self._count][rows] = values
        self._versions[name] = object()
        self._mark(rows)

    def append(self, record: R) -> None:
        """Adds one record behind the last."""
        for name, array in self._columns.items():
            if name in self._shared or self._count == len(array):
                grown = np.zeros((self._count + self._count // 8 + 8, *array.shape[1:]), array.dtype)
                grown[: self._count] = array[: self._count]
                self._columns[name] = grown
        self._shared.clear()
        self._count += 1
        self._grow_roots()
        self[self._count - 1] = record

    def _grow_roots(self) -> None:
        if self._roots is not None and self._dirty is not None:
            self._roots = np.concatenate([self._roots, np.zeros((1, 32), np.uint8)])
            self._dirty = np.append(self._dirty, True)

    def _mark(self, rows: Rows) -> None:
        if self._dirty is not None:
            self._dirty[rows] = True

    def __setitem__(self, index: int, record: R) -> None:
        for name in self._columns:
            self.write(name, index, getattr(record, name))

    def __getitem__(self, index: int) -> R:
        values = []
        for name in self._columns:
            value = self._columns[name][: self._count][index]
            values.append(value.tobytes() if value.ndim else value.item())
        return self._record.from_values(values)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[R]:
        return (self[i] for i in range(self._count))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table) or len(self) != len(other):
            return False
        return all(np.array_equal(self.column(name), other.column(name)) for name in self._columns)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def make_schema(cls, scope: Scope, element: tuple[Any], mark: Any) -> TableSchema:
        """The schema of an annotated table (used by `Scope`)."""
        return TableSchema(scope.schema(element[0]), scope.limit(mark))

    def record_roots(self, schema: TableSchema) -> NDArray[Any]:
        """(n, 32): each record's root. Only what was written since the last call is hashed."""
        if self._roots is None or self._dirty is None or self._schema is not schema:
            self._roots = schema.compute_roots(self._columns, self._count)
        elif self._dirty.any():
            rows = np.flatnonzero(self._dirty)
            self._roots = self._roots.copy()  # a copy of this table may hold the old ones
            self._roots[rows] = schema.compute_roots(self._columns, len(rows), rows)
        self._dirty, self._schema = np.zeros(self._count, bool), schema
        return self._roots


class TableSchema(Schema[Table[Any]]):
    """The SSZ type of a table: the same encoding and root as List[record, limit]."""

    fixed_size = None

    def __init__(self, element: ContainerSchema, limit: int | None) -> None:
        self.plain = List(element, limit)
        self._element = element
        self._limit = limit
        self._fields = [(name, *_layout(schema)) for name, schema in element.schemas.items()]
        self._flags = [name for name, schema in element.schemas.items() if isinstance(schema, Boolean)]

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype([(name, kind, shape) for name, kind, shape in self._fields])

    def default(self) -> Table[Any]:
        return self.decode(b"")

    def encode(self, value: Table[Any]) -> bytes:
        require_limit(len(value), self._limit, self)
        rows = np.empty(len(value), self._dtype)
        for name in self._element.schemas:
            rows[name] = value.column(name)
        return rows.tobytes()

    def decode(self, data: bytes | memoryview) -> Table[Any]:
        size = self._element.fixed_size or 1
        if len(data) % size:
            raise MalformedSSZ(f"{self} has elements of {size} bytes, and {len(data)} are not whole ones.")
        require_limit(len(data) // size, self._limit, self)
        rows = np.frombuffer(data, self._dtype)
        columns = {name: np.ascontiguousarray(rows[name]) for name in self._element.schemas}
        for name in self._flags:
            require_booleans(columns[name], self)
        return Table(self._element.record, columns, len(rows))

    def hash_tree_root(self, value: Table[Any]) -> bytes:
        require_limit(len(value), self._limit, self)
        return list_root(value.record_roots(self).tobytes(), self.plain.depth, len(value))

    def compute_roots(
        self, columns: Mapping[str, NDArray[Any]], count: int, rows: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """(count, 32): the roots of the `count` records at `rows`, or of the first ones."""
        roots = np.empty((count, 32), np.uint8)
        leaves = np.zeros((BLOCK, 1 << (len(self._fields) - 1).bit_length(), 32), np.uint8)
        for start in range(0, count, BLOCK):
            block = slice(start, min(start + BLOCK, count))
            part = leaves[: block.stop - start]
            for place, (name, _, shape) in enumerate(self._fields):
                values = columns[name][block if rows is None else rows[block]]
                _fill_leaf(part[:, place], values, shape)
            roots[block] = _fold(part, len(part))
        return roots

    def tree(self, value: Table[Any]) -> Tree:
        return self.plain.tree(tuple(value))

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return self.plain.child(key)

    def __str__(self) -> str:
        return str(self.plain)


def _layout(schema: Schema[Any]) -> tuple[str, tuple[int, ...]]:
    if isinstance(schema, ByteVector):
        return "u1", (schema.fixed_size,)
    if isinstance(schema, Uint | Boolean):
        return ("?" if isinstance(schema, Boolean) else f"<u{schema.fixed_size}"), ()
    raise TypeError(f"a table holds numbers, flags and bytes, not {schema}")


def _fill_leaf(leaf: NDArray[Any], values: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Writes the roots of `values` into `leaf`, (n, 32); bytes beyond a value's width are zero already."""
    if not shape:
        leaf[:, : values.itemsize].view(values.dtype)[:, 0] = values
    elif shape[0] <= 32:
        leaf[:, : shape[0]] = values
    else:
        padded = np.zeros((len(values), 1 << (shape[0] - 1).bit_length()), np.uint8)
        padded[:, : shape[0]] = values
        leaf[:] = _fold(padded, len(values))


def _fold(nodes: NDArray[Any], count: int) -> NDArray[Any]:
    """Hashes levels above `nodes` until `count` roots are left: (count, 32)."""
    room, level = np.empty(nodes.size // 2, np.uint8), nodes.reshape(-1)
    while level.size > 32 * count:
        half = room[: level.size // 2]
        hash_pairs_into(half, level)
        level = half
    return level.reshape(count, 32)
