"""Compare the chunks of a stream (a tensor, a skeleton) with their digests, and say where they differ."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from anchor.merkle.hashing import sha256
from anchor.ml.formats.reading import read_up_to
from anchor.ml.leaves import CHUNK_SIZE, Range
from anchor.ml.report import Damage


class Stream:
    """Ranges of a file that are chunked as one, and the digests that they should have."""

    def __init__(self, ranges: Sequence[Range], want: bytes) -> None:
        self.ranges = ranges
        self.want = want
        """The chunk digests, joined."""
        self._ends = list(accumulate(length for _, length in ranges))

    @property
    def length(self) -> int:
        """Bytes of all ranges."""
        return self._ends[-1] if self._ends else 0

    def chunk_ranges(self, chunk: int) -> Iterator[Range]:
        """Where a chunk's bytes lie in the file."""
        begin, end = chunk * CHUNK_SIZE, min((chunk + 1) * CHUNK_SIZE, self.length)
        place = bisect_right(self._ends, begin)
        while begin < end:
            offset, length = self.ranges[place]
            count = min(end, self._ends[place]) - begin
            yield offset + length - (self._ends[place] - begin), count
            begin += count
            place += 1


def clip(ranges: Sequence[Range], window: int) -> list[Range]:
    """What of `ranges` lies below byte `window`."""
    return [(offset, min(length, window - offset)) for offset, length in ranges if offset < window]


def find_damage(stream: Stream, have: bytes, window: int) -> tuple[list[Damage], list[Damage]]:
    """(differing, absent) chunks of a stream; `have` are the digests of what lies below byte `window`.

    A chunk of which only a part lies below `window` counts as absent: it cannot be told what it was.
    """
    present = sum(length for _, length in clip(stream.ranges, window))
    whole = len(have) if present == stream.length else present // CHUNK_SIZE * 32
    differing = [
        Damage(offset, offset + length, place // 32)
        for place in range(0, whole, 32)
        if have[place : place + 32] != stream.want[place : place + 32]
        for offset, length in stream.chunk_ranges(place // 32)
    ]
    absent = [
        Damage(offset, offset + length, place // 32)
        for place in range(whole, len(stream.want), 32)
        for offset, length in stream.chunk_ranges(place // 32)
    ]
    return differing, absent


def narrow(stream: Stream, damage: Sequence[Damage], fd: int, reference: int) -> list[Damage]:
    """`damage` down to the byte, where `reference`, another copy of the file, has the chunk as committed."""
    return [exact for item in damage for exact in _narrow_one(stream, item, fd, reference)]


def _narrow_one(stream: Stream, item: Damage, fd: int, reference: int) -> list[Damage]:
    pieces = [read_up_to(reference, *part) for part in stream.chunk_ranges(item.chunk)]
    if sha256(b"".join(pieces)) != stream.want[32 * item.chunk : 32 * item.chunk + 32]:
        return [item]  # the copy is damaged too, and shows nothing
    good = read_up_to(reference, item.begin, item.end - item.begin)
    bad = read_up_to(fd, item.begin, item.end - item.begin)
    if good == bad or len(good) != len(bad):
        return [] if good == bad else [item]
    first = _common(good, bad)
    last = len(good) - _common(good[::-1], bad[::-1])
    return [Damage(item.begin + first, item.begin + last, item.chunk, exact=True)]


def _common(one: bytes, other: bytes) -> int:
    """Length of the longest common prefix of two different strings of one length."""
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
