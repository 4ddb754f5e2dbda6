"""The epoch transition with queues of stake (electra/beacon-chain, epoch processing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.consensus.containers.electra import PendingDeposit
from anchor.consensus.forks.arithmetic import multiply
from anchor.consensus.forks.electra.churn import ElectraChurn
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.registry import (
    find_validator,
    get_active_flags,
    get_validator,
    require_validator,
)
from anchor.merkle.lazy import np
from anchor.params import FAR_FUTURE_EPOCH, GENESIS_SLOT
from anchor.types import ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ElectraEpochProcessing(ElectraChurn):
    """`process_epoch` and the parts that electra adds or modifies."""

    def process_epoch(self, state: State) -> None:
        self.process_justification_and_finalization(state)
        self.process_inactivity_updates(state)
        self.process_rewards_and_penalties(state)
        self.process_registry_updates(state)
        self.process_slashings(state)
        self.process_eth1_data_reset(state)
        self.process_pending_deposits(state)
        self.process_pending_consolidations(state)
        self.process_effective_balance_updates(state)
        self.process_slashings_reset(state)
        self.process_randao_mixes_reset(state)
        self.process_historical_summaries_update(state)
        self.process_participation_flag_updates(state)
        self.process_sync_committee_updates(state)

    def process_registry_updates(self, state: State) -> None:
        """Queues, ejects or activates validators; the queue of deposits has limited activations already."""
        validators, epoch = state.validators, self.get_current_epoch(state)
        since, effective = (
            validators.column("activation_eligibility_epoch"),
            validators.column("effective_balance"),
        )
        new = (since == FAR_FUTURE_EPOCH) & (effective >= self.preset.MIN_ACTIVATION_BALANCE)
        low = ~new & get_active_flags(validators, epoch) & (effective <= self.config.EJECTION_BALANCE)
        ready = ~new & ~low & (since <= state.finalized_checkpoint.epoch)
        ready &= validators.column("activation_epoch") == FAR_FUTURE_EPOCH
        if new.any():
            validators.write("activation_eligibility_epoch", new, epoch + 1)
        self.initiate_validator_exits(state, np.flatnonzero(low))
        self.activate_validators(state, np.flatnonzero(ready))

    def get_slashing_penalties(self, state: State, balances: NDArray[np.uint64]) -> NDArray[np.uint64]:
        increment = self.preset.EFFECTIVE_BALANCE_INCREMENT
        increments = self.get_total_active_balance(state) // increment
        per_increment = self.get_adjusted_total_slashing_balance(state) // increments
        return multiply(balances // increment, per_increment)

    # Deposits

    def process_pending_deposits(self, state: State) -> None:
        """Takes deposits from the queue, as far as they are final and the churn lets them in."""
        available = state.deposit_balance_to_consume + self.get_activation_churn_limit(state)
        next_epoch, used, done = self.get_current_epoch(state) + 1, 0, 0
        postponed: list[PendingDeposit] = []
        is_churn_limit_reached = False
        for deposit in state.pending_deposits[: self.preset.MAX_PENDING_DEPOSITS_PER_EPOCH]:
            if not self.is_deposit_due(state, deposit):
                break
            index = find_validator(state.validators, deposit.pubkey)
            validator = None if index is None else get_validator(state.validators, index)
            if validator is not None and validator.withdrawable_epoch < next_epoch:
                self.apply_pending_deposit(state, deposit, index)  # never becomes active: needs no churn
            elif validator is not None and validator.exit_epoch < FAR_FUTURE_EPOCH:
                postponed.append(deposit)
            else:
                is_churn_limit_reached = used + deposit.amount > available
                if is_churn_limit_reached:
                    break
                used += deposit.amount
                self.apply_pending_deposit(state, deposit, index)
            done += 1
        state.pending_deposits = (*state.pending_deposits[done:], *postponed)
        state.deposit_balance_to_consume = available - used if is_churn_limit_reached else 0

    def is_deposit_due(self, state: State, deposit: PendingDeposit) -> bool:
        """Whether a deposit is final, and comes after all that came over the old bridge."""
        bridging = state.eth1_deposit_index < state.deposit_requests_start_index
        if deposit.slot > GENESIS_SLOT and bridging:
            return False
        finalized_slot = self.compute_start_slot_at_epoch(state.finalized_checkpoint.epoch)
        return deposit.slot <= finalized_slot

    def apply_pending_deposit(
        self, state: State, deposit: PendingDeposit, index: ValidatorIndex | None
    ) -> None:
        """Tops up the validator at `index`, or makes one when the deposit's signature is valid."""
        pubkey, credentials, amount = deposit.pubkey, deposit.withdrawal_credentials, deposit.amount
        if index is not None:
            self.increase_balance(state, index, amount)
        elif self.is_valid_deposit_signature(pubkey, credentials, amount, deposit.signature):
            self.add_validator_to_registry(state, pubkey, credentials, amount)

    def process_pending_consolidations(self, state: State) -> None:
        """Moves the stake of sources that have become withdrawable to their targets."""
        next_epoch, done = self.get_current_epoch(state) + 1, 0
        for pending in state.pending_consolidations:
            source = get_validator(state.validators, pending.source_index)
            if not source.slashed:
                if source.withdrawable_epoch > next_epoch:
                    break
                require_validator(state.validators, pending.target_index)
                moved = min(state.balances[pending.source_index], source.effective_balance)
                self.decrease_balance(state, pending.source_index, moved)
                self.increase_balance(state, pending.target_index, moved)
            done += 1
        state.pending_consolidations = state.pending_consolidations[done:]
