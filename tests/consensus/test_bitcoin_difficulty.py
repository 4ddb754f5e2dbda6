"""Compact targets, work and retargets: Bitcoin's own examples, laws, and the real chain's whole history."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.consensus.bitcoin.difficulty import compute_bits, compute_next_bits, compute_target, compute_work
from anchor.consensus.bitcoin.network import MAINNET, Context
from anchor.errors import InvalidHeader
from tests.consensus.bitcoin_chains import compute_mainnet_work, read_retargets, read_shared
from tests.oracles import naive_bitcoin as naive

TIMESPAN = 1_209_600


@pytest.mark.parametrize(
    ("bits", "target"),
    [
        (0x01120000, 0x12),
        (0x02123400, 0x1234),
        (0x03123456, 0x123456),
        (0x04123456, 0x12345600),
        (0x02008000, 0x80),
        (0x05009234, 0x92340000),
        (0x20123456, 0x123456 << 232),
        (0x1D00FFFF, 0xFFFF << 208),
        (0x2100FFFF, 0xFFFF << 240),
    ],
)
def test_targets_by_hand(bits: int, target: int) -> None:
    assert compute_target(bits) == target
    assert compute_bits(target) == bits


@pytest.mark.parametrize(
    ("bits", "word"),
    [
        (0x00000000, "zero"),
        (0x00123456, "zero"),
        (0x01003456, "zero"),
        (0x02000056, "zero"),
        (0x03000000, "zero"),
        (0x04000000, "zero"),
        (0x00923456, "zero"),  # the sign of nothing
        (0x01803456, "zero"),
        (0x20800000, "zero"),
        (0xFF000000, "zero"),
        (0x01FEDCBA, "negative"),
        (0x04923456, "negative"),
        (0x1D80FFFF, "negative"),
        (0x207FFFFF | 0x00800000, "negative"),
        (0xFF123456, "more than 256 bits"),
        (0x23000001, "more than 256 bits"),
        (0x22000100, "more than 256 bits"),
        (0x21010000, "more than 256 bits"),
        (0x01123456, "not the one encoding"),
        (0x1E0000FF, "not the one encoding"),
        (0x1F0000FF, "not the one encoding"),
        (0x04000012, "not the one encoding"),
        (0x22000001, "not the one encoding"),
    ],
)
def test_tricks_of_encoding_are_refused(bits: int, word: str) -> None:
    with pytest.raises(InvalidHeader, match=word):
        compute_target(bits)


@given(st.integers(0, 0xFFFFFFFF))
def test_decoding_agrees_with_the_oracle(bits: int) -> None:
    target, negative, overflow = naive.decode(bits)
    sound = target > 0 and not negative and not overflow and naive.encode(target) == bits
    try:
        found = compute_target(bits)
    except InvalidHeader:
        assert not sound
    else:
        assert sound
        assert found == target
        assert compute_work(bits) == naive.work_of(bits)


@given(st.integers(0, 255), st.integers(1, (1 << 256) - 1))
def test_encoding_agrees_with_the_oracle_and_cuts_down(shift: int, number: int) -> None:
    target = max(number >> shift, 1)
    bits = compute_bits(target)
    assert bits == naive.encode(target)
    assert compute_bits(compute_target(bits)) == bits
    assert compute_target(bits) <= target < compute_target(bits) + (target >> 15) + 1


def test_work_by_hand() -> None:
    assert compute_work(0x1D00FFFF) == 0x100010001
    assert compute_work(0x207FFFFF) == 2


@pytest.mark.parametrize(
    ("bits", "first", "last", "expected"),
    [
        (0x1D00FFFF, 1261130161, 1262152739, 0x1D00D86A),  # the first change, at 32256
        (0x1D00FFFF, 1231006505, 1233061996, 0x1D00FFFF),  # held at the limit
        (0x1C05A3F4, 1279008237, 1279297671, 0x1C0168FD),  # a quarter at most
        (0x1C387F6F, 1263163443, 1269211443, 0x1D00E1FD),  # fourfold at most
    ],
)
def test_retargets_as_bitcoin_tests_them(bits: int, first: int, last: int, expected: int) -> None:
    assert compute_next_bits(bits, last - first, TIMESPAN, MAINNET.pow_limit) == expected


def test_elapsed_time_below_zero_is_held() -> None:
    least = compute_next_bits(0x1C05A3F4, TIMESPAN // 4, TIMESPAN, MAINNET.pow_limit)
    assert compute_next_bits(0x1C05A3F4, -5_000_000, TIMESPAN, MAINNET.pow_limit) == least


def test_every_retarget_of_the_real_chain() -> None:
    rows = read_retargets()
    assert len(rows) == 414
    changes = 0
    for height in range(2016, 832_609, 2016):
        first, last, bits = rows[height - 2016]
        assert last is not None
        assert compute_next_bits(bits, last - first, TIMESPAN, MAINNET.pow_limit) == rows[height][2], height
        changes += bits != rows[height][2]
    assert changes > 370


def test_measuring_one_header_more_does_not_give_the_real_chain() -> None:
    """The off-by-one is real: a window that also counts the step into the next one goes wrong at once."""
    rows = read_retargets()
    wrong = 0
    for height in range(2016, 832_609, 2016):
        (first, _, bits), (next_first, _, next_bits) = rows[height - 2016], rows[height]
        wrong += compute_next_bits(bits, next_first - first, TIMESPAN, MAINNET.pow_limit) != next_bits
    assert wrong > 350


def test_contexts_of_the_checkpoints_follow_from_the_windows() -> None:
    for height, context in MAINNET.contexts.items():
        first, _, bits = read_retargets()[height - height % 2016]
        assert context == Context(bits, first, compute_mainnet_work(height)), height


def test_minimum_work_is_the_work_through_height_824000() -> None:
    assert compute_mainnet_work(824_000) == MAINNET.minimum_work


def test_constants_are_those_of_the_shared_data() -> None:
    shared = json.loads(read_shared("checkpoints.json"))
    entries = {row["height"]: row["hash"] for row in shared["checkpoints"]} | {0: shared["genesis"]}
    assert {height: root.hex() for height, root in MAINNET.table.entries.items()} == entries
    assert int(shared["powLimit"], 16) == MAINNET.pow_limit
    assert int(shared["nMinimumChainWork"], 16) == MAINNET.minimum_work
    heights = (shared["BIP34"]["height"], shared["heights"]["BIP66"], shared["heights"]["BIP65"])
    assert tuple(height for height, _ in MAINNET.version_floors) == heights


def test_edges_of_every_window() -> None:
    """Each edge has its work, and each window's first header names the last of the window before."""
    lines = read_shared("window-edges.tsv").decode().splitlines()[1:]
    edges = {int(height): bytes.fromhex(raw) for height, raw in [line.split("\t") for line in lines]}
    assert len(edges) == 2 * 413 + 1
    for height, raw in edges.items():
        start = height - height % 2016
        first, last, bits = read_retargets()[start]
        assert naive.bits_of(raw) == bits
        assert naive.time_of(raw) == (first if height == start else last)
        assert naive.field(naive.hash_of(raw), 0, 32) <= compute_target(bits) <= MAINNET.pow_limit
        if height == start and height:
            assert raw[4:36] == naive.hash_of(edges[height - 1])
