"""Chunks of a stream that lies in many ranges: where they are, which differ, which are absent."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.ml.leaves import CHUNK_SIZE, complement
from anchor.ml.report import Damage
from anchor.ml.streams import Stream, clip, find_damage, narrow

GAPS = st.lists(st.tuples(st.integers(1, CHUNK_SIZE), st.integers(1, CHUNK_SIZE)), max_size=6)


def ranges_of(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(skip, length) pairs as (offset, length) ranges."""
    found, end = [], 0
    for skip, length in gaps:
        found.append((end + skip, length))
        end += skip + length
    return found


@settings(deadline=None)
@given(GAPS)
def test_the_chunks_of_a_stream_are_its_bytes_in_order(gaps: list[tuple[int, int]]) -> None:
    ranges = ranges_of(gaps)
    stream = Stream(ranges, b"")
    pieces = [part for chunk in range(-(-stream.length // CHUNK_SIZE)) for part in stream.chunk_ranges(chunk)]
    for chunk in range(stream.length // CHUNK_SIZE):
        assert sum(length for _, length in stream.chunk_ranges(chunk)) == CHUNK_SIZE
    joined: list[tuple[int, int]] = []
    for offset, length in pieces:
        if joined and sum(joined[-1]) == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((offset, length))
    assert joined == ranges


@settings(deadline=None)
@given(GAPS, st.integers(0, 12 * CHUNK_SIZE))
def test_a_window_splits_present_from_absent(gaps: list[tuple[int, int]], window: int) -> None:
    """Every chunk is right, and absent exactly when some of it lies beyond the window."""
    ranges = ranges_of(gaps)
    count = -(-sum(length for _, length in ranges) // CHUNK_SIZE)
    want = b"".join(n.to_bytes(32, "little") for n in range(count))
    stream = Stream(ranges, want)
    present = sum(length for _, length in clip(ranges, window))
    have = want[: 32 * (present // CHUNK_SIZE)] + (
        b"partial chunk's digest, 32 bytes" if present % CHUNK_SIZE else b""
    )
    if present == stream.length:
        have = want
    differing, absent = find_damage(stream, have, window)
    assert not differing
    beyond = {
        chunk
        for chunk in range(count)
        if any(offset + length > window for offset, length in stream.chunk_ranges(chunk))
    }
    assert {damage.chunk for damage in absent} == beyond


def test_damage_in_a_skeleton_of_two_ranges_is_placed_in_the_right_one(tmp_path: Path) -> None:
    good = bytes(range(200))
    stream = Stream(complement(200, [(50, 100)]), sha256(good[:50] + good[150:]).digest())
    bad = bytearray(good)
    bad[160] ^= 1
    bad[170] ^= 1
    (tmp_path / "good").write_bytes(good)
    (tmp_path / "bad").write_bytes(bad)
    one, other = (os.open(tmp_path / name, os.O_RDONLY) for name in ("bad", "good"))
    differing, absent = find_damage(stream, sha256(bad[:50] + bad[150:]).digest(), 200)
    assert not absent
    assert differing == [Damage(0, 50, 0), Damage(150, 200, 0)]
    assert narrow(stream, differing, one, other) == [Damage(160, 171, 0, exact=True)]
    os.close(one)
    os.close(other)
