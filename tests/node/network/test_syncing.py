"""Catching up: in batches, from several peers, past those who stall, lie, or leave."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import RefusedPeer
from anchor.node.network.backfill import BATCH as BACKWARDS_BATCH
from anchor.node.network.backfill import Backfill
from anchor.node.network.messages import Kind, PeerStatus
from anchor.node.network.syncing import (
    BATCH,
    MAX_BATCHES,
    MAX_PER_PEER,
    MAX_TRIES,
    REST_SECONDS,
    STALL_SECONDS,
    Ask,
    Standpoint,
    Syncer,
)
from anchor.node.network.wanted import MAX_DEPTH, MAX_PEERS_ASKED, MAX_WANTED, PATIENCE, Wanted

A, B, C = b"a" * 32, b"b" * 32, b"c" * 32


class FakeBlock:
    """A slot and a parent, which is all that syncing looks at."""

    def __init__(self, slot: int, fork: str = "") -> None:
        self.slot, self.parent_root, self.message = slot, root(slot - 1, fork), self


def root(slot: int, fork: str = "") -> bytes:
    """Of the block of a slot, on a chain that has one in every slot."""
    return f"{slot} {fork}".encode().ljust(32, b"\0")


def status(head: int, final_epoch: int = 0, earliest: int = 1, fork: str = "") -> PeerStatus:
    """How a peer stands."""
    final = Checkpoint(epoch=final_epoch, root=root(8 * final_epoch))
    return PeerStatus(
        finalized=final, head_root=root(head, fork), head_slot=head, earliest_slot=earliest, time_ms=0
    )


class Node:
    """A syncer, the chain that it fills, and peers that answer truthfully unless a test says otherwise."""

    def __init__(self, **statuses: PeerStatus) -> None:
        self.syncer, self.head, self.now, self.final = Syncer(8), 0, 0.0, 0
        self.has = {root(0)}
        for name, one in statuses.items():
            self.syncer.on_status(name.encode() * 32, one)

    @property
    def own(self) -> Standpoint:
        """Where it stands."""
        return Standpoint(self.final, self.head, 10_000, self.has.__contains__)

    def begin(self) -> bool:
        """Starts, if there is reason to."""
        return self.syncer.begin(self.own, self.now)

    def asks(self) -> list[Ask]:
        """What it asks now."""
        return self.syncer.get_asks(self.now)[0]

    def answer(self, ask: Ask, fork: str = "") -> None:
        """Answers in full."""
        question: Any = ask.message.value
        for slot in range(question.start_slot, question.start_slot + question.count):
            self.syncer.on_block(
                ask.peer, ask.message.request, FakeBlock(slot, fork), root(slot, fork), self.now
            )  # type: ignore[arg-type]
        self.syncer.on_end(ask.peer, ask.message.request)

    def apply(self) -> list[bytes]:
        """Applies what is ready; who lied."""
        liars = []
        while batch := self.syncer.get_ready():
            for block in batch.blocks:
                self.head = block.message.slot
                self.has.add(batch.last if block is batch.blocks[-1] else root(self.head))
            liars += self.syncer.on_applied(batch, self.own, self.now)
        return liars


def test_a_node_catches_up_from_several_peers() -> None:
    node = Node(a=status(1000, 120), b=status(1000, 120))
    assert node.begin()
    peers, rounds = set(), 0
    while node.syncer.is_running:
        asks = node.asks()
        assert len(asks) <= MAX_BATCHES
        for peer in (A, B):
            assert sum(ask.peer == peer for ask in asks) <= MAX_PER_PEER
        peers |= {ask.peer for ask in asks}
        for ask in reversed(asks):  # answers come in any order
            node.answer(ask)
        assert node.apply() == []
        rounds += 1
    assert (node.head, peers) == (1000, {A, B})
    assert rounds == -(-1000 // (BATCH * MAX_BATCHES))
    assert not node.begin()


@pytest.mark.parametrize("head", [0, 1, 2])
def test_gossip_brings_what_is_near(head: int) -> None:
    assert not Node(a=status(head)).begin()


def test_a_head_in_the_future_is_no_reason() -> None:
    assert not Node(a=status(10_002)).begin()


def test_who_stalls_is_passed_over() -> None:
    node = Node(a=status(20), b=status(20))
    node.begin()
    (first,) = node.asks()
    node.now = STALL_SECONDS + 1
    asks, stalled = node.syncer.get_asks(node.now)
    assert stalled == [first.peer]
    assert [ask.peer for ask in asks] == [B if first.peer == A else A]
    node.answer(first)  # too late: it counts for nothing
    assert node.syncer.get_ready() is None
    with pytest.raises(RefusedPeer, match="was not asked"):
        node.answer(first._replace(peer=C))
    node.answer(asks[0])
    node.apply()
    assert node.head == 20


def test_who_leaves_is_passed_over() -> None:
    node = Node(a=status(20), b=status(20))
    node.begin()
    (first,) = node.asks()
    node.syncer.on_gone(first.peer)
    (second,) = node.asks()
    assert second.peer != first.peer


@pytest.mark.parametrize(
    ("slots", "words"),
    [([21], "slot 21"), ([0], "slot 0"), ([3, 3], "slot 3"), ([3, 2], "slot 2"), ([3, 5], "does not follow")],
)
def test_answers_that_are_none(slots: list[int], words: str) -> None:
    node = Node(a=status(20))
    node.begin()
    (ask,) = node.asks()
    with pytest.raises(RefusedPeer, match=words):
        for slot in slots:
            node.syncer.on_block(A, ask.message.request, FakeBlock(slot), root(slot), 0)  # type: ignore[arg-type]


def test_what_is_final_comes_from_any_the_rest_from_who_has_that_head() -> None:
    node = Node(a=status(40, 4), b=status(40, 4, fork="other"))
    node.begin()
    asks = node.asks()
    assert {(ask.message.value.start_slot, ask.peer) for ask in asks} == {(1, A), (33, A)} or {
        ask.message.value.start_slot: ask.peer for ask in asks
    }[33] in (A, B)
    target = node.syncer._target
    last = next(ask for ask in asks if ask.message.value.start_slot == 33)
    assert node.syncer._statuses[last.peer].head_root == target.head_root  # type: ignore[union-attr]


def test_a_bad_batch_is_asked_of_others_a_few_times() -> None:
    node = Node(a=status(20), b=status(20))
    node.begin()
    peers = []
    for _ in range(MAX_TRIES):
        (ask,) = node.asks()
        peers.append(ask.peer)
        node.answer(ask)
        batch = node.syncer.get_ready()
        assert batch
        node.syncer.on_refused(batch, node.now)
    assert set(peers[:2]) == {A, B}
    assert not node.syncer.is_running
    assert not node.begin()
    node.now = REST_SECONDS + 1
    assert node.begin()


def test_on_another_fork_it_starts_again_from_what_is_final() -> None:
    node = Node(a=status(100, fork="x"))
    node.final, node.head = 16, 40
    node.begin()
    assert node.asks()[0].message.value.start_slot == 41
    assert node.syncer.on_unlinked(node.own, node.now)
    assert node.asks()[0].message.value.start_slot == 17
    assert not node.syncer.on_unlinked(node.own, node.now)
    assert not node.begin()


def test_a_head_that_was_never_shown() -> None:
    node = Node(a=status(20))
    node.begin()
    (ask,) = node.asks()
    node.syncer.on_end(A, ask.message.request)  # it has nothing
    assert node.apply() == [A]
    node.now = 10**6
    assert not node.begin()
    node.syncer.on_status(A, status(21))
    assert node.begin()


def test_a_fork_of_equal_height_is_fetched_when_asked_for() -> None:
    node = Node(a=status(40, fork="x"))
    node.head, node.final = 40, 16
    assert not node.begin()
    node.syncer.begin_from_final(node.own)
    assert node.asks()[0].message.value.start_slot == 17


# Backwards


def gone_back(missing: int, slots: list[int], fork: str = "") -> tuple[Backfill, list[int]]:
    """A node without block `missing` and those before, and what it makes of an answer."""
    backfill = Backfill(root(missing), missing + 1)
    ask = backfill.get_ask({A: 0}, 0.0)
    assert ask is not None
    for slot in slots:
        backfill.on_block(A, ask.message.request, FakeBlock(slot, fork), root(slot, fork))  # type: ignore[arg-type]
    return backfill, [block.message.slot for _, block in backfill.on_end(A, ask.message.request)]


def test_blocks_from_before_are_held_to_the_one_after() -> None:
    backfill, slots = gone_back(10, list(range(1, 11)))
    assert slots == list(range(1, 11))
    backfill.on_stored(None)
    assert backfill.get_ask({A: 0}, 0.0) is None


@pytest.mark.parametrize(
    ("slots", "fork"), [([9], ""), ([10, 9], ""), ([8, 10], ""), ([10], "x"), ([], "")], ids=str
)
def test_blocks_from_before_that_lead_elsewhere(slots: list[int], fork: str) -> None:
    with pytest.raises(RefusedPeer):
        gone_back(10, slots, fork)


def test_empty_slots_before_are_passed_over() -> None:
    backfill, slots = gone_back(1000, [])
    assert slots == []
    ask = backfill.get_ask({A: 0}, 0.0)
    assert ask is not None
    assert ask.message.value.start_slot == 1001 - 2 * BACKWARDS_BATCH


def test_who_has_nothing_older_is_not_asked_and_who_stalls_once() -> None:
    backfill = Backfill(root(100), 101)
    assert backfill.get_ask({A: 101}, 0.0) is None
    first = backfill.get_ask({A: 0, B: 0}, 0.0)
    assert first is not None
    assert backfill.get_ask({A: 0, B: 0}, STALL_SECONDS) is None
    second = backfill.get_ask({A: 0, B: 0}, STALL_SECONDS + 1)
    assert second is not None
    assert {first.peer, second.peer} == {A, B}
    assert backfill.on_end(first.peer, first.message.request) == []  # too late


# By root


def test_parents_of_parents_are_wanted_up_to_a_depth() -> None:
    wanted = Wanted()
    assert wanted.want(root(100), A)
    for step in range(MAX_DEPTH):
        assert wanted.want(root(99 - step), A, child=root(100 - step))
    assert not wanted.want(root(99 - MAX_DEPTH), A, child=root(100 - MAX_DEPTH))


def test_who_spoke_of_it_is_asked_then_others() -> None:
    wanted = Wanted()
    wanted.want(root(1), A)
    wanted.want(root(1), B)
    (ask,) = wanted.get_asks(0)
    request = ask.message.request
    assert (ask.peer, ask.message.kind, ask.message.value.roots) == (A, Kind.GET_BLOCKS_BY_ROOT, (root(1),))
    assert not wanted.on_block(B, request, root(1))
    assert not wanted.on_block(A, request, root(2))
    assert wanted.get_asks(PATIENCE / 2) == []
    assert not wanted.on_end(B, request)
    assert wanted.on_end(A, request)
    assert not wanted.on_end(A, request)
    (ask,) = wanted.get_asks(PATIENCE / 2)
    assert ask.peer == B
    assert wanted.on_block(B, ask.message.request, root(1))
    assert not wanted.on_block(B, ask.message.request, root(1))  # once
    wanted.on_found(root(1))
    assert root(1) not in wanted


def test_what_nobody_has_is_forgotten() -> None:
    wanted = Wanted()
    for number in range(MAX_PEERS_ASKED + 2):
        wanted.want(root(1), bytes([number]))
    asked = 0
    for turn in range(10):
        asked += len(wanted.get_asks(turn * (PATIENCE + 1)))
    assert (asked, root(1) in wanted) == (MAX_PEERS_ASKED, False)
    for number in range(MAX_WANTED + 10):
        wanted.want(root(number), A)
    assert len(wanted._wants) == MAX_WANTED
    wanted.on_gone(A)
    assert wanted.get_asks(0) == []
    assert not wanted._wants
