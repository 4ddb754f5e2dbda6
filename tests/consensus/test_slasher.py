"""Votes that exclude each other are found: all of them, and no others."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.consensus.containers.phase0 import AttestationData, Checkpoint, IndexedAttestation
from anchor.consensus.slasher import WINDOW, Slasher
from tests.consensus.ledgers import Chain

LEDGER = Chain().ledger
VOTES = st.tuples(
    st.sets(st.integers(0, 5), min_size=1),
    st.integers(0, 6),
    st.integers(1, 6),
    st.integers(0, 1),
)
"""Voters, source, epochs to the target, and one of two blocks."""


def make_vote(voters: set[int], source: int, target: int, block: int = 0) -> IndexedAttestation:
    """A vote that nobody signed."""
    data = AttestationData(
        slot=target * 8,
        index=0,
        beacon_block_root=bytes([block]) * 32,
        source=Checkpoint(epoch=source, root=bytes(32)),
        target=Checkpoint(epoch=target, root=bytes(32)),
    )
    return IndexedAttestation(attesting_indices=tuple(sorted(voters)), data=data, signature=bytes(96))


def _find_offenders(votes: list[IndexedAttestation]) -> set[int]:
    """The naive way: every pair, both ways round."""
    found: set[int] = set()
    for one, other in combinations(votes, 2):
        both = set(one.attesting_indices) & set(other.attesting_indices)
        pairs = ((one.data, other.data), (other.data, one.data))
        if both and any(LEDGER.is_slashable_attestation_data(*pair) for pair in pairs):
            found |= both
    return found


@given(st.lists(VOTES, max_size=12))
def test_all_offenders_are_found_and_nobody_else(
    drawn: list[tuple[set[int], int, int, int]],
) -> None:
    votes = [make_vote(voters, source, source + more, block) for voters, source, more, block in drawn]
    slasher, caught = Slasher(), set[int]()
    kept: list[IndexedAttestation] = []
    for vote in votes:
        is_news, evidence = slasher.is_news(vote), slasher.observe(vote)
        assert is_news or not evidence
        for slashing in evidence:
            first, second = slashing.attestation_1, slashing.attestation_2
            assert LEDGER.is_slashable_attestation_data(first.data, second.data)
            caught |= set(first.attesting_indices) & set(second.attesting_indices)
        kept.append(vote)
        # Whoever is found in all votes is found: what was not kept is evidence already.
        assert caught <= _find_offenders(kept)
        assert _find_offenders(kept) <= caught


def test_what_was_said_is_no_news() -> None:
    slasher = Slasher()
    vote = make_vote({1, 2}, 0, 1)
    assert slasher.is_first(vote)
    assert slasher.observe(vote) == []
    assert not slasher.is_news(vote)
    assert not slasher.is_news(make_vote({2}, 0, 1))
    assert slasher.is_first(make_vote({2, 3}, 0, 1))
    assert slasher.get_voters(1).tolist()[:4] == [False, True, True, False]
    assert not slasher.get_voters(2).any()


def test_the_caught_are_caught_once() -> None:
    slasher = Slasher()
    slasher.observe(make_vote({1}, 0, 2))
    assert len(slasher.observe(make_vote({1}, 0, 2, block=1))) == 1
    for block in range(2, 50):
        vote = make_vote({1}, 0, 2, block)
        assert not slasher.is_news(vote)
        assert slasher.observe(vote) == []


@pytest.mark.parametrize("epochs", [3 * WINDOW])
def test_memory_is_bounded(epochs: int) -> None:
    slasher = Slasher()
    for target in range(1, epochs):
        slasher.observe(make_vote({target % 7, 9}, target - 1, target))
    assert sum(map(len, slasher._votes)) <= WINDOW
    assert not slasher.is_news(make_vote({1}, 0, epochs - WINDOW - 1)), "too long ago"
    assert slasher.observe(make_vote({9}, 0, epochs + 1))[0].attestation_1.data.source.epoch == 0
