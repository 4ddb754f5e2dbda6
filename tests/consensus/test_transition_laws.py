"""Laws of the state transition: what a refused block leaves, copies, repetition, forks."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.consensus.bls import Bls
from anchor.consensus.containers.electra import PendingConsolidation
from anchor.consensus.forks.altair import Altair
from anchor.consensus.forks.phase0 import Phase0
from anchor.consensus.forks.phase0.block import MAX_EMPTY_SLOTS
from anchor.consensus.forks.schedule import FORKS, ForkSchedule
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.errors import InvalidTransition, Misuse
from tests.consensus.samples import RULES, get_chain

EVERY_FORK = list(RULES)


def encode(fork: str, state: Any) -> bytes:
    return RULES[fork].scope.encode(state)  # type: ignore[no-any-return]


def change(block: Any, **changes: Any) -> Any:
    return block.replace(message=block.message.replace(**changes))


@pytest.mark.parametrize("fork", EVERY_FORK)
def test_refused_block_changes_nothing(fork: str) -> None:
    rules = RULES[fork]
    for state, block in get_chain(fork):
        before, root = encode(fork, state), rules.hash_tree_root(state)
        for wrong in (
            change(block, state_root=bytes(32)),
            change(block, parent_root=bytes(32)),
            change(block, proposer_index=block.message.proposer_index + 1),
            change(block, proposer_index=2**64 - 1),
            change(block, slot=state.slot),
            change(block, slot=2**64 - 1),
        ):
            with pytest.raises(InvalidTransition):
                rules.state_transition(state, wrong)
        assert encode(fork, state) == before
        assert rules.hash_tree_root(state) == root


@pytest.mark.parametrize("fork", EVERY_FORK)
def test_transition_is_a_function_of_its_arguments(fork: str) -> None:
    fresh = type(RULES[fork])(MINIMAL, MINIMAL_CONFIG, RULES[fork].signatures)
    schema = fresh.scope.schema("BeaconState")
    for state, block in get_chain(fork):
        again = schema.decode(encode(fork, state))  # knows nothing of roots computed before
        results = [rules.state_transition(s, block) for rules in (RULES[fork], fresh) for s in (state, again)]
        encodings = {encode(fork, result) for result in results}
        assert len(encodings) == 1
        kept = RULES[fork].hash_tree_root(results[0])
        assert kept == schema.hash_tree_root(schema.decode(encodings.pop())) == block.message.state_root


@pytest.mark.parametrize("fork", EVERY_FORK)
def test_copies_are_independent(fork: str) -> None:
    state, block = get_chain(fork)[-1]
    before = encode(fork, state)
    copy = state.copy()
    RULES[fork].process_slots(copy, block.message.slot)
    RULES[fork].process_block(copy, block.message)
    RULES[fork].process_epoch(copy)
    assert encode(fork, state) == before
    assert encode(fork, copy) != before


def test_signatures_are_checked() -> None:
    rules = Altair(MINIMAL, MINIMAL_CONFIG, Bls())
    state, block = get_chain("altair")[0]
    rules.state_transition(state, block)
    with pytest.raises(InvalidTransition, match="block of slot"):
        rules.state_transition(state, block.replace(signature=block.message.body.randao_reveal))
    body = block.message.body.replace(randao_reveal=block.signature)
    with pytest.raises(InvalidTransition, match="randao"):
        rules.state_transition(state, change(block, body=body), validate_result=False)


def test_distant_block_is_refused_before_any_work() -> None:
    state, block = get_chain("phase0")[0]
    with pytest.raises(InvalidTransition, match="too far ahead"):
        RULES["phase0"].state_transition(state, change(block, slot=state.slot + MAX_EMPTY_SLOTS + 1))


@pytest.mark.parametrize("fork", ["electra", "fulu", "gloas"])
@pytest.mark.parametrize("pair", [(0, 64), (64, 0)])
def test_consolidation_with_nobody_is_refused(fork: str, pair: tuple[int, int]) -> None:
    """A state that names a validator who is not there is refused by the rule, and does not crash."""
    state = get_chain(fork)[0][0].copy()
    state.validators[0] = state.validators[0].replace(withdrawable_epoch=0)
    state.pending_consolidations = [PendingConsolidation(source_index=pair[0], target_index=pair[1])]
    with pytest.raises(InvalidTransition, match="There is no validator 64"):
        RULES[fork].process_pending_consolidations(state)


def test_upgrades_follow_each_other_at_one_epoch() -> None:
    epochs = {f"{kind.name.upper()}_FORK_EPOCH": 3 for kind in FORKS[1:]}
    schedule = ForkSchedule(MINIMAL, MINIMAL_CONFIG.replace(**epochs), RULES["phase0"].signatures)
    first, _ = get_chain("phase0")[0]
    start = 3 * MINIMAL.SLOTS_PER_EPOCH
    state = schedule.process_slots(first.copy(), start)
    assert schedule.get_fork_of(state).name == "gloas"
    assert schedule.get_fork_at_slot(start - 1).name == "phase0"
    assert schedule.get_fork_at_slot(start).name == "gloas"
    assert state.fork.previous_version == MINIMAL_CONFIG.FULU_FORK_VERSION
    assert schedule.process_slots(state, start + 1).slot == start + 1


def test_block_in_the_form_of_another_fork_is_refused() -> None:
    epochs = {"ALTAIR_FORK_EPOCH": 3}
    schedule = ForkSchedule(MINIMAL, MINIMAL_CONFIG.replace(**epochs), RULES["phase0"].signatures)
    state, block = get_chain("phase0")[0]
    assert schedule.state_transition(state, block).slot == block.message.slot
    with pytest.raises(InvalidTransition, match="not in the form of altair"):
        schedule.state_transition(state, change(block, slot=3 * MINIMAL.SLOTS_PER_EPOCH))


def test_schedule_refuses_other_networks() -> None:
    schedule = ForkSchedule(MINIMAL, MINIMAL_CONFIG, RULES["phase0"].signatures)
    state, _ = get_chain("altair")[0]
    with pytest.raises(Misuse, match="no fork of version"):
        schedule.process_slots(state.copy(), state.slot + 1)
    with pytest.raises(Misuse, match="No fork comes before phase0"):
        Phase0(MINIMAL, MINIMAL_CONFIG, Bls()).upgrade(state)
