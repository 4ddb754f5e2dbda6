"""The fork choice against loops over all blocks and votes, in histories of every kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.fork_choice.gloas import GloasForkChoice
from anchor.consensus.fork_choice.phase0 import ForkChoice
from anchor.errors import InvalidTransition
from tests.consensus.scripted import World, take_snapshot
from tests.oracles.naive_fork_choice import Naive, NaiveGloas, Refused

TICKS = (500, 1500, 1500, 3000, 3000, 6000)
COMMON = ("tick", "tick", "block", "block", "block", "attestation", "attestation", "slashing")
EVENTS = {"altair": COMMON, "gloas": (*COMMON, "envelope", "envelope", "envelope", "payload_vote")}


class Pair:
    """The fork choice and its oracle, to which the same things happen."""

    def __init__(self, fork: str) -> None:
        self.world = World(fork)
        rules, state, block = self.world.rules, self.world.state, self.world.anchor
        self.choice: Any = (GloasForkChoice if fork == "gloas" else ForkChoice)(rules)
        self.store = self.choice.get_forkchoice_store(state, block)
        self.naive: Any = (NaiveGloas if fork == "gloas" else Naive)(rules, state, block)
        self.refused = 0

    def happen(self, event: str, seed: int) -> None:
        """One thing happens to both; a refusal of one is a refusal of the other, and changes nothing."""
        act, act_naively = self.prepare(event, Random(seed))
        before = take_snapshot(self.choice, self.store)
        refused = is_refused(act)
        assert is_refused(act_naively) == refused
        if refused:
            self.refused += 1
            self.world.keep(self.store.blocks)
            assert take_snapshot(self.choice, self.store) == before

    def prepare(self, event: str, chance: Random) -> tuple[Callable[[], None], Callable[[], None]]:
        choice, store, naive, world = self.choice, self.store, self.naive, self.world
        if event == "tick":
            time = store.time_ms + chance.choice(TICKS)
            return lambda: choice.on_tick(store, time), lambda: naive.on_tick(time)
        if event == "attestation":
            vote, from_block = world.make_attestation(chance), chance.random() < 0.5
            return (
                lambda: choice.on_attestation(store, vote, from_block),
                lambda: naive.on_attestation(vote, from_block),
            )
        if event == "payload_vote":
            message = world.make_payload_vote(chance)
            return (
                lambda: choice.on_payload_attestation_message(store, message),
                lambda: naive.on_payload_vote(message.validator_index, message.data),
            )
        make_block = partial(world.make_block, now=choice.get_current_slot(store))
        make, handler, naive_handler = {
            "block": (make_block, "on_block", "on_block"),
            "slashing": (world.make_slashing, "on_attester_slashing", "on_attester_slashing"),
            "envelope": (world.make_envelope, "on_execution_payload_envelope", "on_envelope"),
        }[event]
        thing = make(chance)
        return lambda: getattr(choice, handler)(store, thing), lambda: getattr(naive, naive_handler)(thing)

    def compare(self) -> None:
        """Both hold the same."""
        store, naive = self.store, self.naive
        head = self.choice.get_head(store)
        assert store.blocks.keys() == naive.blocks.keys()
        assert head == naive.get_head()
        assert store.justified_checkpoint == naive.justified
        assert store.finalized_checkpoint == naive.finalized
        assert store.proposer_boost_root == naive.boost
        for node in store.tree.nodes:
            assert self.choice.get_weight(store, node) == naive.get_weight(node)
            assert self.choice.get_attestation_score(store, node) == naive.get_score(node)
        viable = {node for place, node in enumerate(store.tree.nodes) if store.tree.viable[place]}
        base = self.choice.get_base(store)
        below = {node for place, node in enumerate(store.tree.nodes) if store.tree.is_ancestor(base, place)}
        assert viable & below == set(naive.filter(store.tree.nodes[base]))
        if store.proposer_boost_root != head.root:
            slot = self.choice.get_current_slot(store)
            for after in (slot, store.blocks[head.root].slot + 1):
                assert self.choice.get_proposer_head(store, head, after) == naive.get_proposer_head(
                    head, after
                )


def is_refused(act: Callable[[], None]) -> bool:
    try:
        act()
    except (InvalidTransition, Refused):
        return True
    return False


def histories(fork: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(EVENTS[fork]), st.integers(0, 2**32)), min_size=10, max_size=60)


def check(fork: str, history: list[tuple[str, int]]) -> None:
    pair = Pair(fork)
    for event, seed in history:
        pair.happen(event, seed)
        pair.compare()


@settings(max_examples=30, deadline=None)
@given(histories("altair"))
def test_altair_agrees_with_the_oracle(history: list[tuple[str, int]]) -> None:
    check("altair", history)


@settings(max_examples=30, deadline=None)
@given(histories("gloas"))
def test_gloas_agrees_with_the_oracle(history: list[tuple[str, int]]) -> None:
    check("gloas", history)


@pytest.mark.parametrize("fork", list(EVENTS))
def test_long_histories_reach_everything(fork: str) -> None:
    """Histories long enough to justify, finalise, forget, boost, refuse and reorganise."""
    seen: set[str] = set()
    for number in range(2):
        chance, pair = Random(number), Pair(fork)
        head = pair.choice.get_head(pair.store)
        for _ in range(250):
            known = set(pair.store.blocks)
            pair.happen(chance.choice(EVENTS[fork]), chance.getrandbits(32))
            if chance.random() < 0.2:
                pair.compare()
            new = pair.choice.get_head(pair.store)
            seen |= {name for name, flag in _look(pair, known, head, new).items() if flag}
            head = new
    assert seen == set(_look(pair, set(), head, head))


def _look(pair: Pair, known: set[bytes], head: Any, new: Any) -> dict[str, bool]:
    store, tree = pair.store, pair.store.tree
    kept = head in tree.places
    found = {
        "justified": store.justified_checkpoint.epoch > 0,
        "forgotten": bool(known - set(store.blocks)),
        "boosted": any(store.proposer_boost_root),
        "equivocated": bool(store.votes.equivocating.any()),
        "refused": pair.refused > 0,
        "reorganised": kept and not tree.is_ancestor(tree.places[head], tree.places[new]),
        "unviable": not all(tree.viable),
    }
    if pair.world.fork == "gloas":
        found |= {"full": new.payload_status == 1, "empty": new.payload_status == 0}
    return found
