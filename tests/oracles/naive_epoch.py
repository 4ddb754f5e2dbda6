"""Epoch processing one validator at a time, in Python's integers, as the specification's loops have it.

An oracle for the array arithmetic of `anchor.consensus.forks`. A number beyond 64 bits raises Overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

FAR_FUTURE_EPOCH = 2**64 - 1
WEIGHTS = (14, 26, 14)
TARGET, HEAD = 1, 2


class Overflow(Exception):
    """A number that is no uint64."""


def u64(number: int) -> int:
    if not 0 <= number < 2**64:
        raise Overflow(number)
    return number


@dataclass
class Registry:
    """A state's validators and their numbers in plain lists, under a fork's constants."""

    rules: Any
    state: Any

    def __post_init__(self) -> None:
        state, preset = self.state, self.rules.preset
        self.validators = list(state.validators)
        self.balances: list[int] = state.balances.array.tolist()
        self.increment: int = preset.EFFECTIVE_BALANCE_INCREMENT
        self.epoch: int = state.slot // preset.SLOTS_PER_EPOCH
        self.previous: int = max(self.epoch, 1) - 1
        delay = self.previous - state.finalized_checkpoint.epoch
        self.delay: int = delay
        self.leak: bool = delay > preset.MIN_EPOCHS_TO_INACTIVITY_PENALTY

    def is_active(self, index: int, epoch: int) -> bool:
        validator = self.validators[index]
        return validator.activation_epoch <= epoch < validator.exit_epoch

    def get_total(self, indices: Any) -> int:
        return max(self.increment, u64(sum(self.validators[i].effective_balance for i in indices)))

    def get_active(self, epoch: int) -> list[int]:
        return [i for i in range(len(self.validators)) if self.is_active(i, epoch)]

    def get_total_active(self) -> int:
        return self.get_total(self.get_active(self.epoch))

    def get_eligible(self) -> list[int]:
        eligible = []
        for index, validator in enumerate(self.validators):
            leaving = validator.slashed and self.previous + 1 < validator.withdrawable_epoch
            if self.is_active(index, self.previous) or leaving:
                eligible.append(index)
        return eligible

    def change_balances(self, rewards: list[int], penalties: list[int]) -> None:
        for index in range(len(self.balances)):
            raised = u64(self.balances[index] + rewards[index])
            self.balances[index] = max(raised - penalties[index], 0)


def get_participating(registry: Registry, flag: int, epoch: int) -> set[int]:
    """Altair: who was active, earned the flag and isn't slashed."""
    state = registry.state
    current = epoch == registry.epoch
    flags = list(state.current_epoch_participation if current else state.previous_epoch_participation)
    return {
        index
        for index in registry.get_active(epoch)
        if flags[index] >> flag & 1 and not registry.validators[index].slashed
    }


def process_altair_rewards(registry: Registry) -> list[int]:
    """The balances after altair's rewards and penalties."""
    if registry.epoch == 0:
        return registry.balances
    deltas = [get_flag_deltas(registry, flag) for flag in range(3)]
    for rewards, penalties in [*deltas, get_inactivity_deltas(registry)]:
        registry.change_balances(rewards, penalties)
    return registry.balances


def get_flag_deltas(registry: Registry, flag: int) -> tuple[list[int], list[int]]:
    rewards, penalties = [0] * len(registry.balances), [0] * len(registry.balances)
    present = get_participating(registry, flag, registry.previous)
    increment, total = registry.increment, registry.get_total_active()
    per_increment = increment * registry.rules.preset.BASE_REWARD_FACTOR // isqrt(total)
    present_increments = registry.get_total(present) // increment
    for index in registry.get_eligible():
        base = registry.validators[index].effective_balance // increment * per_increment
        if index in present:
            if not registry.leak:
                numerator = u64(u64(base * WEIGHTS[flag]) * present_increments)
                rewards[index] = numerator // (total // increment * 64)
        elif flag != HEAD:
            penalties[index] = u64(base * WEIGHTS[flag]) // 64
    return rewards, penalties


