"""The epoch transition (phase0/beacon-chain, epoch processing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.consensus.containers.phase0 import Checkpoint, HistoricalBatch
from anchor.consensus.forks.arithmetic import add, multiply, require_uint64, saturating_sub
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.phase0.rewards import Rewards
from anchor.consensus.forks.registry import get_active_flags
from anchor.merkle.bits import Bits
from anchor.merkle.lazy import np
from anchor.params import FAR_FUTURE_EPOCH, GENESIS_EPOCH, JUSTIFICATION_BITS_LENGTH
from anchor.types import Gwei

if TYPE_CHECKING:
    from numpy.typing import NDArray


class EpochProcessing(Rewards):
    """`process_epoch` and its parts. Each is array arithmetic over the registry's columns."""

    def process_epoch(self, state: State) -> None:
        """What happens at the end of every epoch, in this order."""
        self.process_justification_and_finalization(state)
        self.process_rewards_and_penalties(state)
        self.process_registry_updates(state)
        self.process_slashings(state)
        self.process_eth1_data_reset(state)
        self.process_effective_balance_updates(state)
        self.process_slashings_reset(state)
        self.process_randao_mixes_reset(state)
        self.process_historical_roots_update(state)
        self.process_participation_record_updates(state)

    # Justification and finalisation

    def process_justification_and_finalization(self, state: State) -> None:
        """Casper FFG: justifies what two thirds of the stake voted for, finalises what that confirms."""
        if self.get_current_epoch(state) <= GENESIS_EPOCH + 1:
            return  # the first checkpoints are stubs
        previous, current = self.get_target_balances(state)
        self.weigh_justification_and_finalization(
            state, self.get_total_active_balance(state), previous, current
        )

    def get_target_balances(self, state: State) -> tuple[Gwei, Gwei]:
        """The stake that voted for the previous and for the current epoch's target."""
        previous, current = [
            self.get_attesting_balance(state, self.get_matching_target_attestations(state, epoch))
            for epoch in (self.get_previous_epoch(state), self.get_current_epoch(state))
        ]
        return previous, current

    def weigh_justification_and_finalization(
        self, state: State, total_active: Gwei, previous_target: Gwei, current_target: Gwei
    ) -> None:
        """Justifies and finalises, given the stake behind each target."""
        previous_epoch, current_epoch = self.get_previous_epoch(state), self.get_current_epoch(state)
        old_previous, old_current = state.previous_justified_checkpoint, state.current_justified_checkpoint
        bits = [False, *state.justification_bits[: JUSTIFICATION_BITS_LENGTH - 1]]
        state.previous_justified_checkpoint = old_current
        if previous_target * 3 >= total_active * 2:
            root = self.get_block_root(state, previous_epoch)
            state.current_justified_checkpoint = Checkpoint(epoch=previous_epoch, root=root)
            bits[1] = True
        if current_target * 3 >= total_active * 2:
            root = self.get_block_root(state, current_epoch)
            state.current_justified_checkpoint = Checkpoint(epoch=current_epoch, root=root)
            bits[0] = True
        state.justification_bits = Bits(bits)

        # Which recent epochs must be justified, and how far back the source of the newest of them is.
        for epochs, source, distance in (
            (bits[1:4], old_previous, 3),
            (bits[1:3], old_previous, 2),
            (bits[0:3], old_current, 2),
            (bits[0:2], old_current, 1),
        ):
            if all(epochs) and source.epoch + distance == current_epoch:
                state.finalized_checkpoint = source

    # Registry

    def process_registry_updates(self, state: State) -> None:
        """Queues who may be activated, ejects who has too little stake, activates from the queue."""
        validators, epoch = state.validators, self.get_current_epoch(state)
        new = np.flatnonzero(self.get_activation_queue_flags(state))
        low = validators.column("effective_balance") <= self.config.EJECTION_BALANCE
        ejected = np.flatnonzero(get_active_flags(validators, epoch) & low)
        if len(new):
            validators.write("activation_eligibility_epoch", new, epoch + 1)
        self.initiate_validator_exits(state, ejected)

        since = validators.column("activation_eligibility_epoch")
        waiting = np.flatnonzero(
            (since <= state.finalized_checkpoint.epoch)
            & (validators.column("activation_epoch") == FAR_FUTURE_EPOCH)
        )
        queue = waiting[np.argsort(since[waiting], kind="stable")]
        self.activate_validators(state, queue[: self.get_validator_activation_churn_limit(state)])

    def get_activation_queue_flags(self, state: State) -> NDArray[np.bool_]:
        """(n,): who enters the activation queue now (is_eligible_for_activation_queue)."""
        validators = state.validators
        flags: NDArray[np.bool_] = validators.column("activation_eligibility_epoch") == FAR_FUTURE_EPOCH
        flags &= validators.column("effective_balance") == self.preset.MAX_EFFECTIVE_BALANCE
        return flags

    def get_validator_activation_churn_limit(self, state: State) -> int:
        """How many validators may be activated in an epoch."""
        return self.get_validator_churn_limit(state)

    def activate_validators(self, state: State, indices: NDArray[np.int64]) -> None:
        """Schedules the activation of validators."""
        if len(indices):
            epoch = self.compute_activation_exit_epoch(self.get_current_epoch(state))
            state.validators.write("activation_epoch", indices, epoch)

    # Slashings and balances

    def process_slashings(self, state: State) -> None:
        """Takes from validators who were slashed half a period ago, by how much was slashed with them."""
        rows = self.get_slashings_due(state)
        if len(rows):
            penalties = self.get_slashing_penalties(state, state.validators.column("effective_balance")[rows])
            state.balances[rows] = saturating_sub(state.balances.array[rows], penalties)

    def get_slashings_due(self, state: State) -> NDArray[np.int64]:
        """The slashed validators who are halfway to their withdrawal."""
        due = self.get_current_epoch(state) + self.preset.EPOCHS_PER_SLASHINGS_VECTOR // 2
        validators = state.validators
        return np.flatnonzero(validators.column("slashed") & (validators.column("withdrawable_epoch") == due))

    def get_slashing_penalties(self, state: State, balances: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The penalties of slashed validators with these effective balances."""
        increment = self.preset.EFFECTIVE_BALANCE_INCREMENT
        numerators = multiply(balances // increment, self.get_adjusted_total_slashing_balance(state))
        return multiply(numerators // self.get_total_active_balance(state), increment)

    def get_adjusted_total_slashing_balance(self, state: State) -> Gwei:
        """What was slashed in the period, weighed, and at most all stake."""
        slashed = require_uint64(sum(state.slashings.array.tolist()), "The balance slashed in a period")
        return min(slashed * self.proportional_slashing_multiplier, self.get_total_active_balance(state))

    @property
    def proportional_slashing_multiplier(self) -> int:
        """How much more than its share of the stake a slashed coalition loses."""
        return self.preset.PROPORTIONAL_SLASHING_MULTIPLIER

    def process_effective_balance_updates(self, state: State) -> None:
        """Lets effective balances follow balances, with hysteresis."""
        balances, effective = state.balances.array, state.validators.column("effective_balance")
        increment = self.preset.EFFECTIVE_BALANCE_INCREMENT
        step = increment // self.preset.HYSTERESIS_QUOTIENT
        fallen = add(balances, step * self.preset.HYSTERESIS_DOWNWARD_MULTIPLIER) < effective
        risen = add(effective, step * self.preset.HYSTERESIS_UPWARD_MULTIPLIER) < balances
        rows = np.flatnonzero(fallen | risen)
        if len(rows):
            rounded = balances[rows] - balances[rows] % increment
            limits = self.get_max_effective_balances(state, rows)
            state.validators.write("effective_balance", rows, np.minimum(rounded, limits))

    # Resets

    def process_eth1_data_reset(self, state: State) -> None:
        """Starts a new period of votes on the deposit contract's state."""
        if (self.get_current_epoch(state) + 1) % self.preset.EPOCHS_PER_ETH1_VOTING_PERIOD == 0:
            state.eth1_data_votes = ()

    def process_slashings_reset(self, state: State) -> None:
        """Forgets what was slashed a whole period ago."""
        next_epoch = self.get_current_epoch(state) + 1
        state.slashings[next_epoch % self.preset.EPOCHS_PER_SLASHINGS_VECTOR] = 0

    def process_randao_mixes_reset(self, state: State) -> None:
        """Starts the next epoch's randomness from the current one's."""
        epoch = self.get_current_epoch(state)
        place = (epoch + 1) % self.preset.EPOCHS_PER_HISTORICAL_VECTOR
        state.randao_mixes[place] = self.get_randao_mix(state, epoch)

    def process_historical_roots_update(self, state: State) -> None:
        """Keeps the root over a full period's block and state roots."""
        if self.is_historical_period_end(state):
            roots = tuple(state.block_roots), tuple(state.state_roots)
            batch = HistoricalBatch(block_roots=roots[0], state_roots=roots[1])
            state.historical_roots = (*state.historical_roots, self.hash_tree_root(batch))

    def is_historical_period_end(self, state: State) -> bool:
        """Whether the vectors of block and state roots are full at the end of this epoch."""
        period = self.preset.SLOTS_PER_HISTORICAL_ROOT // self.preset.SLOTS_PER_EPOCH
        return (self.get_current_epoch(state) + 1) % period == 0

    def process_participation_record_updates(self, state: State) -> None:
        """Makes the current epoch's attestations the previous one's."""
        state.previous_epoch_attestations = state.current_epoch_attestations
        state.current_epoch_attestations = ()
