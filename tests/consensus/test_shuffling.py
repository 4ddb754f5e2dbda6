"""Swap-or-not: each path against the specification's form, one index at a time, and the official vectors."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from anchor.consensus import shuffling
from anchor.consensus.shuffling import compute_shuffled_index, compute_shuffled_permutation
from anchor.errors import Misuse
from tests.oracles import naive_hashing

SEED = hashlib.sha256(b"shuffle").digest()
COUNTS = [*range(20), 255, 256, 257, 511, 512, 513, 1000]


@pytest.fixture(params=["native", "numpy"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(shuffling, "_shuffle_into", None)
    elif shuffling._shuffle_into is None:
        pytest.skip("no native kernel")


@pytest.mark.parametrize("count", COUNTS)
def test_permutation_is_the_specification_at_every_index(count: int) -> None:
    for rounds in (0, 1, 2, 10):
        expected = [naive_hashing.shuffled_index(i, count, SEED, rounds) for i in range(count)]
        assert compute_shuffled_permutation(count, SEED, rounds).tolist() == expected
        assert [compute_shuffled_index(i, count, SEED, rounds) for i in range(count)] == expected


def test_permutation_is_uint64_and_complete() -> None:
    permutation = compute_shuffled_permutation(10_000, SEED, 90)
    assert permutation.dtype == np.uint64
    assert np.array_equal(np.sort(permutation), np.arange(10_000))
    for index in (0, 1, 4_999, 9_999):
        assert permutation[index] == naive_hashing.shuffled_index(index, 10_000, SEED, 90)


@pytest.mark.parametrize(
    ("count", "seed", "rounds"),
    [(-1, SEED, 10), (1 << 32, SEED, 10), (8, SEED[1:], 10), (8, SEED, -1), (8, SEED, 256)],
)
def test_what_cannot_be_shuffled_is_refused(count: int, seed: bytes, rounds: int) -> None:
    with pytest.raises(Misuse):
        compute_shuffled_permutation(count, seed, rounds)
    with pytest.raises(Misuse):
        compute_shuffled_index(0, count, seed, rounds)


@pytest.mark.parametrize("index", [-1, 8])
def test_an_index_outside_the_list_is_refused(index: int) -> None:
    with pytest.raises(Misuse, match="not one of 8"):
        compute_shuffled_index(index, 8, SEED, 10)