def get_inactivity_deltas(registry: Registry) -> tuple[list[int], list[int]]:
    penalties = [0] * len(registry.balances)
    present = get_participating(registry, TARGET, registry.previous)
    rules, scores = registry.rules, list(registry.state.inactivity_scores)
    for index in registry.get_eligible():
        if index not in present:
            numerator = u64(registry.validators[index].effective_balance * scores[index])
            quotient = rules.config.INACTIVITY_SCORE_BIAS * rules.inactivity_penalty_quotient
            penalties[index] = numerator // quotient
    return [0] * len(penalties), penalties


def process_inactivity_updates(registry: Registry) -> list[int]:
    """The inactivity scores after altair's update."""
    scores, config = list(registry.state.inactivity_scores), registry.rules.config
    if registry.epoch == 0:
        return scores
    present = get_participating(registry, TARGET, registry.previous)
    for index in registry.get_eligible():
        if index in present:
            scores[index] -= min(1, scores[index])
        else:
            scores[index] = u64(scores[index] + config.INACTIVITY_SCORE_BIAS)
        if not registry.leak:
            scores[index] -= min(config.INACTIVITY_SCORE_RECOVERY_RATE, scores[index])
    return scores


def get_pending_voters(registry: Registry, pending: Any) -> list[int]:
    """Phase0: the voters of a pending attestation."""
    committee = registry.rules.get_beacon_committee(registry.state, pending.data.slot, pending.data.index)
    return [int(i) for i, bit in zip(committee, pending.aggregation_bits, strict=True) if bit]


