"""How long a checkpoint can be trusted (weak-subjectivity of phase0, electra and gloas).

Validators who have left may sign another history and lose nothing. Within the period, those who would have to
can still be slashed for it; SAFETY_DECAY is the percentage of stake of which that need not be true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anchor.errors import InvalidTransition
from anchor.params import ETH_TO_GWEI, LOGICAL_CLOCK, SAFETY_DECAY
from anchor.types import Epoch, Gwei, Root, Slot

if TYPE_CHECKING:
    from anchor.consensus.containers.phase0 import Checkpoint
    from anchor.consensus.presets import Config, Preset


def compute_weak_subjectivity_period(fork: Any, state: Any) -> Epoch:
    """The epochs for which a checkpoint with this state, of this fork, can be trusted.

    Raises InvalidTransition when nobody is active.
    """
    total = fork.get_total_active_balance(state)
    if fork.name in ("electra", "fulu"):
        return compute_period_by_balance(fork.config, total, fork.get_balance_churn_limit(state))
    if fork.name == "gloas":
        exits, activations = fork.get_exit_churn_limit(state), fork.get_activation_churn_limit(state)
        churn = 2 * exits // 3 + activations // 3 + fork.get_consolidation_churn_limit(state)
        return compute_period_by_balance(fork.config, total, churn)
    active = len(fork.get_active_validator_indices(state, fork.get_current_epoch(state)))
    churn = fork.get_validator_churn_limit(state)
    return compute_period_by_count(fork.preset, fork.config, active, total, churn)


def compute_period_by_count(
    preset: Preset, config: Config, active: int, total: Gwei, churn_limit: int
) -> Epoch:
    """The period of phase0 up to deneb, where `churn_limit` validators may come and go in an epoch.

    `active` validators have `total` Gwei of effective balance between them.
    """
    if active == 0:
        raise InvalidTransition("No validator is active: there is no weak-subjectivity period.")
    average, most = total // active // ETH_TO_GWEI, preset.MAX_EFFECTIVE_BALANCE // ETH_TO_GWEI
    top_ups = preset.MAX_DEPOSITS * preset.SLOTS_PER_EPOCH
    period: int = config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY
    low, high = 200 + 3 * SAFETY_DECAY, 200 + 12 * SAFETY_DECAY
    if average * high > most * low:
        by_churn = active * (average * high - most * low) // (600 * churn_limit * (2 * average + most))
        return period + max(by_churn, active * low // (600 * top_ups))
    return period + 3 * active * SAFETY_DECAY * average // (200 * top_ups * (most - average))


def compute_period_by_balance(config: Config, total: Gwei, churn_limit: Gwei) -> Epoch:
    """The period from electra on, where `churn_limit` Gwei of `total` may move in an epoch."""
    delay: int = config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY
    return delay + SAFETY_DECAY * total // (2 * churn_limit * 100)


def is_within_weak_subjectivity_period(
    fork: Any, state: Any, checkpoint: Checkpoint, current_slot: Slot
) -> bool:
    """Whether a checkpoint, whose state this is, can still be trusted in `current_slot`.

    Raises InvalidTransition when the state is not the checkpoint's.
    """
    epoch, root = fork.get_current_epoch(state), get_checkpoint_root(fork, state)
    if epoch != checkpoint.epoch or root != checkpoint.root:
        raise InvalidTransition(
            f"The state stands at {root.hex()}:{epoch}, not at the checkpoint "
            f"{checkpoint.root.hex()}:{checkpoint.epoch}."
        )
    period = compute_weak_subjectivity_period(fork, state)
    return fork.compute_epoch_at_slot(current_slot) <= epoch + period  # type: ignore[no-any-return]


def get_checkpoint_root(fork: Any, state: Any) -> Root:
    """The root of the newest block at or before the start of the state's epoch."""
    start = fork.compute_start_slot_at_epoch(fork.get_current_epoch(state))
    if start < state.slot:
        return fork.get_block_root_at_slot(state, start)  # type: ignore[no-any-return]
    return fork.get_latest_block_root(state)  # type: ignore[no-any-return]


# Age, as a verifier judges it (rule 21): from the proven slot or timestamp, never from a claimed epoch.


def compute_expiry_by_slot(
    slot: Slot, period: Epoch, genesis_time: int, seconds_per_slot: int, slots_per_epoch: int
) -> int:
    """The Unix time from which a state of `slot` is too old, where slots pass by the wall clock."""
    last_epoch = slot // slots_per_epoch + period
    return genesis_time + (last_epoch + 1) * slots_per_epoch * seconds_per_slot


def compute_expiry_by_timestamp(
    timestamp: int, period: Epoch, seconds_per_slot: int, slots_per_epoch: int
) -> int:
    """The Unix time from which a state is too old, where slots pass only when blocks are made.

    A slot then counts for its nominal `seconds_per_slot`.
    """
    return timestamp + period * slots_per_epoch * seconds_per_slot


def compute_expiry(state: Any, slots_per_epoch: int) -> int:
    """The Unix time from which a checkpoint with this state of a ledger is too old to be trusted."""
    network = state.network
    period, seconds = network.weak_subjectivity_period, network.seconds_per_slot
    if network.clock == LOGICAL_CLOCK:
        return compute_expiry_by_timestamp(state.timestamp, period, seconds, slots_per_epoch)
    return compute_expiry_by_slot(state.slot, period, state.genesis_time, seconds, slots_per_epoch)
