"""The parts of an engine alone: pools, what waits, and what a block is given."""

from __future__ import annotations

from functools import reduce
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.bls import Bls
from anchor.consensus.containers.phase0 import Attestation, AttestationData, Checkpoint
from anchor.consensus.duties import compute_attestation_data, compute_attestations
from anchor.merkle.bits import Bits
from anchor.node.network.messages import Kind, Message, SyncContribution
from anchor.node.network.pools import MAX_VOTES_OF_SLOT, OperationPool, Signed, SyncPool, VotePool, aggregate
from anchor.node.network.proposing import select_votes
from anchor.node.network.waiting import MAX_OF_PEER, MAX_WAITING, PATIENCE, Held, Waiting
from tests.consensus.ledgers import Chain, make_keyring, make_secret_key
from tests.consensus.test_slasher import make_vote
from tests.node.network.tools import Unsigned

BLS = Bls()
SETS = st.lists(st.sets(st.integers(0, 15), min_size=1), min_size=1, max_size=8)


def _bits(members: set[int], size: int = 16) -> Bits:
    return Bits([place in members for place in range(size)])


def _make_data(slot: int, block: int = 0) -> AttestationData:
    return AttestationData(
        slot=slot,
        index=0,
        beacon_block_root=bytes([block]) * 32,
        source=Checkpoint(epoch=0, root=bytes(32)),
        target=Checkpoint(epoch=slot // 8, root=bytes(32)),
    )


@given(SETS)
def test_an_aggregate_is_of_parts_without_a_common_member(sets: list[set[int]]) -> None:
    whole = aggregate(Unsigned(), [Signed(_bits(members), bytes(96)) for members in sets])
    members = set(whole.bits.get_set_indices())
    taken = [part for part in sets if part <= members]
    assert max(map(len, sets)) <= len(members)
    assert members <= reduce(set.union, taken)


def test_an_aggregate_verifies() -> None:
    message, secrets = b"\5" * 32, [make_secret_key(index) for index in range(3)]
    parts = [Signed(_bits({i}), BLS.sign(secret, message)) for i, secret in enumerate(secrets)]
    whole = aggregate(BLS, parts)
    assert whole.bits.get_set_indices() == [0, 1, 2]
    pubkeys = [BLS.sk_to_pk(secret) for secret in secrets]
    assert BLS.fast_aggregate_verify(pubkeys, message, whole.signature)


@given(SETS)
def test_every_vote_is_in_some_aggregate(sets: list[set[int]]) -> None:
    pool = VotePool()
    for members in sets:
        pool.add(Attestation(aggregation_bits=_bits(members), data=_make_data(9), signature=bytes(96)))
    voters = [set(vote.aggregation_bits.get_set_indices()) for vote in pool.aggregate(Unsigned())]
    assert reduce(set.union, voters) == reduce(set.union, sets)
    assert len(pool) <= len(sets)


def test_a_vote_pool_is_bounded_and_forgets() -> None:
    pool = VotePool()
    for number in range(MAX_VOTES_OF_SLOT + 50):
        data = _make_data(9).replace(index=number)
        pool.add(Attestation(aggregation_bits=_bits({1}), data=data, signature=bytes(96)))
    assert len(pool) == MAX_VOTES_OF_SLOT
    pool.prune(10)
    assert (len(pool), list(pool.aggregate(Unsigned()))) == (0, [])


def test_votes_count_from_the_next_slot_on() -> None:
    pool, early, late = VotePool(), make_vote({1}, 0, 1), make_vote({1}, 0, 2)
    pool.count_later(early)
    pool.count_later(late)
    assert pool.take_countable(8) == []
    assert pool.take_countable(9) == [early]
    assert pool.take_countable(99) == [late]


def test_a_seat_is_heard_once_a_slot() -> None:
    pool = SyncPool(32)

    def sign(seats: set[int], root: int) -> SyncContribution:
        return SyncContribution(
            slot=5,
            beacon_block_root=bytes([root]) * 32,
            sync_committee_bits=_bits(seats, 32),
            signature=bytes(96),
        )

    pool.add(sign({1, 2}, 1))
    assert not pool.is_news(sign({2}, 2))
    assert pool.is_news(sign({2, 3}, 1))
    pool.add(sign({4}, 1))
    bits = pool.aggregate(Unsigned(), 5, b"\1" * 32).sync_committee_bits
    assert bits.get_set_indices() == [1, 2, 4]
    assert pool.aggregate(Unsigned(), 5, b"\2" * 32).sync_committee_bits.count_set() == 0
    pool.prune(6)
    assert pool.is_news(sign({2}, 2))


def test_evidence_is_kept_until_it_has_taken_effect_for_good() -> None:
    pool = OperationPool()
    slashing = _make_slashing({1, 2})
    assert pool.add_attester_slashing(slashing)
    assert not pool.add_attester_slashing(_make_slashing({2}))
    assert pool.add_attester_slashing(_make_slashing({2, 3}))
    pool.prune({1}, set())
    assert len(pool.attester_slashings) == 2
    pool.prune({1, 2}, set())
    assert len(pool.attester_slashings) == 1
    pool.prune({1, 2, 3}, set())
    assert pool.attester_slashings == []


def _make_slashing(voters: set[int]) -> Any:
    from anchor.consensus.containers.phase0 import AttesterSlashing

    return AttesterSlashing(
        attestation_1=make_vote(voters, 0, 1), attestation_2=make_vote(voters, 0, 1, block=1)
    )


def test_what_waits_is_bounded_and_goes() -> None:
    waiting = Waiting()
    for number in range(2 * MAX_WAITING):
        message = Message(Kind.ATTESTATION, _make_data(number))
        waiting.hold(Held(message, bytes([number % 3]), 0), b"block" if number % 2 else number, 0)
    assert len(waiting) == 3 * MAX_OF_PEER
    waiting.hold(Held(Message(Kind.ATTESTATION, _make_data(0)), b"other", 0), 0, 0)
    assert len(waiting) == 3 * MAX_OF_PEER, "the same"
    slots = [held.message.value.slot for held in waiting.take_slot(20)]
    assert slots == list(range(0, 21, 2))
    by_block = waiting.take_known({b"block"})
    assert len(by_block) == 3 * MAX_OF_PEER // 2
    assert len(waiting) == 3 * MAX_OF_PEER - len(slots) - len(by_block)
    waiting.drop_late(PATIENCE + 1)
    assert len(waiting) == 0
    waiting.hold(Held(Message(Kind.ATTESTATION, _make_data(0)), b"other", 0), 0, PATIENCE + 1)
    assert len(waiting) == 0, "it has waited too long already"


@settings(max_examples=20)
@given(st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=1, max_size=6), st.integers(1, 2))
def test_a_block_brings_every_flag_that_waits(sets: list[set[int]], blocks: int) -> None:
    """The naive oracle: all votes one by one earn no more than those that were selected."""
    chain = Chain()
    for _ in range(9):
        chain.add_block()
    ledger, pool = chain.ledger, VotePool()
    data = compute_attestation_data(ledger, chain.state, 0)
    for members in sets:
        pool.add(Attestation(aggregation_bits=_bits(members, 8), data=data, signature=bytes(96)))
    for vote in compute_attestations(ledger, chain.state, make_keyring(3))[:blocks]:
        pool.add(vote)
    state = chain.at_next_slot()
    chosen = select_votes(ledger, state, Unsigned(), pool)
    rows = [ledger.get_attesting_indices(state, vote) for vote in chosen]
    covered = {int(index) for row in rows for index in row}
    everyone = {
        int(index)
        for vote in pool.aggregate(Unsigned())
        for index in ledger.get_attesting_indices(state, vote)
    }
    assert covered == everyone
    new = [set(row.tolist()) for row in rows]
    for place, row in enumerate(new):
        assert row - set().union(*new[:place]), "each brings something"
