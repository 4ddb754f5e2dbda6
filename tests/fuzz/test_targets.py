"""The fuzzer's targets: they take their seeds, and a quick look at what they do with mutated ones."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.consensus.test_transition_fuzz import PATCHES, mutate_bytes
from tests.fuzz import __main__ as driver
from tests.fuzz.targets import TARGETS, is_taken

NAMES = list(TARGETS)


@cache
def make_seeds(name: str) -> tuple[bytes, ...]:
    return tuple(TARGETS[name].make_seeds())


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_taken(name: str) -> None:
    taken = [is_taken(TARGETS[name], seed) for seed in make_seeds(name)]
    assert any(taken) if name == "gossip" else all(taken)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_mutated_is_taken_or_refused(name: str) -> None:
    refused = 0

    @settings(max_examples=40)
    @given(st.sampled_from(make_seeds(name)), PATCHES, st.integers(0, 40))
    def mutate(seed: bytes, patches: list[tuple[int, bytes]], cut: int) -> None:
        nonlocal refused
        refused += not is_taken(TARGETS[name], mutate_bytes(seed, patches)[: len(seed) - max(cut - 30, 0)])

    mutate()
    assert refused


def test_without_the_fuzzer_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "find_spec", lambda name: None)
    assert driver.main(["ssz", "--seconds", "1"]) == 3
    assert "Nothing was fuzzed" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_taken_or_refused(name: str) -> None:
    is_taken(TARGETS[name], b"")
