"""Every path of the hashing kernel gives what the definitions give, and refuses what it does not handle."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.merkle import _hashlib, hashing
from tests.oracles import naive_hashing

try:
    from anchor.merkle import _native

    IMPLEMENTATIONS: tuple[str, ...] = _native.IMPLEMENTATIONS
except ImportError:
    IMPLEMENTATIONS = ()

DATA = random.Random(7).randbytes(3 << 20)
PADDING_EDGES = [0, 1, 31, 32, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 1000]


@pytest.fixture(params=["hashlib", *IMPLEMENTATIONS])
def path(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Each path that this machine can run, in turn."""
    if request.param == "hashlib":
        yield _hashlib
        return
    _native.select(request.param)
    yield _native
    _native.select(IMPLEMENTATIONS[0])


def chunks_of(data: bytes) -> tuple[bytes, ...]:
    return tuple(data[i : i + 32] for i in range(0, len(data), 32))


def test_backend_names_the_path() -> None:
    expected = f"native ({IMPLEMENTATIONS[0]})" if IMPLEMENTATIONS else "hashlib"
    assert expected == hashing.BACKEND


def test_sha256_at_every_padding_edge(path: ModuleType) -> None:
    for length in range(300):
        assert path.sha256(DATA[:length]) == naive_hashing.slices(DATA[:length], [length]), length


def test_pairs(path: ModuleType) -> None:
    for count in range(41):
        nodes = DATA[: 64 * count]
        assert path.hash_pairs(nodes) == naive_hashing.slices(nodes, [64] * count), count


def test_pairs_into_another_buffer_and_in_place(path: ModuleType) -> None:
    for count in range(41):
        nodes = DATA[: 64 * count]
        expected = naive_hashing.slices(nodes, [64] * count)
        out = bytearray(b"\xff" * (32 * count + 5))
        path.hash_pairs_into(out, nodes)
        assert out == expected + b"\xff" * 5
        same = bytearray(nodes)
        path.hash_pairs_into(same, same)
        assert same == expected + nodes[32 * count :]


def test_pairs_of_numpy_columns_and_their_halves(path: ModuleType) -> None:
    column = np.frombuffer(DATA[: 64 * 37], np.uint64).reshape(37, 8).copy()
    expected = path.hash_pairs(column)
    path.hash_pairs_into(column.reshape(-1)[: 37 * 4], column)
    assert column.tobytes()[: 37 * 32] == expected == naive_hashing.slices(DATA[: 64 * 37], [64] * 37)
    empty = np.empty((0, 8), np.uint64)
    path.hash_pairs_into(empty, empty)


def test_merkle_root_of_all_counts_and_depths(path: ModuleType) -> None:
    for count in range(71):
        data = DATA[: 32 * count]
        fitting = max(count - 1, 0).bit_length()
        for depth in [*range(fitting, fitting + 4), 40, 63, 64]:
            expected = naive_hashing.merkle_root(chunks_of(data), depth)
            assert path.merkle_root(data, depth) == expected, (count, depth)


@pytest.mark.parametrize("count", [255, 256, 257, 511, 512, 513, 4096, 65537])
def test_merkle_root_across_cache_blocks(path: ModuleType, count: int) -> None:
    data = DATA[: 32 * count]
    for depth in (count.bit_length(), 40):
        assert path.merkle_root(data, depth) == naive_hashing.merkle_root(chunks_of(data), depth)


@pytest.mark.parametrize("leaf_size", [1, 5, 55, 56, 63, 64, 65, 128, 1000])
def test_leaves_at_every_boundary(path: ModuleType, leaf_size: int) -> None:
    around = {max(0, k * leaf_size + d) for k in range(10) for d in (-1, 0, 1)}
    for length in sorted(around.union(PADDING_EDGES)):
        lengths = naive_hashing.leaf_lengths(length, leaf_size)
        assert path.hash_leaves(DATA[:length], leaf_size) == naive_hashing.slices(DATA[:length], lengths)


@pytest.mark.parametrize("length", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) + 63])
def test_leaves_are_a_mebibyte_by_default(path: ModuleType, length: int) -> None:
    lengths = naive_hashing.leaf_lengths(length, 1 << 20)
    assert path.hash_leaves(DATA[:length]) == naive_hashing.slices(DATA[:length], lengths)


def test_slices_of_all_pairs_of_edges(path: ModuleType) -> None:
    for first in PADDING_EDGES:
        lengths = [length for second in PADDING_EDGES for length in (first, second)]
        data = DATA[: sum(lengths)]
        assert path.hash_slices(data, lengths) == naive_hashing.slices(data, lengths), lengths


