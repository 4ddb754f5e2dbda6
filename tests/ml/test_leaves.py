"""Digests of ranges and skeletons are those of the bytes that they name, in chunks of the right size."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.errors import Unavailable
from anchor.merkle import _hashlib
from anchor.ml import leaves
from anchor.ml.leaves import CHUNK_SIZE, complement, hash_ranges, hash_skeleton

SIZE = 3000
DATA = random.Random(3).randbytes(SIZE)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A file of 3000 bytes, for chunks of 64 bytes."""
    path = tmp_path_factory.mktemp("leaves") / "small"
    path.write_bytes(DATA)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture(params=["mapped", "read"])
def tiny_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "read":
        monkeypatch.setattr(leaves, "hash_mapped", _hashlib.hash_mapped)
    monkeypatch.setattr(leaves, "CHUNK_SIZE", 64)
    monkeypatch.setattr(leaves, "_WINDOW", 256)
    monkeypatch.setattr(leaves, "_usable_cores", lambda: 3)
    monkeypatch.setattr(leaves, "_free_buffers", [])


def naive(stream: bytes, chunk_size: int) -> bytes:
    """Rule 7, by the letter."""
    return b"".join(sha256(stream[i : i + chunk_size]).digest() for i in range(0, len(stream), chunk_size))


def ignore(count: int) -> None:
    """Progress that nobody watches."""


def disjoint(numbers: list[int]) -> list[tuple[int, int]]:
    ends = sorted(numbers)
    return [(begin, end - begin) for begin, end in zip(ends[::2], ends[1::2], strict=False)]


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, SIZE - 5])
def test_a_range_of_any_length(small: int, length: int) -> None:
    assert hash_ranges(small, [(5, length)], ignore) == [naive(DATA[5 : 5 + length], 64)]


@pytest.mark.usefixtures("tiny_chunks")
@given(numbers=st.lists(st.integers(0, SIZE), max_size=40))
def test_ranges_and_the_rest(small: int, numbers: list[int]) -> None:
    ranges = disjoint(numbers)
    rest = bytearray(DATA)
    for offset, length in reversed(ranges):
        del rest[offset : offset + length]
    told: list[int] = []
    assert hash_ranges(small, ranges, told.append) == [naive(DATA[o : o + n], 64) for o, n in ranges]
    assert hash_skeleton(small, SIZE, ranges, told.append) == naive(bytes(rest), 64)
    assert sum(told) == SIZE


@pytest.mark.usefixtures("tiny_chunks")
@given(ranges=st.lists(st.tuples(st.integers(0, SIZE - 900), st.integers(0, 900)), max_size=12))
def test_ranges_in_any_order_and_overlapping(small: int, ranges: list[tuple[int, int]]) -> None:
    assert hash_ranges(small, ranges, ignore) == [naive(DATA[o : o + n], 64) for o, n in ranges]


def test_the_complement_of_nothing_is_everything() -> None:
    assert complement(10, []) == [(0, 10)]
    assert complement(10, [(0, 10)]) == []
    assert complement(10, [(2, 3), (5, 0), (5, 1), (8, 2)]) == [(0, 2), (6, 2)]
    assert complement(0, []) == []


@pytest.mark.parametrize("length", [CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 11 * CHUNK_SIZE + 77])
def test_chunks_are_a_mebibyte(tmp_path: Path, length: int) -> None:
    data = random.Random(length).randbytes(length)
    path = tmp_path / "large"
    path.write_bytes(data)
    with path.open("rb") as file:
        told: list[int] = []
        assert hash_ranges(file.fileno(), [(0, length)], told.append) == [naive(data, CHUNK_SIZE)]
        assert sum(told) == length
        middle = (CHUNK_SIZE // 2, CHUNK_SIZE // 4)
        rest = data[: middle[0]] + data[sum(middle) :]
        assert hash_skeleton(file.fileno(), length, [middle], ignore) == naive(rest, CHUNK_SIZE)


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("beyond", [1, 64, 10_000])
def test_a_file_that_ends_early_is_an_error(small: int, beyond: int) -> None:
    with pytest.raises(Unavailable, match=f"ended at byte {SIZE}"):
        hash_ranges(small, [(0, 10), (100, SIZE - 100 + beyond), (0, 10)], ignore)
    with pytest.raises(Unavailable, match=f"ended at byte {SIZE}"):
        hash_skeleton(small, SIZE + beyond, [], ignore)


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    """A map of it would end the process here, but for the kernel's guard (rule 24)."""
    path = tmp_path / "shrinking"
    path.write_bytes(bytes(64 * CHUNK_SIZE))
    with path.open("rb") as file, pytest.raises(Unavailable, match="ended at byte"):
        hash_ranges(file.fileno(), [(0, 64 * CHUNK_SIZE)], lambda _: os.truncate(path, CHUNK_SIZE))


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(Unavailable, match="cannot be read at byte 3"):
            hash_ranges(fd, [(3, 10)], ignore)
    finally:
        os.close(fd)


@pytest.mark.usefixtures("tiny_chunks")
def test_an_interrupted_caller_gets_its_exception(small: int) -> None:
    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hash_ranges(small, [(0, SIZE)], interrupt)
    assert hash_ranges(small, [(0, SIZE)], ignore) == [naive(DATA, 64)]
