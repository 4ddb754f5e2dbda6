"""Fast confirmation: what it confirms, when it lets go, and that it copes with what the store forgot."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.consensus.fork_choice.confirmation import FastConfirmation, FastConfirmationStore
from tests.consensus.chains import SLOTS
from tests.consensus.test_fork_choice_upgrades import Network

LATER = 100
"""An epoch that no test reaches."""


class Confirmed(Network):
    """A chain of one fork that is confirmed slot by slot."""

    def __init__(self, fork: str) -> None:
        super().__init__(fork, LATER)
        self.rule = FastConfirmation(self.choice.at_slot(0))
        self.confirmed: FastConfirmationStore = self.rule.get_fast_confirmation_store(self.store)
        self.roots: list[bytes] = []
        """Of the chain's blocks, in order."""

    def pass_slot(self, *, voted: bool = True, block: bool = True) -> None:
        """The next slot: votes for the last one's block come, the rule runs, a block comes."""
        slot = self.choice.at_slot(0).get_current_slot(self.store) + 1
        votes: Any = self.chain.make_votes(self.schedule.forks[-1]) if voted and self.roots else ()
        self.tick_to(slot)
        for vote in votes:
            self.choice.on_attestation(self.store, vote)
        self.rule.on_fast_confirmation(self.confirmed)
        if block:
            self.choice.on_block(self.store, self.chain.make_block(slot))
            self.roots.append(self.chain.get_newest_root())


@pytest.mark.parametrize("fork", ["phase0", "altair", "electra"])
def test_with_all_votes_a_block_is_confirmed_in_the_next_slot(fork: str) -> None:
    network = Confirmed(fork)
    for _ in range(6 * SLOTS):
        network.pass_slot()
        if len(network.roots) > 1:
            assert network.confirmed.confirmed_root == network.roots[-2]
    assert network.store.finalized_checkpoint.epoch > 2  # so the store has forgotten much


def test_without_votes_nothing_is_confirmed() -> None:
    network = Confirmed("altair")
    anchor = network.confirmed.confirmed_root
    for _ in range(SLOTS - 1):
        network.pass_slot(voted=False)
    assert network.confirmed.confirmed_root == anchor


def test_what_grows_old_is_let_go() -> None:
    network = Confirmed("altair")
    for _ in range(4 * SLOTS):
        network.pass_slot()
    assert network.confirmed.confirmed_root == network.roots[-2]
    for _ in range(2 * SLOTS):
        network.pass_slot(voted=False, block=False)
    assert network.confirmed.confirmed_root == network.store.finalized_checkpoint.root


def test_a_payload_that_nobody_judged_is_not_confirmed() -> None:
    network = Confirmed("capella")
    for _ in range(3):
        network.pass_slot()
    before = network.confirmed.confirmed_root
    network.store.optimistic_roots.add(network.roots[-1])
    network.pass_slot()
    assert network.confirmed.confirmed_root == before
    network.store.optimistic_roots.clear()
    network.pass_slot()
    assert network.confirmed.confirmed_root == network.roots[-2]
    payload = network.store.blocks[network.roots[-2]].body.execution_payload
    assert network.rule.get_safe_execution_block_hash(network.confirmed) == payload.block_hash


def test_after_a_restart_the_newer_root_counts_while_it_holds() -> None:
    network = Confirmed("altair")
    for _ in range(5):
        network.pass_slot()
    rule, confirmed = network.rule, network.confirmed
    confirmed.confirmed_root, kept = network.roots[0], confirmed.confirmed_root
    assert rule.get_restart_resilient_confirmed_root(confirmed, kept) == kept
    assert rule.get_restart_resilient_confirmed_root(confirmed, bytes(32)) == network.roots[0]
    confirmed.confirmed_root = network.roots[-1]
    assert rule.get_restart_resilient_confirmed_root(confirmed, kept) == network.roots[-1]
    confirmed.confirmed_root = network.roots[0]
    network.tick_to(4 * SLOTS)
    assert rule.get_restart_resilient_confirmed_root(confirmed, kept) == network.roots[0]


@pytest.mark.parametrize(
    ("start", "end", "weight"),
    [
        (5, 4, 0),
        (0, 7, 8000),
        (3, 15, 8000),
        (9, 11, 3000),
        (6, 9, 4 * 1005),  # 2 of 8 slots, counted for 6 of 8, and 2 more: 3,500, rounded up
        (3, 14, 8 * 1005),  # 5 for 1 of 8, and 7 more: 7,625
    ],
)
def test_estimates(start: int, end: int, weight: int) -> None:
    rule = Confirmed("altair").rule
    assert rule.estimate_committee_weight_between_slots(8000, start, end) == weight
