"""Arithmetic on uint64 arrays that refuses to wrap, as the specification's integers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anchor.errors import InvalidTransition
from anchor.merkle.bits import Bits
from anchor.merkle.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UINT64_MAX = 2**64 - 1


def require(condition: bool, message: Callable[[], str]) -> None:
    """Raises InvalidTransition with `message()` unless `condition` holds."""
    if not condition:
        raise InvalidTransition(message())


def require_uint64(value: int, what: str) -> int:
    """`value`, which must fit in 64 bits."""
    if not 0 <= value <= UINT64_MAX:
        raise InvalidTransition(f"{what} would be {value}, which is no uint64.")
    return value


def add(a: NDArray[Any], b: NDArray[Any] | int) -> NDArray[Any]:
    """a + b. Raises InvalidTransition where a sum exceeds 64 bits."""
    total = a + b
    if np.any(total < a):
        raise InvalidTransition("A sum over the validator registry exceeds 64 bits.")
    return total


def saturating_sub(a: NDArray[Any], b: NDArray[Any] | int) -> NDArray[Any]:
    """a - b, or zero where b is larger."""
    difference: NDArray[Any] = a - np.minimum(a, b)
    return difference


def multiply(a: NDArray[Any], b: NDArray[Any] | int) -> NDArray[Any]:
    """a * b. Raises InvalidTransition where a product exceeds 64 bits."""
    largest = b if isinstance(b, int) else int(b.max(initial=0))
    if int(a.max(initial=0)) * largest > UINT64_MAX:
        _require_products(a, np.broadcast_to(np.uint64(b) if isinstance(b, int) else b, a.shape))
    return a * b


def _require_products(a: NDArray[Any], b: NDArray[Any]) -> None:
    if np.any(a > UINT64_MAX // np.maximum(b, 1)):
        raise InvalidTransition("A product over the validator registry exceeds 64 bits.")


def total(values: NDArray[Any]) -> int:
    """The exact sum. Raises InvalidTransition when it exceeds 64 bits."""
    if int(values.max(initial=0)) * len(values) <= UINT64_MAX:
        return int(values.sum(dtype=np.uint64))
    low = int((values & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    return require_uint64((int((values >> np.uint64(32)).sum(dtype=np.uint64)) << 32) + low, "A sum of Gwei")


def to_flags(bits: Bits) -> NDArray[Any]:
    """(len(bits),) booleans."""
    packed = np.frombuffer(bits.data, np.uint8)
    return np.unpackbits(packed, count=len(bits), bitorder="little").view(np.bool_)
