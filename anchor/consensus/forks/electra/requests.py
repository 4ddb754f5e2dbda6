"""What the execution layer asks for: deposits, withdrawals, consolidations (electra/beacon-chain)."""

from __future__ import annotations

from anchor.consensus.containers.electra import (
    ConsolidationRequest,
    DepositRequest,
    PendingConsolidation,
    PendingDeposit,
    PendingPartialWithdrawal,
    WithdrawalRequest,
)
from anchor.consensus.containers.phase0 import Validator
from anchor.consensus.forks.electra.epoch import ElectraEpochProcessing
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.registry import find_validator
from anchor.merkle.lazy import np
from anchor.params import (
    COMPOUNDING_WITHDRAWAL_PREFIX,
    ETH1_ADDRESS_WITHDRAWAL_PREFIX,
    FAR_FUTURE_EPOCH,
    FULL_EXIT_REQUEST_AMOUNT,
    G2_POINT_AT_INFINITY,
    GENESIS_SLOT,
    UNSET_DEPOSIT_REQUESTS_START_INDEX,
)
from anchor.types import ExecutionAddress, ValidatorIndex


class ElectraRequests(ElectraEpochProcessing):
    """Requests that break a rule are ignored: the execution layer has taken them, the block stays valid."""

    # Deposits

    def process_deposit_request(self, state: State, request: DepositRequest) -> None:
        """Queues a deposit; the first one ends the old bridge."""
        if state.deposit_requests_start_index == UNSET_DEPOSIT_REQUESTS_START_INDEX:
            state.deposit_requests_start_index = request.index
        self.queue_deposit_request(state, request)

    def queue_deposit_request(self, state: State, request: DepositRequest) -> None:
        """Puts a deposit at the end of the queue."""
        pending = PendingDeposit(
            pubkey=request.pubkey,
            withdrawal_credentials=request.withdrawal_credentials,
            amount=request.amount,
            signature=request.signature,
            slot=state.slot,
        )
        state.pending_deposits = (*state.pending_deposits, pending)

    # Withdrawals

    def process_withdrawal_request(self, state: State, request: WithdrawalRequest) -> None:
        """Schedules a validator's exit, or a partial withdrawal, as its address demands."""
        is_full_exit = request.amount == FULL_EXIT_REQUEST_AMOUNT
        limit = self.preset.PENDING_PARTIAL_WITHDRAWALS_LIMIT
        if len(state.pending_partial_withdrawals) == limit and not is_full_exit:
            return
        index = find_validator(state.validators, request.validator_pubkey)
        if index is None or not self.is_exit_authorized(state, index, request.source_address):
            return
        queued = self.get_pending_balance_to_withdraw(state, index)
        if not is_full_exit:
            self.queue_partial_withdrawal(state, index, request.amount, queued)
        elif queued == 0:
            self.initiate_validator_exit(state, index)

    def is_exit_authorized(self, state: State, index: ValidatorIndex, address: ExecutionAddress) -> bool:
        """Whether the address behind a validator's credentials asks, and the validator may exit now."""
        validator, epoch = state.validators[index], self.get_current_epoch(state)
        return (
            self.has_execution_withdrawal_credential(validator)
            and validator.withdrawal_credentials[12:] == address
            and self.is_staying(state, validator)
            and epoch >= validator.activation_epoch + self.config.SHARD_COMMITTEE_PERIOD
        )

    def is_staying(self, state: State, validator: Validator) -> bool:
        """Whether a validator is active, and hasn't begun to exit."""
        active = self.is_active_validator(validator, self.get_current_epoch(state))
        return active and validator.exit_epoch == FAR_FUTURE_EPOCH

    def queue_partial_withdrawal(self, state: State, index: ValidatorIndex, amount: int, queued: int) -> None:
        """Queues a withdrawal of what a compounding validator has over the minimum and what is queued."""
        validator, minimum = state.validators[index], self.preset.MIN_ACTIVATION_BALANCE
        excess = state.balances[index] - minimum - queued
        compounding = self.has_compounding_withdrawal_credential(validator)
        if not compounding or validator.effective_balance < minimum or excess <= 0:
            return
        to_withdraw = min(excess, amount)
        exit_epoch = self.compute_exit_epoch_and_update_churn(state, to_withdraw)
        pending = PendingPartialWithdrawal(
            validator_index=index,
            amount=to_withdraw,
            withdrawable_epoch=exit_epoch + self.config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY,
        )
        state.pending_partial_withdrawals = (*state.pending_partial_withdrawals, pending)

    # Consolidations

    def process_consolidation_request(self, state: State, request: ConsolidationRequest) -> None:
        """Makes a validator compounding, or schedules its merging into another."""
        source = find_validator(state.validators, request.source_pubkey)
        if source is None:
            return
        if request.source_pubkey == request.target_pubkey:
            if self.is_valid_switch_to_compounding_request(state, source, request.source_address):
                self.switch_to_compounding_validator(state, source)
            return
        target = find_validator(state.validators, request.target_pubkey)
        if target is not None and self.is_valid_consolidation(state, source, target, request.source_address):
            self.initiate_consolidation(state, source, target)

    def is_valid_switch_to_compounding_request(
        self, state: State, index: ValidatorIndex, address: ExecutionAddress
    ) -> bool:
        """Whether a validator may become compounding, and its address asks for it."""
        validator = state.validators[index]
        credentials = ETH1_ADDRESS_WITHDRAWAL_PREFIX, address
        own = validator.withdrawal_credentials[:1], validator.withdrawal_credentials[12:]
        return own == credentials and self.is_staying(state, validator)

    def is_valid_consolidation(
        self, state: State, source: ValidatorIndex, target: ValidatorIndex, address: ExecutionAddress
    ) -> bool:
        """Whether `source` may be merged into `target` now, and its address asks for it."""
        target_validator = state.validators[target]
        return (
            len(state.pending_consolidations) < self.preset.PENDING_CONSOLIDATIONS_LIMIT
            and self.get_consolidation_churn_limit(state) > self.preset.MIN_ACTIVATION_BALANCE
            and self.is_exit_authorized(state, source, address)
            and self.has_compounding_withdrawal_credential(target_validator)
            and self.is_staying(state, target_validator)
            and self.get_pending_balance_to_withdraw(state, source) == 0
        )

    def initiate_consolidation(self, state: State, source: ValidatorIndex, target: ValidatorIndex) -> None:
        """Schedules the source's exit, and the move of its stake."""
        balance = state.validators[source].effective_balance
        epoch = self.compute_consolidation_epoch_and_update_churn(state, balance)
        self.set_exit_epochs(state, np.array([source]), np.array([epoch], np.uint64))
        pending = PendingConsolidation(source_index=source, target_index=target)
        state.pending_consolidations = (*state.pending_consolidations, pending)

    def switch_to_compounding_validator(self, state: State, index: ValidatorIndex) -> None:
        """Lets a validator's stake grow beyond the minimum."""
        credentials = state.validators[index].withdrawal_credentials
        changed = COMPOUNDING_WITHDRAWAL_PREFIX + credentials[1:]
        state.validators.write("withdrawal_credentials", index, changed)
        self.queue_excess_active_balance(state, index)

    def queue_excess_active_balance(self, state: State, index: ValidatorIndex) -> None:
        """Sends what a validator has over the minimum through the queue of deposits."""
        excess = state.balances[index] - self.preset.MIN_ACTIVATION_BALANCE
        if excess > 0:
            state.balances[index] = self.preset.MIN_ACTIVATION_BALANCE
            self.queue_balance(state, index, excess)

    def queue_balance(self, state: State, index: ValidatorIndex, amount: int) -> None:
        """Queues balance that a validator has had already as a deposit."""
        validator = state.validators[index]
        pending = PendingDeposit(
            pubkey=validator.pubkey,
            withdrawal_credentials=validator.withdrawal_credentials,
            amount=amount,
            signature=G2_POINT_AT_INFINITY,  # stands for a signature that was checked before
            slot=GENESIS_SLOT,  # tells it from a deposit request
        )
        state.pending_deposits = (*state.pending_deposits, pending)
