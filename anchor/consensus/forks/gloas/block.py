"""Slots, epochs and blocks of gloas (gloas/beacon-chain, epoch and block processing)."""

from __future__ import annotations

from anchor.consensus.containers.gloas import BuilderPendingPayment, PayloadAttestation
from anchor.consensus.containers.phase0 import Attestation, AttestationData, BeaconBlock
from anchor.consensus.forks.arithmetic import require, require_uint64, total
from anchor.consensus.forks.gloas.withdrawals import GloasWithdrawals
from anchor.consensus.forks.phase0.base import Body, State
from anchor.merkle.lazy import np
from anchor.params import TIMELY_HEAD_FLAG_INDEX
from anchor.types import Slot


class GloasBlockProcessing(GloasWithdrawals):
    """`process_slot`, `process_epoch`, `process_block` and the parts that gloas adds or modifies."""

    def process_slot(self, state: State) -> None:
        super().process_slot(state)
        self.set_payload_availability(state, state.slot + 1, False)

    # Epochs

    def process_epoch(self, state: State) -> None:
        self.process_justification_and_finalization(state)
        self.process_inactivity_updates(state)
        self.process_rewards_and_penalties(state)
        self.process_registry_updates(state)
        self.process_slashings(state)
        self.process_eth1_data_reset(state)
        self.process_pending_deposits(state)
        self.process_pending_consolidations(state)
        self.process_builder_pending_payments(state)
        self.process_effective_balance_updates(state)
        self.process_slashings_reset(state)
        self.process_randao_mixes_reset(state)
        self.process_historical_summaries_update(state)
        self.process_participation_flag_updates(state)
        self.process_sync_committee_updates(state)
        self.process_proposer_lookahead(state)
        self.process_ptc_window(state)

    def process_builder_pending_payments(self, state: State) -> None:
        """Makes payments of the previous epoch due that enough stake voted for; forgets the others."""
        quorum, length = self.get_builder_payment_quorum_threshold(state), self.preset.SLOTS_PER_EPOCH
        payments = state.builder_pending_payments
        due = [payment.withdrawal for payment in payments[:length] if payment.weight >= quorum]
        state.builder_pending_withdrawals = (*state.builder_pending_withdrawals, *due)
        state.builder_pending_payments = payments[length:] + (self.get_empty_payment(),) * length

    def process_ptc_window(self, state: State) -> None:
        """Adds the payload committees of the epoch that comes into view."""
        epoch = self.get_current_epoch(state) + self.preset.MIN_SEED_LOOKAHEAD + 1
        kept = state.ptc_window[self.preset.SLOTS_PER_EPOCH :]
        state.ptc_window = kept + self.compute_ptcs(state, epoch)

    # Blocks

    def process_block(self, state: State, block: BeaconBlock) -> None:
        body: Body = block.body
        parent_slot = state.latest_block_header.slot
        self.process_parent_execution_payload(state, block)
        self.process_block_header(state, block)
        self.process_withdrawals(state)
        self.process_execution_payload_bid(state, body.signed_execution_payload_bid)
        self.process_randao(state, body)
        self.process_eth1_data(state, body)
        self.process_operations(state, body, parent_slot)
        self.process_sync_aggregate(state, body.sync_aggregate)

    def process_operations(self, state: State, body: Body, parent_slot: Slot) -> None:  # type: ignore[override]
        """Applies a block's operations, kind by kind."""
        self.verify_deposit_count(state, body)
        self.verify_operation_counts(body)
        self._for_operations(state, body.proposer_slashings, self.process_proposer_slashing)
        self._for_operations(state, body.attester_slashings, self.process_attester_slashing)
        for attestation in body.attestations:
            self.process_attestation(state, attestation, parent_slot)
        self._for_operations(state, body.voluntary_exits, self.process_voluntary_exit)
        self._for_operations(state, body.bls_to_execution_changes, self.process_bls_to_execution_change)
        self._for_operations(state, body.payload_attestations, self.process_payload_attestation)

    def verify_operation_counts(self, body: Body) -> None:
        """Raises InvalidTransition when a block brings more operations than it may."""
        for name, limit in (
            ("proposer_slashings", self.preset.MAX_PROPOSER_SLASHINGS),
            ("attester_slashings", self.preset.MAX_ATTESTER_SLASHINGS_ELECTRA),
            ("attestations", self.preset.MAX_ATTESTATIONS_ELECTRA),
            ("voluntary_exits", self.preset.MAX_VOLUNTARY_EXITS),
            ("bls_to_execution_changes", self.preset.MAX_BLS_TO_EXECUTION_CHANGES),
            ("payload_attestations", self.preset.MAX_PAYLOAD_ATTESTATIONS),
        ):
            self.verify_count(name, len(getattr(body, name)), limit)

    # Attestations

    def process_attestation(  # type: ignore[override]
        self, state: State, attestation: Attestation, parent_slot: Slot
    ) -> None:
        """Gives a vote's makers the flags that it earns, and its weight to the payment for its block.

        `parent_slot` is the slot of the block before the one that holds the attestation.
        """
        data = attestation.data
        self.verify_attestation(state, attestation)
        flag_indices = self.get_attestation_participation_flag_indices(
            state, data, state.slot - data.slot, parent_slot
        )
        indexed = self.get_indexed_attestation(state, attestation)
        self.verify_indexed_attestation(state, indexed)
        if flag_indices and self.is_attestation_same_slot(state, data):
            self.add_payment_weight(state, data, indexed.attesting_indices)
        self.add_participation_flags(state, data, indexed.attesting_indices, flag_indices)

    def verify_committee_index(self, state: State, data: AttestationData) -> None:
        """Raises InvalidTransition unless the index, which tells of the payload, is 0 or 1."""
        require(data.index < 2, lambda: f"The vote of an attestation has index {data.index}, not 0 or 1.")

    def get_attestation_participation_flag_indices(  # type: ignore[override]
        self, state: State, data: AttestationData, inclusion_delay: int, parent_slot: Slot
    ) -> list[int]:
        """The flags that a vote earns; for the head, it must be right about the payload too."""
        flags = super().get_attestation_participation_flag_indices(state, data, inclusion_delay)
        if self.is_attestation_same_slot(state, data):
            require(data.index == 0, lambda: f"A vote for a block of its own slot {data.slot} has index 1.")
            return flags
        place = parent_slot % self.preset.SLOTS_PER_HISTORICAL_ROOT
        if data.index != state.execution_payload_availability[place]:
            return [flag for flag in flags if flag != TIMELY_HEAD_FLAG_INDEX]
        return flags

    def add_payment_weight(self, state: State, data: AttestationData, indices: tuple[int, ...]) -> None:
        """Adds the stake of those who vote for the first time in the epoch to the payment for the slot."""
        place = data.slot % self.preset.SLOTS_PER_EPOCH
        if data.target.epoch == self.get_current_epoch(state):
            place += self.preset.SLOTS_PER_EPOCH
        payment: BuilderPendingPayment = state.builder_pending_payments[place]
        if payment.withdrawal.amount == 0:
            return
        rows = np.array(indices, np.int64)
        participation = self.get_epoch_participation(state, data.target.epoch).array
        new = rows[participation[rows] == 0]
        added = total(state.validators.column("effective_balance")[new])
        weight = require_uint64(payment.weight + added, "The weight behind a builder's payment")
        self.set_builder_payment(state, place, payment.replace(weight=weight))

    def process_payload_attestation(self, state: State, attestation: PayloadAttestation) -> None:
        """Checks a vote on the payload of the previous slot; fork choice counts it."""
        data, parent = attestation.data, state.latest_block_header.parent_root
        self.verify_equal("A vote on a payload", "beacon_block_root", data.beacon_block_root, parent)
        self.verify_equal("A vote on a payload", "slot", data.slot, state.slot - 1)
        indexed = self.get_indexed_payload_attestation(state, attestation)
        self.verify_indexed_payload_attestation(state, indexed)
