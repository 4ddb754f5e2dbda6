"""What sync committees say (altair/p2p-interface, altair/validator)."""

from __future__ import annotations

from anchor.consensus.containers.altair import (
    SignedContributionAndProof,
    SyncAggregatorSelectionData,
    SyncCommitteeMessage,
)
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.registry import get_validator
from anchor.consensus.gossip.base import Base, ignore_unless
from anchor.consensus.gossip.votes import is_chosen
from anchor.consensus.signing import compute_signing_root
from anchor.params import (
    DOMAIN_CONTRIBUTION_AND_PROOF,
    DOMAIN_SYNC_COMMITTEE,
    DOMAIN_SYNC_COMMITTEE_SELECTION_PROOF,
    SYNC_COMMITTEE_SUBNET_COUNT,
    TARGET_AGGREGATORS_PER_SYNC_SUBCOMMITTEE,
)
from anchor.types import BLSPubkey, Root, Slot


class SyncCommittees(Base):
    """The topics sync_committee_contribution_and_proof and sync_committee_{subnet_id}."""

    def validate_sync_committee_contribution_and_proof(
        self, store: Store, signed: SignedContributionAndProof, time_ms: int
    ) -> None:
        """A subcommittee's signatures by an aggregator whom the slot has chosen, with some that are new."""
        index, given = signed.message.aggregator_index, signed.message.contribution
        slot, part = given.slot, given.subcommittee_index
        covered = "contribution", slot, given.beacon_block_root, part
        first = "contributor", slot, index, part
        self.ignore_covered(covered, given.aggregation_bits)
        self.ignore_seen(first)
        self.ignore_other_slot(store, slot, time_ms)
        require(part < SYNC_COMMITTEE_SUBNET_COUNT, lambda: f"There is no subcommittee {part}.")
        require(any(given.aggregation_bits), lambda: f"The contribution of slot {slot} is of nobody.")
        state = self.get_head_state(store)
        pubkeys = self.get_sync_subcommittee_pubkeys(state, part)
        require(
            get_validator(state.validators, index).pubkey in pubkeys,
            lambda: f"Validator {index} is not in subcommittee {part} of slot {slot}.",
        )
        self.verify_contributor(state, signed)
        signers = [pubkeys[place] for place in given.aggregation_bits.get_set_indices()]
        message = self.compute_block_message(state, given.beacon_block_root, slot)
        require(
            self.rules.signatures.eth_fast_aggregate_verify(signers, message, given.signature),
            lambda: f"The contribution of slot {slot} is not signed by those whom it names.",
        )
        self.seen.keys.add(first)
        self.seen.bits.setdefault(covered, []).append(given.aggregation_bits)

    def validate_sync_committee_message(
        self, store: Store, message: SyncCommitteeMessage, time_ms: int, subnet_id: int
    ) -> None:
        """The first signature of a member for its slot and subnet."""
        slot, index = message.slot, message.validator_index
        key = "sync_committee_message", slot, index, subnet_id
        self.ignore_seen(key)
        self.ignore_other_slot(store, slot, time_ms)
        state = self.get_head_state(store)
        pubkey = get_validator(state.validators, index).pubkey
        parts = range(SYNC_COMMITTEE_SUBNET_COUNT)
        subnets = [part for part in parts if pubkey in self.get_sync_subcommittee_pubkeys(state, part)]
        require(
            subnet_id in subnets, lambda: f"Validator {index} signs on subnets {subnets}, not on {subnet_id}."
        )
        signed = self.compute_block_message(state, message.beacon_block_root, slot)
        self.verify_signature(state, index, signed, message.signature, f"a block of slot {slot}")
        self.seen.keys.add(key)

    def ignore_other_slot(self, store: Store, slot: Slot, time_ms: int) -> None:
        """Raises Ignored unless it is this slot."""
        ignore_unless(
            self.is_within_slots(store, slot, 0, time_ms), lambda: f"It is not slot {slot} at {time_ms} ms."
        )

    def compute_block_message(self, state: State, root: Root, slot: Slot) -> Root:
        """What members sign for a block."""
        epoch = self.rules.compute_epoch_at_slot(slot)
        return compute_signing_root(root, self.rules.get_domain(state, DOMAIN_SYNC_COMMITTEE, epoch))

    def get_sync_subcommittee_pubkeys(self, state: State, part: int) -> tuple[BLSPubkey, ...]:
        """The keys of a subcommittee that signs this state's block: of the next slot's committee."""
        slots = self.preset.SLOTS_PER_EPOCH * self.preset.EPOCHS_PER_SYNC_COMMITTEE_PERIOD
        is_same = state.slot // slots == (state.slot + 1) // slots
        committee = state.current_sync_committee if is_same else state.next_sync_committee
        size = self.preset.SYNC_SUBCOMMITTEE_SIZE
        pubkeys: tuple[BLSPubkey, ...] = committee.pubkeys[part * size : (part + 1) * size]
        return pubkeys

    def verify_contributor(self, state: State, signed: SignedContributionAndProof) -> None:
        """Raises InvalidTransition unless the slot has chosen the aggregator, who signed."""
        proof, given = signed.message, signed.message.contribution
        index, epoch = proof.aggregator_index, self.rules.compute_epoch_at_slot(given.slot)
        modulo = self.preset.SYNC_SUBCOMMITTEE_SIZE // TARGET_AGGREGATORS_PER_SYNC_SUBCOMMITTEE
        require(
            is_chosen(proof.selection_proof, modulo),
            lambda: f"Validator {index} was not chosen to aggregate the signatures of slot {given.slot}.",
        )
        selection = SyncAggregatorSelectionData(slot=given.slot, subcommittee_index=given.subcommittee_index)
        for record, kind, signature in (
            (selection, DOMAIN_SYNC_COMMITTEE_SELECTION_PROOF, proof.selection_proof),
            (proof, DOMAIN_CONTRIBUTION_AND_PROOF, signed.signature),
        ):
            message = self.compute_message(state, record, kind, epoch)
            self.verify_signature(state, index, message, signature, "a contribution")
