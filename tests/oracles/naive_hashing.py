"""Trees, leaves and shuffles as their definitions have them: one hashlib call at a time, no shortcuts."""

from __future__ import annotations

from functools import cache
from hashlib import sha256


def merkle_root(chunks: tuple[bytes, ...], depth: int) -> bytes:
    """Root by recursion over both halves, down to every leaf that is not in an empty half."""
    if not chunks:
        return zero_root(depth)
    if depth == 0:
        (chunk,) = chunks
        return chunk
    half = 1 << (depth - 1)
    left, right = merkle_root(chunks[:half], depth - 1), merkle_root(chunks[half:], depth - 1)
    return sha256(left + right).digest()


@cache
def zero_root(depth: int) -> bytes:
    """Root of a tree whose leaves are all zero."""
    return sha256(zero_root(depth - 1) * 2).digest() if depth else bytes(32)


def slices(data: bytes, lengths: list[int]) -> bytes:
    """One digest for each of consecutive slices."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return b"".join(sha256(data[s : s + n]).digest() for s, n in zip(starts, lengths, strict=True))


def leaf_lengths(length: int, leaf_size: int) -> list[int]:
    """Rule 7: leaf k has exactly min(leaf_size, length - k * leaf_size) bytes."""
    count = -(-length // leaf_size)
    return [min(leaf_size, length - k * leaf_size) for k in range(count)]


def shuffled_index(index: int, count: int, seed: bytes, rounds: int) -> int:
    """The consensus specification's `compute_shuffled_index`, with the number of rounds given."""
    for current_round in range(rounds):
        pivot = int.from_bytes(sha256(seed + bytes([current_round])).digest()[0:8], "little") % count
        flip = (pivot + count - index) % count
        position = max(index, flip)
        window = (position // 256).to_bytes(4, "little")
        source = sha256(seed + bytes([current_round]) + window).digest()
        byte = source[(position % 256) // 8]
        index = flip if (byte >> (position % 8)) % 2 else index
    return index
