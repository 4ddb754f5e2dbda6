"""Swap-or-not shuffling (consensus specification, phase0 "compute_shuffled_index").

One index at a time as the specification has it, or a whole permutation in list form: a round swaps
positions i and pivot - i or leaves both, so over all positions it is one pass of conditional swaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.errors import Misuse
from anchor.merkle.hashing import sha256

try:
    from anchor.merkle import _native
except ImportError:
    _shuffle_into = None
else:
    _shuffle_into = _native.shuffle_into

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_COUNT = (1 << 32) - 1
_MAX_ROUNDS = 255
_POSITIONS_PER_HASH = 256


def compute_shuffled_index(index: int, count: int, seed: bytes, rounds: int) -> int:
    """Where `index` of `count` goes in `rounds` rounds of shuffling by the 32-byte `seed`.

    Raises Misuse for an index that is not below `count`, and for a seed or rounds out of range.
    """
    _require_shuffle(count, seed, rounds)
    if not 0 <= index < count:
        raise Misuse(f"Index {index} is not one of {count} to shuffle.")
    for number in range(rounds):
        flip = (_pivot(seed, number, count) - index) % count
        position = max(index, flip)
        source = sha256(seed + bytes([number]) + (position // _POSITIONS_PER_HASH).to_bytes(4, "little"))
        if source[position % _POSITIONS_PER_HASH // 8] >> position % 8 & 1:
            index = flip
    return index


def compute_shuffled_permutation(count: int, seed: bytes, rounds: int) -> NDArray[np.uint64]:
    """`compute_shuffled_index(i, count, seed, rounds)` for every i below `count`: uint64, (count,).

    Raises Misuse for a count, seed or rounds out of range.
    """
    import numpy as np

    _require_shuffle(count, seed, rounds)
    if _shuffle_into is None:
        return _permute(count, seed, rounds)
    indices = np.empty(count, np.uint64)
    _shuffle_into(indices, seed, rounds)
    return indices


def _permute(count: int, seed: bytes, rounds: int) -> NDArray[np.uint64]:
    """The permutation in NumPy. Rounds run backwards: entry i then is where i goes."""
    import numpy as np

    indices = np.arange(count, dtype=np.uint32)
    for number in reversed(range(rounds if count > 1 else 0)):
        pivot = _pivot(seed, number, count)
        decisions = _decisions(seed, number, count)
        _swap(indices[: pivot + 1], decisions[: pivot + 1])
        _swap(indices[pivot + 1 :], decisions[pivot + 1 :])
    return indices.astype(np.uint64)


def _swap(indices: NDArray[np.uint32], decisions: NDArray[np.bool_]) -> None:
    """Swaps each entry with its mirror image, where the decision at the higher of the two says so."""
    half = len(indices) // 2
    low, high = indices[:half], indices[::-1][:half]
    difference = (low ^ high) * decisions[::-1][:half]
    low ^= difference
    high ^= difference


def _decisions(seed: bytes, number: int, count: int) -> NDArray[np.bool_]:
    """For each position, whether a pair of which it is the higher one is swapped in this round."""
    import numpy as np

    prefix = seed + bytes([number])
    windows = range((count - 1) // _POSITIONS_PER_HASH + 1)
    bits = b"".join([sha256(prefix + window.to_bytes(4, "little")) for window in windows])
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), count=count, bitorder="little")
    return unpacked.view(np.bool_)


def _pivot(seed: bytes, number: int, count: int) -> int:
    return int.from_bytes(sha256(seed + bytes([number]))[:8], "little") % count


def _require_shuffle(count: int, seed: bytes, rounds: int) -> None:
    if not 0 <= count <= _MAX_COUNT:
        raise Misuse(f"A list of {count} cannot be shuffled: at most {_MAX_COUNT} can.")
    if len(seed) != 32 or not 0 <= rounds <= _MAX_ROUNDS:
        raise Misuse(
            f"A shuffle takes 32 bytes of seed and up to {_MAX_ROUNDS} rounds, not {len(seed)} and {rounds}."
        )
