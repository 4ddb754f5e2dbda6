"""What peers pass on: each message once, and what is refused is not remembered."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.consensus.containers.phase0 import (
    AttesterSlashing,
    ProposerSlashing,
    SignedBeaconBlockHeader,
    SignedVoluntaryExit,
    VoluntaryExit,
)
from anchor.consensus.fork_epochs import FORK_NAMES
from anchor.consensus.gossip.base import Seen
from anchor.consensus.gossip.bids import compute_gas_limit
from anchor.consensus.gossip.forks import GOSSIP
from anchor.errors import Ignored, InvalidTransition
from anchor.merkle.bits import Bits
from tests.consensus.chains import SLOTS
from tests.consensus.test_fork_choice_upgrades import Network

LATER = 100
"""An epoch that no test reaches."""


class Node(Network):
    """A node that follows a chain of one fork, up to a slot whose block is on its way."""

    def __init__(self, fork: str, slot: int = SLOTS + 2) -> None:
        super().__init__(fork, LATER)
        self.run_to(slot - 1)
        self.slot, self.seen = slot, Seen()
        self.gossip: Any = GOSSIP[fork](self.choice.at_slot(0), self.seen)
        self.votes = self.chain.make_votes(self.schedule.forks[-1])
        self.block = self.chain.make_block(slot)
        self.now = self.gossip.get_slot_time_ms(self.store, slot) + 1000
        self.choice.on_tick(self.store, self.now)

    def refuse(self, error: type[Exception], reason: str, call: Any) -> None:
        """`call` is refused, and leaves nothing behind."""
        before = self.take_snapshot()
        with pytest.raises(error, match=reason) as caught:
            call()
        assert isinstance(caught.value, Ignored) == (error is Ignored)
        assert self.take_snapshot() == before

    def take_snapshot(self) -> Any:
        seen = self.seen
        bits = {key: list(known) for key, known in seen.bits.items()}
        return set(seen.keys), bits, dict(seen.headers), dict(seen.payloads), dict(seen.preferences)


def test_every_fork_has_topics() -> None:
    assert tuple(GOSSIP) == FORK_NAMES


@pytest.mark.parametrize("fork", ["phase0", "bellatrix", "capella", "electra"])
def test_a_block_is_passed_on_once(fork: str) -> None:
    node = Node(fork)
    validate, message = node.gossip.validate_beacon_block, node.block.message
    for error, reason, changes, time in (
        (Ignored, "not due", {}, node.now - 10_000),
        (Ignored, "not come", {"parent_root": bytes(32)}, node.now),
        (Ignored, "finalised", {"slot": 0}, node.now),
        (InvalidTransition, "no validator", {"proposer_index": 2**40}, node.now),
        (InvalidTransition, "is for proposer", {"proposer_index": message.proposer_index ^ 1}, node.now),
        (InvalidTransition, "follows one of slot", {"slot": node.slot - 1}, node.now),
    ):
        block = node.block.replace(message=message.replace(**changes))
        node.refuse(error, reason, lambda block=block, time=time: validate(node.store, block, time))
    node.seen.unimported[bytes(32)] = message
    orphan = node.block.replace(message=message.replace(parent_root=bytes(32)))
    node.refuse(InvalidTransition, "was refused", lambda: validate(node.store, orphan, node.now))
    validate(node.store, node.block, node.now)
    node.refuse(Ignored, "has been such", lambda: validate(node.store, node.block, node.now))


def test_a_vote_is_passed_on_once_on_its_subnet() -> None:
    node = Node("altair")
    validate, (vote, *_) = node.gossip.validate_beacon_attestation, node.votes
    size = len(vote.aggregation_bits)
    alone = vote.replace(aggregation_bits=Bits([place == 1 for place in range(size)]))
    state = node.store.block_states[node.choice.get_head(node.store).root]
    count = node.gossip.rules.get_committee_count_per_slot(state, 1)
    subnet = vote.data.slot % SLOTS * count
    for error, reason, given, where in (
        (InvalidTransition, "for subnet", alone, subnet + 1),
        (InvalidTransition, "of 0 voters", vote.replace(aggregation_bits=Bits.zeros(size)), subnet),
        (InvalidTransition, "bits for a committee", vote.replace(aggregation_bits=Bits([True])), subnet),
        (Ignored, "not come", alone.replace(data=vote.data.replace(beacon_block_root=bytes(32))), subnet),
    ):
        node.refuse(error, reason, lambda g=given, w=where: validate(node.store, g, node.now, w))
    node.refuse(Ignored, "too early", lambda: validate(node.store, alone, node.now + 10**6, subnet))
    validate(node.store, alone, node.now, subnet)
    node.refuse(Ignored, "has been such", lambda: validate(node.store, alone, node.now, subnet))


def test_an_aggregate_brings_somebody_new() -> None:
    node = Node("electra")
    schema = node.gossip.rules.scope.schema("SignedAggregateAndProof")
    (vote,) = node.votes
    state = node.store.block_states[node.choice.get_head(node.store).root]
    committee = node.gossip.rules.get_beacon_committee(state, vote.data.slot, 0)
    vote = vote.replace(
        committee_bits=Bits([place == 0 for place in range(len(vote.committee_bits))]),
        aggregation_bits=Bits([True] * len(committee)),
    )

    def make(bits: Bits, member: int) -> Any:
        message = schema.default().message.replace(
            aggregate=vote.replace(aggregation_bits=bits), aggregator_index=member
        )
        return schema.default().replace(message=message)

    validate = node.gossip.validate_beacon_aggregate_and_proof
    first, second = [int(member) for member in committee[:2]]
    some = Bits([place < 2 for place in range(len(committee))])
    node.refuse(
        InvalidTransition, "not in the committee", lambda: validate(node.store, make(some, 10**6), node.now)
    )
    validate(node.store, make(some, first), node.now)
    node.refuse(Ignored, "in one aggregate", lambda: validate(node.store, make(some, second), node.now))
    whole = make(vote.aggregation_bits, first)
    node.refuse(Ignored, "has been such", lambda: validate(node.store, whole, node.now))
    validate(node.store, make(vote.aggregation_bits, second), node.now)


def test_evidence_is_passed_on_once() -> None:
    node = Node("altair")
    data = node.votes[0].data
    indexed = node.gossip.rules.records["IndexedAttestation"]
    heads = [data.replace(beacon_block_root=bytes([number]) * 32) for number in range(2)]
    votes = [indexed(attesting_indices=(3, 4), data=head, signature=bytes(96)) for head in heads]
    validate = node.gossip.validate_attester_slashing
    slashing = AttesterSlashing(attestation_1=votes[0], attestation_2=votes[1])
    same = AttesterSlashing(attestation_1=votes[0], attestation_2=votes[0])
    node.refuse(InvalidTransition, "do not exclude", lambda: validate(node.store, same))
    validate(node.store, slashing)
    node.refuse(Ignored, "it was seen", lambda: validate(node.store, slashing))
    header = node.gossip.rules.scope.schema("BeaconBlockHeader").default().replace(slot=3, proposer_index=5)
    headers = [SignedBeaconBlockHeader(message=header, signature=bytes(96))]
    headers.append(headers[0].replace(message=header.replace(body_root=bytes([1]) * 32)))
    evidence = ProposerSlashing(signed_header_1=headers[0], signed_header_2=headers[1])
    alike, validate = evidence.replace(signed_header_2=headers[0]), node.gossip.validate_proposer_slashing
    node.refuse(InvalidTransition, "are the same", lambda: validate(node.store, alike))
    validate(node.store, evidence)
    node.refuse(Ignored, "has been such", lambda: validate(node.store, evidence))


def test_who_may_not_leave_yet_is_not_passed_on() -> None:
    node = Node("altair")
    leave = SignedVoluntaryExit(message=VoluntaryExit(epoch=0, validator_index=7), signature=bytes(96))
    far, validate = leave.replace(message=leave.message.replace(epoch=9)), node.gossip.validate_voluntary_exit
    node.refuse(InvalidTransition, "may not exit", lambda: validate(node.store, leave, node.now))
    node.refuse(Ignored, "for epoch 9", lambda: validate(node.store, far, node.now))


def test_gas_limits_move_by_small_steps() -> None:
    assert compute_gas_limit(30_000_000, 30_000_000) == 30_000_000
    assert compute_gas_limit(30_000_000, 60_000_000) == 30_000_000 + 30_000_000 // 1024 - 1
    assert compute_gas_limit(30_000_000, 1) == 30_000_000 - 30_000_000 // 1024 + 1
    assert compute_gas_limit(1000, 2000) == 1000
