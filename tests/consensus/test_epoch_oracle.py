"""Epoch processing in arrays against the naive oracle, over random registries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from anchor.consensus.forks.phase0 import Phase0
from anchor.errors import InvalidTransition
from anchor.params import TIMELY_TARGET_FLAG_INDEX
from tests.consensus.registries import ALTAIR, ELECTRA, PHASE0, phase0_states, states
from tests.oracles import naive_epoch as naive
from tests.oracles.naive_epoch import Overflow, Registry


def check(
    rules: Phase0, state: Any, step: str, oracle: Callable[[Registry], Any], read: Callable[[Any], Any]
) -> None:
    """The step does what the oracle does, and refuses what no uint64 holds."""
    registry = Registry(rules, state.copy())
    try:
        expected = oracle(registry)
    except Overflow:
        with pytest.raises(InvalidTransition):
            getattr(rules, step)(state)
        return
    getattr(rules, step)(state)
    assert read(state) == expected


def get_balances(state: Any) -> list[int]:
    return state.balances.array.tolist()  # type: ignore[no-any-return]


def get_validators(state: Any) -> list[Any]:
    return list(state.validators)


@given(phase0_states())
def test_phase0_rewards(state: Any) -> None:
    check(PHASE0, state, "process_rewards_and_penalties", naive.process_phase0_rewards, get_balances)


@given(states(ALTAIR))
def test_altair_rewards(state: Any) -> None:
    check(ALTAIR, state, "process_rewards_and_penalties", naive.process_altair_rewards, get_balances)


@given(states(ELECTRA))
def test_electra_rewards(state: Any) -> None:
    check(ELECTRA, state, "process_rewards_and_penalties", naive.process_altair_rewards, get_balances)


@given(states(ALTAIR))
def test_inactivity_scores(state: Any) -> None:
    oracle = naive.process_inactivity_updates
    check(ALTAIR, state, "process_inactivity_updates", oracle, lambda s: s.inactivity_scores.array.tolist())


@pytest.mark.parametrize("rules", [PHASE0, ELECTRA], ids=["phase0", "electra"])
def test_slashings(rules: Phase0) -> None:
    @given(states(rules))
    def run(state: Any) -> None:
        check(rules, state, "process_slashings", naive.process_slashings, get_balances)

    run()


@pytest.mark.parametrize("rules", [PHASE0, ELECTRA], ids=["phase0", "electra"])
def test_effective_balances(rules: Phase0) -> None:
    @given(states(rules))
    def run(state: Any) -> None:
        oracle = naive.process_effective_balance_updates
        step = "process_effective_balance_updates"
        check(rules, state, step, oracle, lambda s: [v.effective_balance for v in s.validators])

    run()


@given(states(PHASE0))
def test_registry_by_heads(state: Any) -> None:
    check(PHASE0, state, "process_registry_updates", naive.process_registry_updates, get_validators)


@given(states(ELECTRA))
def test_registry_by_stake(state: Any) -> None:
    oracle = naive.process_electra_registry_updates
    check(ELECTRA, state, "process_registry_updates", oracle, get_validators)


@given(states(ALTAIR))
def test_justification_sums(state: Any) -> None:
    registry = Registry(ALTAIR, state)
    expected = [
        registry.get_total(naive.get_participating(registry, TIMELY_TARGET_FLAG_INDEX, epoch))
        for epoch in (registry.previous, registry.epoch)
    ]
    assert list(ALTAIR.get_target_balances(state)) == expected
    assert ALTAIR.get_total_active_balance(state) == registry.get_total_active()
