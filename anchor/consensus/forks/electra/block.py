"""Blocks with votes of many committees, and partial withdrawals (electra/beacon-chain, block processing)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anchor.consensus.containers.capella import Withdrawal
from anchor.consensus.containers.electra import PendingDeposit
from anchor.consensus.containers.phase0 import AttestationData, Validator, VoluntaryExit
from anchor.consensus.execution import NewPayloadRequest
from anchor.consensus.forks.arithmetic import require, to_flags
from anchor.consensus.forks.capella import ExpectedWithdrawals
from anchor.consensus.forks.electra.requests import ElectraRequests
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.forks.registry import find_validator, get_validator
from anchor.errors import InvalidTransition
from anchor.merkle.bits import Bits
from anchor.merkle.lazy import np
from anchor.params import FAR_FUTURE_EPOCH, GENESIS_SLOT
from anchor.types import BLSPubkey, BLSSignature, Bytes32, CommitteeIndex, Epoch, Gwei

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ElectraBlockProcessing(ElectraRequests):
    """The parts of `process_block` that electra adds or modifies."""

    def process_operations(self, state: State, body: Body) -> None:
        super().process_operations(state, body)
        requests = body.execution_requests
        self._for_operations(state, requests.deposits, self.process_deposit_request)
        self._for_operations(state, requests.withdrawals, self.process_withdrawal_request)
        self._for_operations(state, requests.consolidations, self.process_consolidation_request)

    # Attestations

    def get_committee_indices(self, committee_bits: Bits) -> list[CommitteeIndex]:
        """The committees whose votes an attestation carries."""
        return committee_bits.get_set_indices()

    def verify_attestation(self, state: State, attestation: Any) -> None:
        super().verify_attestation(state, attestation)
        for index, voters in self.get_attesting_committees(state, attestation).items():
            if not len(voters):
                raise InvalidTransition(f"Committee {index} of slot {attestation.data.slot} has no vote.")

    def verify_committee_index(self, state: State, data: AttestationData) -> None:
        """Raises InvalidTransition unless the index is zero: committees are named by bits."""
        require(data.index == 0, lambda: f"The vote of an attestation has index {data.index}, not 0.")

    def get_attesting_committees(
        self, state: State, attestation: Any
    ) -> dict[CommitteeIndex, NDArray[np.int64]]:
        """Who voted, by committee. Raises InvalidTransition when committees and bits do not fit."""
        slot, flags = attestation.data.slot, to_flags(attestation.aggregation_bits)
        count = self.get_committee_count_per_slot(state, self.compute_epoch_at_slot(slot))
        offset, voters = 0, {}
        for index in self.get_committee_indices(attestation.committee_bits):
            if index >= count:
                raise InvalidTransition(
                    f"Slot {slot} has {count} committees, and a vote names number {index}."
                )
            committee = self.get_beacon_committee(state, slot, index)
            part = flags[offset : offset + len(committee)]
            voters[index] = committee[: len(part)][part]
            offset += len(committee)
        require(
            offset == len(flags),
            lambda: f"An attestation's committees have {offset} members, and it has {len(flags)} bits.",
        )
        return voters

    def get_attesting_indices(self, state: State, attestation: Any) -> NDArray[np.int64]:
        """The validators whose votes `attestation` aggregates, committee after committee."""
        voters = self.get_attesting_committees(state, attestation).values()
        return np.concatenate([np.zeros(0, np.int64), *voters])

    # Deposits and exits

    def get_outstanding_deposits(self, state: State) -> int:
        last = min(state.eth1_data.deposit_count, state.deposit_requests_start_index)
        outstanding: int = max(last - state.eth1_deposit_index, 0)
        return outstanding

    def apply_deposit(
        self,
        state: State,
        pubkey: BLSPubkey,
        withdrawal_credentials: Bytes32,
        amount: Gwei,
        signature: BLSSignature,
    ) -> None:
        """Queues a deposit; makes a validator without balance for a new key whose signature is valid."""
        if find_validator(state.validators, pubkey) is None:
            if not self.is_valid_deposit_signature(pubkey, withdrawal_credentials, amount, signature):
                return
            self.add_validator_to_registry(state, pubkey, withdrawal_credentials, 0)
        pending = PendingDeposit(
            pubkey=pubkey,
            withdrawal_credentials=withdrawal_credentials,
            amount=amount,
            signature=signature,
            slot=GENESIS_SLOT,  # tells it from a deposit request
        )
        state.pending_deposits = (*state.pending_deposits, pending)

    def verify_voluntary_exit(self, state: State, wish: VoluntaryExit, validator: Validator) -> None:
        super().verify_voluntary_exit(state, wish, validator)
        queued = self.get_pending_balance_to_withdraw(state, wish.validator_index)
        require(
            queued == 0,
            lambda: f"Validator {wish.validator_index} has {queued} Gwei to withdraw before it may exit.",
        )

    # Payloads and withdrawals

    def get_max_blobs_per_block(self, epoch: Epoch) -> int:
        return self.config.MAX_BLOBS_PER_BLOCK_ELECTRA  # type: ignore[no-any-return]

    def get_new_payload_request(self, state: State, body: Body) -> NewPayloadRequest:
        request = super().get_new_payload_request(state, body)
        return replace(request, execution_requests=body.execution_requests)

    def get_expected_withdrawals(self, state: State) -> ExpectedWithdrawals:
        partials, processed = self.get_pending_partial_withdrawals(state, ())
        return ExpectedWithdrawals(
            partials + self.get_validators_sweep_withdrawals(state, partials), processed_partials=processed
        )

    def get_pending_partial_withdrawals(
        self, state: State, prior: tuple[Withdrawal, ...]
    ) -> tuple[tuple[Withdrawal, ...], int]:
        """Withdrawals from the queue that are due now after the `prior` ones, and how far that is."""
        room = self.preset.MAX_WITHDRAWALS_PER_PAYLOAD - 1  # one is for the sweep
        limit = min(len(prior) + self.preset.MAX_PENDING_PARTIALS_PER_WITHDRAWALS_SWEEP, room)
        epoch, minimum = self.get_current_epoch(state), self.preset.MIN_ACTIVATION_BALANCE
        withdrawals, processed = list(prior), 0
        for pending in state.pending_partial_withdrawals:
            if pending.withdrawable_epoch > epoch or len(withdrawals) >= limit:
                break
            index = pending.validator_index
            validator = get_validator(state.validators, index)
            withdrawn = sum([w.amount for w in withdrawals if w.validator_index == index])
            excess = state.balances[index] - withdrawn - minimum
            staying = validator.exit_epoch == FAR_FUTURE_EPOCH and validator.effective_balance >= minimum
            if staying and excess > 0:
                number = state.next_withdrawal_index + len(withdrawals)
                withdrawals.append(self.make_withdrawal(state, number, index, min(excess, pending.amount)))
            processed += 1
        return tuple(withdrawals[len(prior) :]), processed

    def apply_withdrawals(self, state: State, expected: ExpectedWithdrawals) -> None:
        super().apply_withdrawals(state, expected)
        state.pending_partial_withdrawals = state.pending_partial_withdrawals[expected.processed_partials :]
