"""Attestations, alone and aggregated (phase0/p2p-interface; changed by deneb, electra and gloas)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anchor.consensus.containers.phase0 import (
    AggregateAndProof,
    Attestation,
    AttestationData,
    SignedAggregateAndProof,
)
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.gossip.base import NO_STATUSES, Base, Statuses, ignore_unless
from anchor.consensus.signing import compute_signing_root
from anchor.merkle.bits import Bits
from anchor.merkle.hashing import sha256
from anchor.params import (
    DOMAIN_AGGREGATE_AND_PROOF,
    DOMAIN_SELECTION_PROOF,
    TARGET_AGGREGATORS_PER_COMMITTEE,
)
from anchor.types import CommitteeIndex, Slot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Votes(Base):
    """The topics beacon_aggregate_and_proof and beacon_attestation_{subnet_id}."""

    def validate_beacon_aggregate_and_proof(
        self,
        store: Store,
        signed: SignedAggregateAndProof,
        time_ms: int,
        statuses: Statuses = NO_STATUSES,
    ) -> None:
        """A committee's votes by an aggregator whom the slot has chosen, with votes that are new."""
        proof, aggregate = signed.message, signed.message.aggregate
        data, bits = aggregate.data, aggregate.aggregation_bits
        index = self.get_aggregate_committee_index(aggregate)
        covered = "aggregate", self.rules.hash_tree_root(data), index
        first = "aggregator", data.target.epoch, proof.aggregator_index
        self.ignore_covered(covered, bits)
        self.ignore_seen(first)
        state, committee = self.get_voters(store, data, index, time_ms)
        self.verify_aggregation_bits(bits, committee)
        require(bits.count_set() > 0, lambda: f"An aggregate of committee {index} of {data.slot} is empty.")
        self.verify_aggregator(state, signed, committee)
        self.rules.verify_indexed_attestation(state, self.rules.get_indexed_attestation(state, aggregate))
        self.verify_vote_place(store, data, statuses)
        self.seen.keys.add(first)
        self.seen.bits.setdefault(covered, []).append(bits)

    def validate_beacon_attestation(
        self,
        store: Store,
        attestation: Attestation,
        time_ms: int,
        subnet_id: int,
        statuses: Statuses = NO_STATUSES,
    ) -> None:
        """The first vote of a validator for its epoch, on its committee's subnet."""
        data, bits = attestation.data, attestation.aggregation_bits
        state, committee = self.get_voters(store, data, data.index, time_ms, subnet_id)
        require(bits.count_set() == 1, lambda: f"A vote of slot {data.slot} is of {bits.count_set()} voters.")
        self.verify_aggregation_bits(bits, committee)
        key = "attestation", data.target.epoch, int(committee[bits.get_set_indices()[0]])
        self.ignore_seen(key)
        self.rules.verify_indexed_attestation(state, self.rules.get_indexed_attestation(state, attestation))
        self.verify_vote_place(store, data, statuses)
        self.seen.keys.add(key)

    def get_aggregate_committee_index(self, aggregate: Any) -> CommitteeIndex:
        """Whose votes an aggregate carries."""
        index: CommitteeIndex = aggregate.data.index
        return index

    # What all votes must hold to

    def get_voters(
        self,
        store: Store,
        data: AttestationData,
        index: CommitteeIndex,
        time_ms: int,
        subnet_id: int | None = None,
    ) -> tuple[State, NDArray[np.int64]]:
        """The head's state, and the committee whose vote this is. Raises an error for one out of time."""
        self.verify_known(store, data.beacon_block_root)
        state = self.get_head_state(store)
        count = self.rules.get_committee_count_per_slot(state, data.target.epoch)
        require(index < count, lambda: f"Slot {data.slot} has {count} committees, and a vote is of {index}.")
        if subnet_id is not None:
            self.verify_subnet(count, data.slot, index, subnet_id)
        self.verify_vote_time(store, data, time_ms)
        epoch = self.rules.compute_epoch_at_slot(data.slot)
        require(
            data.target.epoch == epoch,
            lambda: f"A vote of slot {data.slot} has a target of epoch {data.target.epoch}.",
        )
        return state, self.rules.get_beacon_committee(state, data.slot, index)

    def verify_subnet(self, count: int, slot: Slot, index: CommitteeIndex, subnet_id: int) -> None:
        """Raises InvalidTransition unless a committee votes on this subnet."""
        place = slot % self.preset.SLOTS_PER_EPOCH * count + index
        subnet = place % self.config.ATTESTATION_SUBNET_COUNT
        require(subnet_id == subnet, lambda: f"A vote of {slot} is for subnet {subnet}, not {subnet_id}.")

    def verify_vote_time(self, store: Store, data: AttestationData, time_ms: int) -> None:
        """Raises Ignored unless a vote's slot is one of the last."""
        span = self.config.ATTESTATION_PROPAGATION_SLOT_RANGE
        recent = self.is_within_slots(store, data.slot, span, time_ms)
        ignore_unless(recent, lambda: f"A vote of slot {data.slot} comes too early or too late.")

    def verify_aggregation_bits(self, bits: Bits, committee: NDArray[np.int64]) -> None:
        """Raises InvalidTransition unless there is a bit for each member."""
        require(
            len(bits) == len(committee),
            lambda: f"A vote has {len(bits)} bits for a committee of {len(committee)}.",
        )

    def verify_vote_place(self, store: Store, data: AttestationData, statuses: Statuses) -> None:
        """Raises an error unless a vote's head follows its target and what is finalised."""
        root, target = data.beacon_block_root, data.target
        require(
            self.choice.get_checkpoint_block(store, root, target.epoch) == target.root,
            lambda: f"The head of a vote of slot {data.slot} does not follow its target.",
        )
        ignore_unless(
            self.is_finalized_followed(store, root),
            lambda: f"The head of a vote of slot {data.slot} does not descend from the finalised block.",
        )

    # Aggregators

    def verify_aggregator(
        self, state: State, signed: SignedAggregateAndProof, committee: NDArray[np.int64]
    ) -> None:
        """Raises InvalidTransition unless a member whom the slot has chosen made the aggregate."""
        proof: AggregateAndProof = signed.message
        data, index = proof.aggregate.data, proof.aggregator_index
        require(
            is_chosen(proof.selection_proof, len(committee) // TARGET_AGGREGATORS_PER_COMMITTEE),
            lambda: f"Validator {index} was not chosen to aggregate the votes of slot {data.slot}.",
        )
        require(index in committee, lambda: f"Validator {index} is not in the committee of slot {data.slot}.")
        epoch = data.target.epoch
        domain = self.rules.get_domain(state, DOMAIN_SELECTION_PROOF, epoch)
        chosen = compute_signing_root(data.slot.to_bytes(32, "little"), domain)
        self.verify_signature(state, index, chosen, proof.selection_proof, "a proof of selection")
        message = self.compute_message(state, proof, DOMAIN_AGGREGATE_AND_PROOF, epoch)
        self.verify_signature(state, index, message, signed.signature, "an aggregate")


def is_chosen(selection_proof: bytes, modulo: int) -> bool:
    """Whether a signature chooses its maker to aggregate: one in `modulo`, or everyone (is_aggregator)."""
    return int.from_bytes(sha256(selection_proof)[:8], "little") % max(1, modulo) == 0
