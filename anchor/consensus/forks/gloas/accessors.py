"""Payload committees and the churn of stake (gloas/beacon-chain, helper functions)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from anchor.consensus.containers import gloas as containers
from anchor.consensus.containers.gloas import IndexedPayloadAttestation, PayloadAttestation
from anchor.consensus.containers.phase0 import AttestationData, IndexedAttestation
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.fulu import Fulu
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.registry import get_pubkeys, require_validator
from anchor.errors import InvalidTransition
from anchor.merkle.container import Container
from anchor.merkle.hashing import sha256
from anchor.merkle.lazy import np
from anchor.params import (
    BUILDER_PAYMENT_THRESHOLD_DENOMINATOR,
    BUILDER_PAYMENT_THRESHOLD_NUMERATOR,
    DOMAIN_PTC_ATTESTER,
)
from anchor.types import Epoch, Gwei, Slot, ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

PayloadCommittee = tuple[ValidatorIndex, ...]
"""PTC_SIZE validators, possibly repeated (PayloadTimelinessCommittee)."""


class GloasAccessors(Fulu):
    """What gloas reads of a state beyond fulu."""

    name: ClassVar[str] = "gloas"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    # Churn

    def get_exit_churn_limit(self, state: State) -> Gwei:
        share = self.get_total_active_balance(state) // self.config.CHURN_LIMIT_QUOTIENT_GLOAS
        churn: Gwei = max(self.config.MIN_PER_EPOCH_CHURN_LIMIT_ELECTRA, share)
        return churn - churn % self.preset.EFFECTIVE_BALANCE_INCREMENT

    def get_activation_churn_limit(self, state: State) -> Gwei:
        cap: Gwei = self.config.MAX_PER_EPOCH_ACTIVATION_CHURN_LIMIT_GLOAS
        return min(cap, self.get_exit_churn_limit(state))

    def get_consolidation_churn_limit(self, state: State) -> Gwei:
        churn: Gwei = self.get_total_active_balance(state) // self.config.CONSOLIDATION_CHURN_LIMIT_QUOTIENT
        return churn - churn % self.preset.EFFECTIVE_BALANCE_INCREMENT

    def get_builder_payment_quorum_threshold(self, state: State) -> Gwei:
        """How much stake must have voted in a slot for the builder's payment to be due."""
        per_slot = self.get_total_active_balance(state) // self.preset.SLOTS_PER_EPOCH
        return per_slot * BUILDER_PAYMENT_THRESHOLD_NUMERATOR // BUILDER_PAYMENT_THRESHOLD_DENOMINATOR

    # Attestations

    def is_attestation_same_slot(self, state: State, data: AttestationData) -> bool:
        """Whether a vote's head is a block of the vote's own slot."""
        if data.slot == 0:
            return True
        at_slot = self.get_block_root_at_slot(state, data.slot)
        before = self.get_block_root_at_slot(state, data.slot - 1)
        return data.beacon_block_root == at_slot != before

    def verify_indexed_attestation(self, state: State, indexed: IndexedAttestation) -> None:
        limit = self.preset.MAX_VALIDATORS_PER_COMMITTEE * self.preset.MAX_COMMITTEES_PER_SLOT
        count = len(indexed.attesting_indices)
        require(count <= limit, lambda: f"An attestation may have {limit} voters, and has {count}.")
        super().verify_indexed_attestation(state, indexed)

    # Proposers and payload committees

    def get_proposer_candidates(self, state: State, epoch: Epoch) -> NDArray[np.int64]:
        active = self.get_active_validator_indices(state, epoch)
        unslashed: NDArray[np.int64] = active[~state.validators.column("slashed")[active]]
        return unslashed

    def compute_ptc(self, state: State, slot: Slot) -> PayloadCommittee:
        """Who votes on the payload of `slot`, drawn from the slot's committees by effective balance."""
        epoch = self.compute_epoch_at_slot(slot)
        seed = sha256(self.get_seed(state, epoch, DOMAIN_PTC_ATTESTER) + slot.to_bytes(8, "little"))
        count = self.get_committee_count_per_slot(state, epoch)
        members = np.concatenate([self.get_beacon_committee(state, slot, index) for index in range(count)])
        size = self.preset.PTC_SIZE
        return tuple(self.compute_balance_weighted_selection(state, members, seed, size, shuffle=False))

    def compute_ptcs(self, state: State, epoch: Epoch) -> tuple[PayloadCommittee, ...]:
        """The payload committees of the slots of `epoch`."""
        start = self.compute_start_slot_at_epoch(epoch)
        slots = range(start, start + self.preset.SLOTS_PER_EPOCH)
        return tuple([self.compute_ptc(state, slot) for slot in slots])

    def get_ptc(self, state: State, slot: Slot) -> PayloadCommittee:
        """The payload committee of a slot of the previous, the current or a coming epoch."""
        epoch, current = self.compute_epoch_at_slot(slot), self.get_current_epoch(state)
        last = current + self.preset.MIN_SEED_LOOKAHEAD
        require(
            max(current - 1, self.config.GLOAS_FORK_EPOCH) <= epoch <= last,
            lambda: f"The payload committee of slot {slot} is not known at slot {state.slot}.",
        )
        row = (epoch + 1 - current) * self.preset.SLOTS_PER_EPOCH + slot % self.preset.SLOTS_PER_EPOCH
        committee: PayloadCommittee = state.ptc_window[row]
        return committee

    def get_indexed_payload_attestation(
        self, state: State, attestation: PayloadAttestation
    ) -> IndexedPayloadAttestation:
        """`attestation` with its voters' indices, ascending, in place of bits."""
        committee = self.get_ptc(state, attestation.data.slot)
        indices = sorted([committee[place] for place in attestation.aggregation_bits.get_set_indices()])
        return IndexedPayloadAttestation(
            attesting_indices=tuple(indices), data=attestation.data, signature=attestation.signature
        )

    def verify_indexed_payload_attestation(self, state: State, indexed: IndexedPayloadAttestation) -> None:
        """Raises InvalidTransition unless the indices do not descend, name validators, and all signed.

        (The specification's `is_valid_indexed_payload_attestation`.)
        """
        indices, slot = indexed.attesting_indices, indexed.data.slot
        require(
            len(indices) > 0 and all(a <= b for a, b in pairwise(indices)),
            lambda: f"The voters on the payload of slot {slot} are none, or not in ascending order.",
        )
        require_validator(state.validators, indices[-1])
        domain = self.get_domain(state, DOMAIN_PTC_ATTESTER, self.compute_epoch_at_slot(slot))
        message = self.compute_signing_root(indexed.data, domain)
        pubkeys = get_pubkeys(state.validators, np.array(indices, np.int64))
        if not self.signatures.fast_aggregate_verify(pubkeys, message, indexed.signature):
            raise InvalidTransition(f"The aggregate signature of a vote on payload {slot} is not valid.")
