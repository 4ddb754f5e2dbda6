"""Chunk digests of open files, in bounded windows, on all cores (rules 7 and 24).

A window is mapped and hashed where it lies, under the kernel's guard; reading it first takes a fifth longer.
What cannot be mapped is read: a window of several pieces, and one that is no longer all there, which is then
an error that can be told.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from types import TracebackType
from typing import Final, NamedTuple

from anchor.errors import Unavailable
from anchor.merkle.hashing import hash_mapped, hash_slices

CHUNK_SIZE: Final = 1 << 20
"""Bytes of a chunk; only the last one of a range is shorter (rule 7)."""

Progress = Callable[[int], None]
"""Told how many bytes were hashed since the last call; from any thread, but never from two at once."""

Range = tuple[int, int]
"""(offset in the file, length), in bytes."""

_WINDOW: Final = 6 * CHUNK_SIZE  # a multiple of the chunks that the kernel interleaves
_MAX_THREADS: Final = 16  # each has a window: 96 MiB at most


def hash_ranges(fd: int, ranges: Sequence[Range], progress: Progress) -> list[bytes]:
    """The chunk digests, joined, of each (offset, length) of the file open at `fd`.

    Raises Unavailable when the file ends before a range does, or cannot be read.
    """
    return _hash_streams(fd, [(range_,) for range_ in ranges], progress)


def hash_skeleton(fd: int, size: int, extents: Sequence[Range], progress: Progress) -> bytes:
    """The chunk digests, joined, of all bytes below `size` that lie in none of `extents`, as one stream.

    `extents` are ascending, disjoint and in bounds. Raises as `hash_ranges` does.
    """
    (digests,) = _hash_streams(fd, [complement(size, extents)], progress)
    return digests


def complement(size: int, extents: Sequence[Range]) -> list[Range]:
    """The ranges below `size` that lie in none of `extents` (ascending, disjoint, in bounds)."""
    ranges = []
    end = 0
    for offset, length in [*extents, (size, 0)]:
        if offset > end:
            ranges.append((end, offset - end))
        end = offset + length
    return ranges


class _Window(NamedTuple):
    """Consecutive chunks that are read and hashed together: at most _WINDOW bytes."""

    first: int
    """Which chunk of all the first one is."""
    lengths: list[int]
    """Of its chunks."""
    ranges: list[Range]
    """Where their bytes lie; neighbours are joined."""


class _Feed:
    """Hands the windows out to whichever thread is free, one at a time.

    Each thread works within it: what fails in one of them stops all, and is kept for who joins them.
    """

    def __init__(self, windows: Iterator[_Window], progress: Progress) -> None:
        self._windows = windows
        self._progress = progress
        self._lock = threading.Lock()
        self.failure: BaseException | None = None

    def take(self, hashed: int) -> _Window | None:
        """The next window, for a thread that has hashed so many bytes since it last asked."""
        with self._lock:
            if hashed:
                self._progress(hashed)
            return next(self._windows, None)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        with self._lock:
            self._windows = iter(())
            self.failure = self.failure or error
        return True


def _hash_streams(fd: int, streams: Sequence[Sequence[Range]], progress: Progress) -> list[bytes]:
    """The chunk digests, joined, of each stream: ranges that are chunked as if they were one."""
    lengths = [sum(length for _, length in stream) for stream in streams]
    counts = [-(-length // CHUNK_SIZE) for length in lengths]
    digests = bytearray(32 * sum(counts))
    feed = _Feed(_windows(streams), progress)
    threads = min(_usable_cores(), _MAX_THREADS, -(-sum(lengths) // _WINDOW))
    helpers = [threading.Thread(target=_drain, args=(feed, fd, digests)) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    _drain(feed, fd, digests)
    for helper in helpers:
        helper.join()  # also after a failure: the caller may close the file next
    if feed.failure:
        raise feed.failure
    return _split(bytes(digests), counts)


def _drain(feed: _Feed, fd: int, digests: bytearray) -> None:
    """Hash windows as long as there are any."""
    buffer = _take_buffer()
    hashed = 0
    with feed:
        while window := feed.take(hashed):
            hashed = sum(window.lengths)
            found = _hash_window(fd, window, buffer)
            digests[32 * window.first : 32 * window.first + len(found)] = found
    _free_buffers.append(buffer)


def _hash_window(fd: int, window: _Window, buffer: memoryview) -> bytes:
    """The digests, joined, of a window's chunks."""
    if len(window.ranges) == 1:
        found = hash_mapped(fd, *window.ranges[0], window.lengths)
        if found is not None:
            return found
    size = _read(fd, window.ranges, buffer)
    return hash_slices(buffer[:size], window.lengths)


def _read(fd: int, ranges: Iterable[Range], buffer: memoryview) -> int:
    """Read the ranges one after another into `buffer`; returns how many bytes they are."""
    filled = 0
    for offset, length in ranges:
        _read_exactly(fd, offset, buffer[filled : filled + length])
        filled += length
    return filled


def _read_exactly(fd: int, offset: int, target: memoryview) -> None:
    while target:
        try:
            got = os.preadv(fd, [target], offset)
        except OSError as error:
            raise Unavailable(f"The file cannot be read at byte {offset}: {error.strerror}.") from error
        if not got:
            end = min(offset, os.fstat(fd).st_size)  # another thread may have begun beyond it
            raise Unavailable(
                f"The file ended at byte {end} while it was read.",
                fix="Try again when it is at rest.",
            )
        offset += got
        target = target[got:]


def _windows(streams: Iterable[Iterable[Range]]) -> Iterator[_Window]:
    window, room = _Window(0, [], []), _WINDOW
    for pieces in chain.from_iterable(map(_cut, streams)):
        length = sum(length for _, length in pieces)
        if length > room:
            yield window
            window, room = _Window(window.first + len(window.lengths), [], []), _WINDOW
        window.lengths.append(length)
        room -= length
        for piece in pieces:
            _join(window.ranges, piece)
    if window.lengths:
        yield window


def _cut(stream: Iterable[Range]) -> Iterator[list[Range]]:
    """The pieces of each chunk of a stream."""
    pieces: list[Range] = []
    room = CHUNK_SIZE
    for offset, length in stream:
        done = 0
        while done < length:
            piece = min(length - done, room)
            pieces.append((offset + done, piece))
            done += piece
            room -= piece
            if not room:
                yield pieces
                pieces, room = [], CHUNK_SIZE
    if pieces:
        yield pieces


def _join(ranges: list[Range], piece: Range) -> None:
    if ranges and sum(ranges[-1]) == piece[0]:
        ranges[-1] = (ranges[-1][0], ranges[-1][1] + piece[1])
    else:
        ranges.append(piece)


def _split(digests: bytes, counts: Iterable[int]) -> list[bytes]:
    parts, start = [], 0
    for count in counts:
        parts.append(digests[start : start + 32 * count])
        start += 32 * count
    return parts


_free_buffers: list[memoryview] = []  # kept: the kernel clears fresh pages, which takes as long as a copy


def _take_buffer() -> memoryview:
    """A window that no other thread uses."""
    try:
        return _free_buffers.pop()
    except IndexError:
        return memoryview(mmap.mmap(-1, _WINDOW, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