def process_phase0_rewards(registry: Registry) -> list[int]:
    """The balances after phase0's rewards and penalties."""
    if registry.epoch == 0:
        return registry.balances
    rules, state, count = registry.rules, registry.state, len(registry.balances)
    rewards, penalties = [0] * count, [0] * count
    total, factor = registry.get_total_active(), rules.preset.BASE_REWARD_FACTOR
    base = [v.effective_balance * factor // isqrt(total) // 4 for v in registry.validators]
    source = list(state.previous_epoch_attestations)
    root = rules.get_block_root(state, registry.previous)
    target = [a for a in source if a.data.target.root == root]
    head = [a for a in target if a.data.beacon_block_root == rules.get_block_root_at_slot(state, a.data.slot)]
    voters = [
        {i for a in part for i in get_pending_voters(registry, a) if not registry.validators[i].slashed}
        for part in (source, target, head)
    ]
    for index in registry.get_eligible():
        for present in voters:
            if index not in present:
                penalties[index] += base[index]
            elif registry.leak:
                rewards[index] += base[index]
            else:
                numerator = base[index] * (registry.get_total(present) // registry.increment)
                rewards[index] += numerator // (total // registry.increment)
        if registry.leak:
            proposer_part = base[index] // rules.preset.PROPOSER_REWARD_QUOTIENT
            penalties[index] += 4 * base[index] - proposer_part
            if index not in voters[1]:
                leaked = registry.validators[index].effective_balance * registry.delay
                penalties[index] += leaked // rules.preset.INACTIVITY_PENALTY_QUOTIENT
    for index in voters[0]:
        mine = [a for a in source if index in get_pending_voters(registry, a)]
        first = min(mine, key=lambda a: a.inclusion_delay)
        proposer_part = base[index] // rules.preset.PROPOSER_REWARD_QUOTIENT
        rewards[first.proposer_index] += proposer_part
        rewards[index] += (base[index] - proposer_part) // first.inclusion_delay
    registry.change_balances(rewards, penalties)
    return registry.balances


def process_slashings(registry: Registry) -> list[int]:
    """The balances after the penalties of the slashed; electra divides in another order."""
    rules, total, increment = registry.rules, registry.get_total_active(), registry.increment
    slashed = u64(sum(registry.state.slashings))
    adjusted = min(slashed * rules.proportional_slashing_multiplier, total)
    due = registry.epoch + rules.preset.EPOCHS_PER_SLASHINGS_VECTOR // 2
    for index, validator in enumerate(registry.validators):
        if validator.slashed and validator.withdrawable_epoch == due:
            increments = validator.effective_balance // increment
            if hasattr(rules, "get_balance_churn_limit"):
                penalty = adjusted // (total // increment) * increments
            else:
                penalty = u64(increments * adjusted) // total * increment
            registry.balances[index] = max(registry.balances[index] - penalty, 0)
    return registry.balances


def process_effective_balance_updates(registry: Registry) -> list[int]:
    """The effective balances after the update."""
    preset, updated = registry.rules.preset, []
    step = registry.increment // preset.HYSTERESIS_QUOTIENT
    for validator, balance in zip(registry.validators, registry.balances, strict=True):
        effective = validator.effective_balance
        fallen = u64(balance + step * preset.HYSTERESIS_DOWNWARD_MULTIPLIER) < effective
        risen = u64(effective + step * preset.HYSTERESIS_UPWARD_MULTIPLIER) < balance
        if fallen or risen:
            limit = registry.rules.get_max_effective_balance(validator.withdrawal_credentials)
            effective = min(balance - balance % registry.increment, limit)
        updated.append(effective)
    return updated


def process_registry_updates(registry: Registry) -> list[Any]:
    """The validators after activations and ejections, by heads (phase0 to deneb)."""
    rules, validators, epoch = registry.rules, registry.validators, registry.epoch
    churn = rules.get_validator_churn_limit(registry.state)
    later = epoch + 1 + rules.preset.MAX_SEED_LOOKAHEAD
    for index, validator in enumerate(validators):
        full = validator.effective_balance == rules.preset.MAX_EFFECTIVE_BALANCE
        if validator.activation_eligibility_epoch == FAR_FUTURE_EPOCH and full:
            validators[index] = validators[index].replace(activation_eligibility_epoch=epoch + 1)
        if registry.is_active(index, epoch) and validator.effective_balance <= rules.config.EJECTION_BALANCE:
            _initiate_exit(registry, index, later, churn)
    finalized = registry.state.finalized_checkpoint.epoch
    queue = [
        (validator.activation_eligibility_epoch, index)
        for index, validator in enumerate(validators)
        if validator.activation_eligibility_epoch <= finalized
        and validator.activation_epoch == FAR_FUTURE_EPOCH
    ]
    for _, index in sorted(queue)[: rules.get_validator_activation_churn_limit(registry.state)]:
        validators[index] = validators[index].replace(activation_epoch=later)
    return validators


def _initiate_exit(registry: Registry, index: int, later: int, churn: int) -> None:
    validator = registry.validators[index]
    if validator.exit_epoch != FAR_FUTURE_EPOCH:
        return
    exits = [v.exit_epoch for v in registry.validators if v.exit_epoch != FAR_FUTURE_EPOCH]
    exit_epoch = max([*exits, later])
    if exits.count(exit_epoch) >= churn:
        exit_epoch += 1
    registry.validators[index] = _leave(registry, index, exit_epoch)


def _leave(registry: Registry, index: int, exit_epoch: int) -> Any:
    delay = registry.rules.config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY
    return registry.validators[index].replace(
        exit_epoch=exit_epoch, withdrawable_epoch=u64(exit_epoch + delay)
    )


def process_electra_registry_updates(registry: Registry) -> list[Any]:
    """The validators after activations and ejections, by stake (electra)."""
    rules, validators, epoch = registry.rules, registry.validators, registry.epoch
    later = epoch + 1 + rules.preset.MAX_SEED_LOOKAHEAD
    limit = rules.get_exit_churn_limit(registry.state)
    earliest, room = registry.state.earliest_exit_epoch, registry.state.exit_balance_to_consume
    for index, validator in enumerate(validators):
        effective, since = validator.effective_balance, validator.activation_eligibility_epoch
        if since == FAR_FUTURE_EPOCH and effective >= rules.preset.MIN_ACTIVATION_BALANCE:
            validators[index] = validator.replace(activation_eligibility_epoch=epoch + 1)
        elif registry.is_active(index, epoch) and effective <= rules.config.EJECTION_BALANCE:
            if validator.exit_epoch != FAR_FUTURE_EPOCH:
                continue
            if earliest < later:
                earliest, room = later, limit
            if effective > room:
                epochs = (effective - room - 1) // limit + 1
                earliest, room = earliest + epochs, room + epochs * limit
            room -= effective
            validators[index] = _leave(registry, index, earliest)
        elif (
            since <= registry.state.finalized_checkpoint.epoch
            and validator.activation_epoch == FAR_FUTURE_EPOCH
        ):
            validators[index] = validator.replace(activation_epoch=later)
    return validators
