"""Checks of the passage from one fork to the next (tests/formats/forks, tests/formats/transition)."""

from __future__ import annotations

from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference
from anchor.consensus.vectors.rules import FORKS, get_rules
from anchor.consensus.vectors.states import Rules, State, expect_post, read_block, read_state
from anchor.errors import InvalidTransition


def check_fork(case: Case) -> Difference | None:
    """A state of the fork before, upgraded."""
    post = case.meta["fork"]
    before, after = get_rules(case, _get_previous(post)), get_rules(case, post)
    return expect_post(case, after, lambda: after.upgrade(read_state(case, before, "pre")))


def check_transition(case: Case) -> Difference | None:
    """Blocks before the fork, the upgrade at its epoch, and blocks after it."""
    post, epoch = case.meta["post_fork"], case.meta["fork_epoch"]
    schedule = {f"{post.upper()}_FORK_EPOCH": epoch}
    before, after = get_rules(case, _get_previous(post), **schedule), get_rules(case, post, **schedule)
    blocks_before = case.meta.get("fork_block", -1) + 1

    def run() -> State:
        state = read_state(case, before, "pre")
        for number in range(blocks_before):
            state = before.state_transition(state, read_block(case, before, number))
        before.process_slots(state, before.compute_start_slot_at_epoch(epoch))
        state = after.upgrade(state)
        for number in range(blocks_before, case.meta["blocks_count"]):
            state = _apply_block(after, state, read_block(case, after, number))
        return state

    return expect_post(case, after, run)


def _apply_block(rules: Rules, state: State, signed_block: object) -> State:
    """The state after a block, which may stand at the very slot of the upgrade."""
    block = signed_block.message  # type: ignore[attr-defined]
    if block.slot != state.slot:
        return rules.state_transition(state, signed_block)
    rules.verify_block_signature(state, signed_block)
    rules.process_block(state, block)
    if rules.hash_tree_root(state) != block.state_root:
        raise InvalidTransition(f"The block of slot {block.slot} leads to another state than it claims.")
    return state


def _get_previous(fork: str) -> str:
    return FORKS[FORKS.index(fork) - 1]