@given(st.lists(st.integers(0, 5000), max_size=20))
def test_slices_of_any_lengths(lengths: list[int]) -> None:
    data = DATA[: sum(lengths)]
    expected = naive_hashing.slices(data, lengths)
    assert _hashlib.hash_slices(data, lengths) == expected
    for name in IMPLEMENTATIONS:
        _native.select(name)
        assert _native.hash_slices(data, lengths) == expected
    for name in IMPLEMENTATIONS[:1]:
        _native.select(name)


def as_matrix(data: bytes) -> Any:
    return np.frombuffer(data, np.uint32).reshape(8, -1)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, as_matrix])
def test_every_kind_of_buffer(path: ModuleType, wrap: Callable[[bytes], Any]) -> None:
    data = (
        wrap(DATA[:256]) if wrap is not np.frombuffer else np.frombuffer(DATA[:256], np.uint32).reshape(8, 8)
    )
    whole = DATA[:256]
    assert path.sha256(data) == naive_hashing.slices(whole, [256])
    assert path.hash_pairs(data) == naive_hashing.slices(whole, [64] * 4)
    assert path.merkle_root(data, 3) == naive_hashing.merkle_root(chunks_of(whole), 3)
    assert path.hash_leaves(data, 100) == naive_hashing.slices(whole, [100, 100, 56])
    assert path.hash_slices(data, [256]) == naive_hashing.slices(whole, [256])


@pytest.mark.parametrize("length", [1, 32, 63, 65, 96])
def test_halves_of_pairs_are_refused(path: ModuleType, length: int) -> None:
    with pytest.raises(ValueError, match=f"not {length} bytes"):
        path.hash_pairs(bytes(length))
    with pytest.raises(ValueError, match=f"not {length} bytes"):
        path.hash_pairs_into(bytearray(64), bytes(length))


def test_unfit_outputs_are_refused_and_left_alone(path: ModuleType) -> None:
    short = bytearray(63)
    with pytest.raises(ValueError, match="holds 63 bytes, 64 are needed"):
        path.hash_pairs_into(short, bytes(128))
    assert short == bytes(63)
    with pytest.raises(BufferError):
        path.hash_pairs_into(bytes(64), bytes(128))


@pytest.mark.skipif(not IMPLEMENTATIONS, reason="no native kernel")
def test_an_output_inside_the_input_is_refused() -> None:
    buffer = bytearray(256)
    with pytest.raises(ValueError, match="starts inside the input"):
        _native.hash_pairs_into(memoryview(buffer)[32:], memoryview(buffer)[:128])


@pytest.mark.parametrize(
    ("length", "depth"),
    [(31, 3), (33, 3), (64, 0), (96, 1), (32 * 9, 3), (32, -1), (32, 65), (0, 65), (0, -1)],
)
def test_trees_that_cannot_be_are_refused(path: ModuleType, length: int, depth: int) -> None:
    with pytest.raises(ValueError, match="depth"):
        path.merkle_root(bytes(length), depth)


@pytest.mark.parametrize("leaf_size", [0, -1])
def test_leaves_of_no_size_are_refused(path: ModuleType, leaf_size: int) -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        path.hash_leaves(b"data", leaf_size)


@pytest.mark.parametrize("lengths", [[3], [5], [2, 3], [-1, 5], [5, -1], []])
def test_slices_that_do_not_cover_are_refused(path: ModuleType, lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="slice"):
        path.hash_slices(b"data", lengths)


def test_what_is_no_buffer_is_refused(path: ModuleType) -> None:
    for call in (path.sha256, path.hash_pairs, lambda x: path.merkle_root(x, 1), path.hash_leaves):
        with pytest.raises(TypeError):
            call("text")


def test_threads_share_the_kernel(path: ModuleType) -> None:
    expected = path.hash_leaves(DATA, 1 << 18), path.merkle_root(DATA, 17)
    results: list[tuple[bytes, bytes]] = []

    def work() -> None:
        results.append((path.hash_leaves(DATA, 1 << 18), path.merkle_root(DATA, 17)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


@pytest.mark.skipif(not IMPLEMENTATIONS, reason="no native kernel")
def test_only_what_the_machine_has_can_be_selected() -> None:
    assert IMPLEMENTATIONS[-1] == "portable"
    for name in ("SHA-1", "", None):
        with pytest.raises(ValueError, match="not an implementation"):
            _native.select(name)
