"""The epoch transition by participation flags (altair/beacon-chain, epoch processing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.consensus.forks.altair.accessors import AltairAccessors
from anchor.consensus.forks.arithmetic import add, multiply, saturating_sub
from anchor.consensus.forks.phase0.base import State
from anchor.merkle.columns import Column
from anchor.merkle.lazy import np
from anchor.params import (
    GENESIS_EPOCH,
    PARTICIPATION_FLAG_WEIGHTS,
    TIMELY_HEAD_FLAG_INDEX,
    TIMELY_TARGET_FLAG_INDEX,
    WEIGHT_DENOMINATOR,
)
from anchor.types import Gwei

if TYPE_CHECKING:
    from anchor.consensus.forks.phase0.rewards import Deltas


class AltairEpochProcessing(AltairAccessors):
    """`process_epoch` and the parts that altair adds or modifies."""

    def process_epoch(self, state: State) -> None:
        self.process_justification_and_finalization(state)
        self.process_inactivity_updates(state)
        self.process_rewards_and_penalties(state)
        self.process_registry_updates(state)
        self.process_slashings(state)
        self.process_eth1_data_reset(state)
        self.process_effective_balance_updates(state)
        self.process_slashings_reset(state)
        self.process_randao_mixes_reset(state)
        self.process_historical_roots_update(state)
        self.process_participation_flag_updates(state)
        self.process_sync_committee_updates(state)

    def get_target_balances(self, state: State) -> tuple[Gwei, Gwei]:
        previous, current = [
            self.get_total_balance(
                state, self.get_unslashed_participating_flags(state, TIMELY_TARGET_FLAG_INDEX, epoch)
            )
            for epoch in (self.get_previous_epoch(state), self.get_current_epoch(state))
        ]
        return previous, current

    def process_inactivity_updates(self, state: State) -> None:
        """Raises the scores of who missed the target, lowers the others'; all recover without a leak."""
        if self.get_current_epoch(state) == GENESIS_EPOCH:
            return  # scores are for the epoch before
        scores, eligible = state.inactivity_scores.array, self.get_eligible_flags(state)
        present = self.get_unslashed_participating_flags(
            state, TIMELY_TARGET_FLAG_INDEX, self.get_previous_epoch(state)
        )
        updated = add(scores, (eligible & ~present) * np.uint64(self.config.INACTIVITY_SCORE_BIAS))
        updated = saturating_sub(updated, (eligible & present).astype(np.uint64))
        if not self.is_in_inactivity_leak(state):
            recovery = eligible * np.uint64(self.config.INACTIVITY_SCORE_RECOVERY_RATE)
            updated = saturating_sub(updated, recovery)
        if not np.array_equal(updated, scores):
            state.inactivity_scores.assign(updated)

    def process_rewards_and_penalties(self, state: State) -> None:
        if self.get_current_epoch(state) == GENESIS_EPOCH:
            return  # rewards are for work done in the epoch before
        flags = range(len(PARTICIPATION_FLAG_WEIGHTS))
        deltas = [self.get_flag_index_deltas(state, flag_index) for flag_index in flags]
        for rewards, penalties in [*deltas, self.get_inactivity_penalty_deltas(state)]:
            self.apply_deltas(state, rewards, penalties)

    def get_flag_index_deltas(self, state: State, flag_index: int) -> Deltas:
        """Deltas for one of the participation flags."""
        weight, increment = PARTICIPATION_FLAG_WEIGHTS[flag_index], self.preset.EFFECTIVE_BALANCE_INCREMENT
        present = self.get_unslashed_participating_flags(state, flag_index, self.get_previous_epoch(state))
        eligible = self.get_eligible_flags(state)
        weighted = multiply(self.get_base_rewards(state), weight)
        rewards = penalties = np.zeros(len(weighted), np.uint64)
        if not self.is_in_inactivity_leak(state):
            increments = self.get_total_balance(state, present) // increment
            active_increments = self.get_total_active_balance(state) // increment
            rewards = multiply(weighted, increments) // (active_increments * WEIGHT_DENOMINATOR)
            rewards *= eligible & present
        if flag_index != TIMELY_HEAD_FLAG_INDEX:
            penalties = weighted // WEIGHT_DENOMINATOR * (eligible & ~present)
        return rewards, penalties

    def get_inactivity_penalty_deltas(self, state: State) -> Deltas:
        """Deltas for missing the target, by inactivity score."""
        present = self.get_unslashed_participating_flags(
            state, TIMELY_TARGET_FLAG_INDEX, self.get_previous_epoch(state)
        )
        balances = state.validators.column("effective_balance")
        absent = self.get_eligible_flags(state) & ~present
        numerators = multiply(balances * absent, state.inactivity_scores.array)
        denominator = self.config.INACTIVITY_SCORE_BIAS * self.inactivity_penalty_quotient
        return np.zeros(len(balances), np.uint64), numerators // denominator

    @property
    def inactivity_penalty_quotient(self) -> int:
        """How slowly the inactive lose stake."""
        return self.preset.INACTIVITY_PENALTY_QUOTIENT_ALTAIR

    @property
    def min_slashing_penalty_quotient(self) -> int:
        return self.preset.MIN_SLASHING_PENALTY_QUOTIENT_ALTAIR

    @property
    def proportional_slashing_multiplier(self) -> int:
        return self.preset.PROPORTIONAL_SLASHING_MULTIPLIER_ALTAIR

    def process_participation_flag_updates(self, state: State) -> None:
        """Makes the current epoch's flags the previous one's."""
        state.previous_epoch_participation = state.current_epoch_participation
        state.current_epoch_participation = Column(np.zeros(len(state.validators), np.uint8))

    def process_sync_committee_updates(self, state: State) -> None:
        """Rotates the sync committees at the end of a period."""
        if (self.get_current_epoch(state) + 1) % self.preset.EPOCHS_PER_SYNC_COMMITTEE_PERIOD == 0:
            state.current_sync_committee = state.next_sync_committee
            state.next_sync_committee = self.get_next_sync_committee(state)
