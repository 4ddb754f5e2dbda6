"""Rewards and penalties from pending attestations, for all validators at once (phase0 only)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING

from anchor.consensus.containers.phase0 import PendingAttestation
from anchor.consensus.forks.arithmetic import add, multiply, require, saturating_sub, to_flags
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.phase0.mutators import Mutators
from anchor.merkle.lazy import np
from anchor.params import BASE_REWARDS_PER_EPOCH, GENESIS_EPOCH
from anchor.types import Epoch, Gwei

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Deltas = tuple[NDArray[np.uint64], NDArray[np.uint64]]
    """Rewards and penalties in Gwei, (n,) each."""


class Rewards(Mutators):
    """Who attested what, and what each validator gets for it."""

    def get_matching_source_attestations(self, state: State, epoch: Epoch) -> tuple[PendingAttestation, ...]:
        """The pending attestations of the current or the previous epoch."""
        current = epoch == self.get_current_epoch(state)
        attestations = state.current_epoch_attestations if current else state.previous_epoch_attestations
        return tuple(attestations)

    def get_matching_target_attestations(self, state: State, epoch: Epoch) -> list[PendingAttestation]:
        """Those that voted for the right target."""
        pending = self.get_matching_source_attestations(state, epoch)
        return [a for a in pending if a.data.target.root == self.get_block_root(state, epoch)]

    def get_matching_head_attestations(self, state: State, epoch: Epoch) -> list[PendingAttestation]:
        """Those that voted for the right target and the right head."""
        return [
            a
            for a in self.get_matching_target_attestations(state, epoch)
            if a.data.beacon_block_root == self.get_block_root_at_slot(state, a.data.slot)
        ]

    def get_pending_attesting_indices(self, state: State, pending: PendingAttestation) -> NDArray[np.int64]:
        """The validators whose votes `pending` aggregates."""
        committee = self.get_beacon_committee(state, pending.data.slot, pending.data.index)
        flags = to_flags(pending.aggregation_bits)
        require(len(flags) == len(committee), lambda: "A pending attestation does not fit its committee.")
        voters: NDArray[np.int64] = committee[flags]
        return voters

    def get_unslashed_attesting_flags(
        self, state: State, attestations: Sequence[PendingAttestation]
    ) -> NDArray[np.bool_]:
        """(n,): who is in `attestations` and not slashed (get_unslashed_attesting_indices)."""
        flags = np.zeros(len(state.validators), np.bool_)
        for pending in attestations:
            flags[self.get_pending_attesting_indices(state, pending)] = True
        flags &= ~state.validators.column("slashed")
        return flags

    def get_attesting_balance(self, state: State, attestations: Sequence[PendingAttestation]) -> Gwei:
        """Effective balance of the unslashed validators in `attestations`."""
        return self.get_total_balance(state, self.get_unslashed_attesting_flags(state, attestations))

    def get_base_rewards(self, state: State) -> NDArray[np.uint64]:
        """(n,): each validator's base reward (get_base_reward)."""
        balances = state.validators.column("effective_balance")
        root = isqrt(self.get_total_active_balance(state))
        return multiply(balances, self.preset.BASE_REWARD_FACTOR) // root // BASE_REWARDS_PER_EPOCH

    def get_attestation_component_deltas(
        self, state: State, attestations: Sequence[PendingAttestation]
    ) -> Deltas:
        """Deltas for one component (source, target or head) of the votes."""
        attesting = self.get_unslashed_attesting_flags(state, attestations)
        eligible, base_rewards = self.get_eligible_flags(state), self.get_base_rewards(state)
        rewards = base_rewards
        if not self.is_in_inactivity_leak(state):
            increment = self.preset.EFFECTIVE_BALANCE_INCREMENT
            increments = self.get_total_balance(state, attesting) // increment
            total_increments = self.get_total_active_balance(state) // increment
            rewards = multiply(base_rewards, increments) // total_increments
        return rewards * (eligible & attesting), base_rewards * (eligible & ~attesting)

    def get_source_deltas(self, state: State) -> Deltas:
        """Deltas for the source vote."""
        attestations = self.get_matching_source_attestations(state, self.get_previous_epoch(state))
        return self.get_attestation_component_deltas(state, attestations)

    def get_target_deltas(self, state: State) -> Deltas:
        """Deltas for the target vote."""
        attestations = self.get_matching_target_attestations(state, self.get_previous_epoch(state))
        return self.get_attestation_component_deltas(state, attestations)

    def get_head_deltas(self, state: State) -> Deltas:
        """Deltas for the head vote."""
        attestations = self.get_matching_head_attestations(state, self.get_previous_epoch(state))
        return self.get_attestation_component_deltas(state, attestations)

    def get_inclusion_delay_deltas(self, state: State) -> Deltas:
        """Deltas for being included early, and for the proposers who included."""
        attestations = self.get_matching_source_attestations(state, self.get_previous_epoch(state))
        count = len(state.validators)
        delays, proposers = np.ones(count, np.uint64), np.zeros(count, np.int64)
        # The earliest inclusion counts, of equals the first in the list: it is written last.
        by_delay = sorted(attestations, key=lambda a: a.inclusion_delay)
        for pending in reversed(by_delay):
            indices = self.get_pending_attesting_indices(state, pending)
            delays[indices], proposers[indices] = pending.inclusion_delay, pending.proposer_index
        attesting = self.get_unslashed_attesting_flags(state, attestations)
        base_rewards = self.get_base_rewards(state)
        proposer_rewards = base_rewards // self.preset.PROPOSER_REWARD_QUOTIENT
        rewards = (base_rewards - proposer_rewards) // delays * attesting
        np.add.at(rewards, proposers[attesting], proposer_rewards[attesting])
        return rewards, np.zeros(count, np.uint64)

    def get_inactivity_penalty_deltas(self, state: State) -> Deltas:
        """Deltas for missing finality: all lose what they earn, the absent lose more."""
        count = len(state.validators)
        rewards = np.zeros(count, np.uint64)
        if not self.is_in_inactivity_leak(state):
            return rewards, np.zeros(count, np.uint64)
        targets = self.get_matching_target_attestations(state, self.get_previous_epoch(state))
        absent = ~self.get_unslashed_attesting_flags(state, targets)
        base_rewards = self.get_base_rewards(state)
        proposer_rewards = base_rewards // self.preset.PROPOSER_REWARD_QUOTIENT
        penalties = multiply(base_rewards, BASE_REWARDS_PER_EPOCH) - proposer_rewards
        balances = state.validators.column("effective_balance")
        leaks = multiply(balances, self.get_finality_delay(state)) // self.preset.INACTIVITY_PENALTY_QUOTIENT
        return rewards, add(penalties, leaks * absent) * self.get_eligible_flags(state)

    def get_attestation_deltas(self, state: State) -> Deltas:
        """The sums of all deltas."""
        components = [
            self.get_source_deltas(state),
            self.get_target_deltas(state),
            self.get_head_deltas(state),
            self.get_inclusion_delay_deltas(state),
            self.get_inactivity_penalty_deltas(state),
        ]
        rewards, penalties = components[0]
        for more_rewards, more_penalties in components[1:]:
            rewards, penalties = add(rewards, more_rewards), add(penalties, more_penalties)
        return rewards, penalties

    def process_rewards_and_penalties(self, state: State) -> None:
        """Applies the deltas of the previous epoch's attestations."""
        if self.get_current_epoch(state) == GENESIS_EPOCH:
            return  # rewards are for work done in the epoch before
        self.apply_deltas(state, *self.get_attestation_deltas(state))

    def apply_deltas(self, state: State, rewards: NDArray[np.uint64], penalties: NDArray[np.uint64]) -> None:
        """Adds rewards to all balances, then takes penalties from them."""
        state.balances.assign(saturating_sub(add(state.balances.array, rewards), penalties))
