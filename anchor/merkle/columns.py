"""Columns: large lists of basic values or of small records, held as NumPy arrays.

A `Column` is a List or Vector of uintN, boolean or ByteVector; `anchor.merkle.table` holds records.
Copies are cheap: arrays are shared until one side writes. Roots are kept until a write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from anchor.errors import MalformedSSZ
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.hashing import merkle_root
from anchor.merkle.lazy import np
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteVector, Schema, list_root, require_limit
from anchor.merkle.tree import Tree, pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anchor.merkle.scope import Scope

T = TypeVar("T")
Rows = Any
"""An index, a slice, or an array of indices or flags."""


class Column(Generic[T]):
    """A list of uintN, boolean or ByteVector values in one array: shape (n,), or (n, width) of bytes."""

    __slots__ = ("_array", "_count", "_root", "_shared")

    def __init__(self, array: NDArray[Any]) -> None:
        self._array, self._count = array, len(array)
        self._shared = True  # the array is the caller's until the first write
        self._root: tuple[object, bytes] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """The values; not to be written to."""
        view = self._array[: self._count]
        view.flags.writeable = False
        return view

    def copy(self) -> Self:
        """An independent copy, which costs nothing until one of the two is written to."""
        self._shared = True
        twin = type(self)(self._array)
        twin._count, twin._root = self._count, self._root
        return twin

    def assign(self, values: NDArray[Any]) -> None:
        """Replaces all values."""
        if values.dtype != self._array.dtype or values.shape[1:] != self._array.shape[1:]:
            raise TypeError(f"a column of {self._array.dtype} cannot hold {values.dtype}{values.shape}")
        self._array, self._count, self._shared, self._root = values, len(values), True, None

    def append(self, value: T) -> None:
        """Adds one value behind the last."""
        if self._shared or self._count == len(self._array):
            grown = np.empty((self._count + self._count // 8 + 8, *self._array.shape[1:]), self._array.dtype)
            grown[: self._count] = self._array[: self._count]
            self._array, self._shared = grown, False
        self._count += 1
        self[self._count - 1] = value

    def __setitem__(self, rows: Rows, value: Any) -> None:
        if self._shared:
            self._array, self._shared = self._array[: self._count].copy(), False
        if isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)
        self._array[: self._count][rows] = value
        self._root = None

    def __getitem__(self, index: int) -> T:
        value = self._array[: self._count][index]
        return value.tobytes() if self._array.ndim == 2 else value.item()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(self._count))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and np.array_equal(self.array, other.array)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def make_schema(cls, scope: Scope, element: tuple[Any], mark: Any) -> ColumnSchema:
        """The schema of an annotated column (used by `Scope`)."""
        return ColumnSchema(scope.sequence(scope.resolve(element[0]), mark))

    def cached_root(self, schema: ColumnSchema) -> bytes:
        """The root by `schema`, computed once for the present values."""
        if self._root is None or self._root[0] is not schema:
            self._root = (schema, schema.compute_root(self))
        return self._root[1]


class ColumnSchema(Schema[Column[Any]]):
    """The SSZ type of a column: the same encoding and root as the plain list or vector."""

    def __init__(self, plain: List | Vector) -> None:
        self.plain = plain
        self.fixed_size = plain.fixed_size
        self._element = plain.element
        size = self._element.fixed_size or 0
        is_bytes = isinstance(self._element, ByteVector)
        self._dtype = "?" if isinstance(self._element, Boolean) else "u1" if is_bytes else f"<u{size}"
        self._row = (size,) if is_bytes else ()

    def default(self) -> Column[Any]:
        count = self.plain.length if isinstance(self.plain, Vector) else 0
        return Column(np.zeros((count, *self._row), self._dtype))

    def encode(self, value: Column[Any]) -> bytes:
        self._require_count(len(value))
        return value.array.tobytes()

    def decode(self, data: bytes | memoryview) -> Column[Any]:
        size = self._element.fixed_size or 1
        if len(data) % size:
            raise MalformedSSZ(f"{self} has elements of {size} bytes, and {len(data)} are not whole ones.")
        self._require_count(len(data) // size)
        values = np.frombuffer(bytes(data), self._dtype).reshape(-1, *self._row)
        if isinstance(self._element, Boolean):
            require_booleans(values, self)
        return Column(values)

    def hash_tree_root(self, value: Column[Any]) -> bytes:
        return value.cached_root(self)

    def compute_root(self, value: Column[Any]) -> bytes:
        """The root of the present values."""
        self._require_count(len(value))
        if isinstance(self._element, ByteVector) and self._element.fixed_size != 32:
            return self.plain.hash_tree_root(tuple(value))
        chunks = pack(value.array.tobytes())
        if isinstance(self.plain, Vector):
            return merkle_root(chunks, self.plain.depth)
        return list_root(chunks, self.plain.depth, len(value))

    def tree(self, value: Column[Any]) -> Tree:
        return self.plain.tree(tuple(value))

    def child(self, key: str | int) -> tuple[Schema[Any], GeneralizedIndex]:
        return self.plain.child(key)

    def _require_count(self, count: int) -> None:
        if isinstance(self.plain, List):
            require_limit(count, self.plain.limit, self)
        elif count != self.plain.length:
            raise MalformedSSZ(f"{self} has {self.plain.length} elements, not {count}.")

    def __str__(self) -> str:
        return str(self.plain)


def require_booleans(values: NDArray[Any], owner: Schema[Any]) -> None:
    """Raises MalformedSSZ unless every byte is 0 or 1."""
    highest = values.view(np.uint8).max(initial=0)
    if highest > 1:
        raise MalformedSSZ(f"{owner} holds a boolean that is {highest}.")
