"""Changing balances and the registry: rewards, exits, slashings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.consensus.forks.arithmetic import add, require_uint64
from anchor.consensus.forks.phase0.accessors import Accessors
from anchor.consensus.forks.phase0.base import State
from anchor.merkle.lazy import np
from anchor.params import FAR_FUTURE_EPOCH
from anchor.types import Gwei, ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Mutators(Accessors):
    """The specification's beacon state mutators."""

    def increase_balance(self, state: State, index: ValidatorIndex, delta: Gwei) -> None:
        """Adds `delta` to a validator's balance."""
        state.balances[index] = require_uint64(state.balances[index] + delta, f"The balance of {index}")

    def decrease_balance(self, state: State, index: ValidatorIndex, delta: Gwei) -> None:
        """Takes `delta`, or all there is, from a validator's balance."""
        state.balances[index] = max(state.balances[index] - delta, 0)

    def initiate_validator_exit(self, state: State, index: ValidatorIndex) -> None:
        """Schedules a validator's exit, unless that has been done."""
        self.initiate_validator_exits(state, np.array([index]))

    def initiate_validator_exits(self, state: State, indices: NDArray[np.int64]) -> None:
        """Schedules the exits of validators, one after the other, as the churn limit lets them go."""
        exit_epochs = state.validators.column("exit_epoch")
        leaving = indices[exit_epochs[indices] == FAR_FUTURE_EPOCH]
        if not len(leaving):
            return
        scheduled = exit_epochs[exit_epochs != FAR_FUTURE_EPOCH]
        earliest = self.compute_activation_exit_epoch(self.get_current_epoch(state))
        queue_epoch = max(int(scheduled.max(initial=0)), earliest)
        churn, limit = int(np.count_nonzero(scheduled == queue_epoch)), self.get_validator_churn_limit(state)
        if churn >= limit:
            queue_epoch, churn = queue_epoch + 1, 0
        places = np.arange(churn, churn + len(leaving), dtype=np.uint64)
        self.set_exit_epochs(state, leaving, add(places // limit, queue_epoch))

    def set_exit_epochs(self, state: State, rows: NDArray[np.int64], epochs: NDArray[np.uint64]) -> None:
        """Writes when validators exit, and when their stake is free."""
        delay = self.config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY
        require_uint64(int(epochs.max()) + delay, "An epoch of withdrawal")
        state.validators.write("exit_epoch", rows, epochs)
        state.validators.write("withdrawable_epoch", rows, epochs + delay)

    def slash_validator(
        self, state: State, slashed_index: ValidatorIndex, whistleblower_index: ValidatorIndex | None = None
    ) -> None:
        """Slashes a validator: it exits, loses a part at once, and whoever told is rewarded."""
        epoch, kept = self.get_current_epoch(state), self.preset.EPOCHS_PER_SLASHINGS_VECTOR
        self.initiate_validator_exit(state, slashed_index)
        validator = state.validators[slashed_index]
        withdrawable_epoch = max(validator.withdrawable_epoch, epoch + kept)
        state.validators.write("slashed", slashed_index, True)
        state.validators.write("withdrawable_epoch", slashed_index, withdrawable_epoch)
        slashed_balance = state.slashings[epoch % kept] + validator.effective_balance
        state.slashings[epoch % kept] = require_uint64(slashed_balance, "The balance slashed")
        penalty = validator.effective_balance // self.min_slashing_penalty_quotient
        self.decrease_balance(state, slashed_index, penalty)

        proposer_index = self.get_beacon_proposer_index(state)
        reward = validator.effective_balance // self.whistleblower_reward_quotient
        proposer_reward = self.get_slashing_proposer_reward(reward)
        self.increase_balance(state, proposer_index, proposer_reward)
        if whistleblower_index is None:
            whistleblower_index = proposer_index
        self.increase_balance(state, whistleblower_index, reward - proposer_reward)

    @property
    def min_slashing_penalty_quotient(self) -> int:
        """What part of its stake a slashed validator loses at once, inverted."""
        return self.preset.MIN_SLASHING_PENALTY_QUOTIENT

    @property
    def whistleblower_reward_quotient(self) -> int:
        """What part of a slashed validator's stake whoever told receives, inverted."""
        return self.preset.WHISTLEBLOWER_REWARD_QUOTIENT

    def get_slashing_proposer_reward(self, whistleblower_reward: Gwei) -> Gwei:
        """The proposer's share of a whistleblower's reward."""
        return whistleblower_reward // self.preset.PROPOSER_REWARD_QUOTIENT
