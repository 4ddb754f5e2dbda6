"""Digests of a file's chunks, read by position in bounded windows (rules 7 and 24)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from anchor.errors import Unavailable

CHUNK_SIZE: Final = 1 << 20
"""Bytes of a chunk; only the last one of a range is shorter (rule 7)."""

Progress = Callable[[int], None]
"""Told how many bytes were hashed since the last call."""


def hash_ranges(fd: int, ranges: Sequence[tuple[int, int]], progress: Progress) -> list[bytes]:
    """The chunk digests, joined, of each (offset, length) of the file open at `fd`.

    Raises Unavailable when the file ends before a range does, or cannot be read.
    """
    return [_hash_stream([(offset, length)], fd, progress) for offset, length in ranges]


def hash_skeleton(fd: int, size: int, extents: Sequence[tuple[int, int]], progress: Progress) -> bytes:
    """The chunk digests, joined, of all bytes below `size` that lie in none of `extents`, as one stream.

    `extents` are (offset, length), ascending, disjoint and in bounds.
    """
    return _hash_stream(complement(size, extents), fd, progress)


def complement(size: int, extents: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges below `size` that lie in none of `extents` (ascending, disjoint, in bounds)."""
    ranges = []
    end = 0
    for offset, length in [*extents, (size, 0)]:
        if offset > end:
            ranges.append((end, offset - end))
        end = offset + length
    return ranges


def _hash_stream(ranges: Sequence[tuple[int, int]], fd: int, progress: Progress) -> bytes:
    digests: list[bytes] = []
    state, room = sha256(), CHUNK_SIZE
    for offset, length in _cut(ranges):
        data = os.pread(fd, length, offset)
        if len(data) != length:
            raise Unavailable(f"The file ended at byte {offset + len(data)} while it was read.")
        progress(length)
        for part in (data[:room], data[room:]):
            state.update(part)
            room -= len(part)
            if not room:
                digests.append(state.digest())
                state, room = sha256(), CHUNK_SIZE
    if room < CHUNK_SIZE:
        digests.append(state.digest())
    return b"".join(digests)


def _cut(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for offset, length in ranges:
        for start in range(0, length, CHUNK_SIZE):
            yield offset + start, min(CHUNK_SIZE, length - start)
