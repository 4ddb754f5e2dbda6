"""Stake by credentials, and churn by stake instead of heads (electra/beacon-chain, helper functions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anchor.consensus.containers import electra as containers
from anchor.consensus.containers.phase0 import Validator
from anchor.consensus.forks.arithmetic import add, total
from anchor.consensus.forks.deneb import Deneb
from anchor.consensus.forks.phase0.base import State
from anchor.merkle.container import Container
from anchor.merkle.lazy import np
from anchor.params import COMPOUNDING_WITHDRAWAL_PREFIX, ETH1_ADDRESS_WITHDRAWAL_PREFIX, FAR_FUTURE_EPOCH
from anchor.types import Bytes32, Epoch, Gwei, ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ElectraChurn(Deneb):
    """What electra reads of a state beyond deneb, and its queues for exits and consolidations."""

    name: ClassVar[str] = "electra"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS
    random_dtype: ClassVar[str] = "<u2"

    @property
    def min_slashing_penalty_quotient(self) -> int:
        return self.preset.MIN_SLASHING_PENALTY_QUOTIENT_ELECTRA

    @property
    def whistleblower_reward_quotient(self) -> int:
        return self.preset.WHISTLEBLOWER_REWARD_QUOTIENT_ELECTRA

    @property
    def max_drawn_balance(self) -> Gwei:
        return self.preset.MAX_EFFECTIVE_BALANCE_ELECTRA

    # Credentials

    def has_compounding_withdrawal_credential(self, validator: Validator) -> bool:
        """Whether a validator's stake may grow beyond the minimum."""
        return validator.withdrawal_credentials[:1] == COMPOUNDING_WITHDRAWAL_PREFIX

    def has_execution_withdrawal_credential(self, validator: Validator) -> bool:
        """Whether a validator's stake goes to an address."""
        prefixes = ETH1_ADDRESS_WITHDRAWAL_PREFIX, COMPOUNDING_WITHDRAWAL_PREFIX
        return validator.withdrawal_credentials[:1] in prefixes

    def get_withdrawal_credential_flags(self, credentials: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """(n,): whether credentials, (n, 32), name an address (has_execution_withdrawal_credential)."""
        compounding: NDArray[np.bool_] = credentials[:, 0] == COMPOUNDING_WITHDRAWAL_PREFIX[0]
        return compounding | super().get_withdrawal_credential_flags(credentials)

    def get_max_effective_balance(self, withdrawal_credentials: Bytes32) -> Gwei:
        if withdrawal_credentials[:1] == COMPOUNDING_WITHDRAWAL_PREFIX:
            return self.preset.MAX_EFFECTIVE_BALANCE_ELECTRA
        return self.preset.MIN_ACTIVATION_BALANCE

    def get_max_effective_balances(self, state: State, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        credentials = state.validators.column("withdrawal_credentials")[rows]
        compounding = credentials[:, 0] == COMPOUNDING_WITHDRAWAL_PREFIX[0]
        limits = self.preset.MAX_EFFECTIVE_BALANCE_ELECTRA, self.preset.MIN_ACTIVATION_BALANCE
        return np.where(compounding, *limits).astype(np.uint64)

    # Churn

    def get_balance_churn_limit(self, state: State) -> Gwei:
        """How much stake may move in an epoch, all in all."""
        share = self.get_total_active_balance(state) // self.config.CHURN_LIMIT_QUOTIENT
        churn: Gwei = max(self.config.MIN_PER_EPOCH_CHURN_LIMIT_ELECTRA, share)
        return churn - churn % self.preset.EFFECTIVE_BALANCE_INCREMENT

    def get_activation_exit_churn_limit(self, state: State) -> Gwei:
        """How much of it is for activations, and as much for exits."""
        cap: Gwei = self.config.MAX_PER_EPOCH_ACTIVATION_EXIT_CHURN_LIMIT
        return min(cap, self.get_balance_churn_limit(state))

    def get_activation_churn_limit(self, state: State) -> Gwei:
        """The limit for activations."""
        return self.get_activation_exit_churn_limit(state)

    def get_exit_churn_limit(self, state: State) -> Gwei:
        """The limit for exits."""
        return self.get_activation_exit_churn_limit(state)

    def get_consolidation_churn_limit(self, state: State) -> Gwei:
        """How much of it is for consolidations."""
        return self.get_balance_churn_limit(state) - self.get_activation_exit_churn_limit(state)

    def get_pending_balance_to_withdraw(self, state: State, index: ValidatorIndex) -> Gwei:
        """What a validator has queued to withdraw."""
        return sum([w.amount for w in state.pending_partial_withdrawals if w.validator_index == index])

    def initiate_validator_exits(self, state: State, indices: NDArray[np.int64]) -> None:
        leaving = indices[state.validators.column("exit_epoch")[indices] == FAR_FUTURE_EPOCH]
        if len(leaving):
            balances = state.validators.column("effective_balance")[leaving]
            epochs = self.compute_exit_epochs_and_update_churn(state, balances)
            self.set_exit_epochs(state, leaving, epochs)

    def compute_exit_epoch_and_update_churn(self, state: State, exit_balance: Gwei) -> Epoch:
        """When stake that leaves now gets its turn; takes it from the churn of that epoch."""
        return int(self.compute_exit_epochs_and_update_churn(state, np.array([exit_balance], np.uint64))[0])

    def compute_exit_epochs_and_update_churn(
        self, state: State, balances: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """`compute_exit_epoch_and_update_churn` for several, one after the other."""
        earliest = self.compute_activation_exit_epoch(self.get_current_epoch(state))
        limit = self.get_exit_churn_limit(state)
        start, available = state.earliest_exit_epoch, state.exit_balance_to_consume
        if start < earliest:
            start, available = earliest, limit
        epochs, left = spend_churn(start, available, limit, balances)
        state.earliest_exit_epoch, state.exit_balance_to_consume = int(epochs[-1]), left
        return epochs

    def compute_consolidation_epoch_and_update_churn(self, state: State, balance: Gwei) -> Epoch:
        """When stake that is merged now gets its turn; takes it from the churn of that epoch."""
        earliest = self.compute_activation_exit_epoch(self.get_current_epoch(state))
        limit = self.get_consolidation_churn_limit(state)
        start, available = state.earliest_consolidation_epoch, state.consolidation_balance_to_consume
        if start < earliest:
            start, available = earliest, limit
        epochs, left = spend_churn(start, available, limit, np.array([balance], np.uint64))
        state.earliest_consolidation_epoch, state.consolidation_balance_to_consume = int(epochs[0]), left
        return int(epochs[0])


def spend_churn(
    start: Epoch, available: Gwei, limit: Gwei, balances: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], Gwei]:
    """Lets balances through, one after the other: `available` in epoch `start`, `limit` in each later one.

    Returns the epoch of each, and what the last one's epoch still has available.
    """
    spent, all_spent = np.cumsum(balances), total(balances)
    over = spent - np.minimum(spent, available)  # what `start` has no room for
    later = (over + (limit - 1)) // limit
    left = available + int(later[-1]) * limit - all_spent
    return add(later, start), left
