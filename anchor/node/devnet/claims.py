"""What a scenario claims of a devnet: each looks until it holds, or until its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from anchor.errors import Unavailable
from anchor.node.devnet.plan import Plan
from anchor.node.devnet.sight import Sight, get_answering, list_validators, look

STEP: Final = 0.25
"""Seconds between two looks."""
GRACE_EPOCHS: Final = 2
"""Epochs for which finality may go on after its support is gone: what was voted for is still counted."""


class Failed(Exception):
    """A claim that did not hold, with what was seen."""


Look = Callable[[], list[Sight]]


def _wait(seconds: float, holds: Callable[[], bool], words: Callable[[], str]) -> None:
    """Raises Failed unless `holds` within so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(words())
        time.sleep(STEP)


def finalizes(plan: Plan, within: float) -> str:
    """Every node that answers sees a newer final checkpoint than any did before."""
    before = get_final_epoch(plan)

    def seen() -> int:
        return min([sight.final_epoch for sight in get_answering(look(plan))], default=-1)

    _wait(within, lambda: seen() > before, lambda: f"final: epoch {seen()}, as before ({before})")
    return f"epoch {seen()} is final on every node"


def stalls(plan: Plan, seconds: float, epoch_seconds: float) -> str:
    """Nothing becomes final for so many seconds, once what was voted for before is counted."""
    time.sleep(GRACE_EPOCHS * epoch_seconds)
    before = get_final_epoch(plan)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (now := get_final_epoch(plan)) > before:
            raise Failed(f"epoch {now} became final, after epoch {before}")
        time.sleep(STEP)
    return f"nothing after epoch {before} became final"


def agree(plan: Plan, within: float) -> str:
    """All nodes have one head and one final checkpoint."""

    def seen() -> set[tuple[str, str]]:
        return {(sight.head, sight.final_root) for sight in get_answering(look(plan))}

    _wait(within, lambda: len(seen()) == 1, lambda: f"there are {len(seen())} heads with their final blocks")
    return "one head, one final checkpoint"


def slashed(plan: Plan, number: int, within: float) -> str:
    """Every other node that answers has some validator of this node as slashed."""
    culprit = plan.get_member(number)
    own = range(culprit.first, culprit.first + culprit.validators)
    others = [member for member in plan.members if member.number != number]

    def count() -> list[int]:
        found = []
        for member in others:
            try:
                registry = list_validators(member)
            except Unavailable:
                continue  # it is not running: it can't say
            found.append(sum([registry[index]["slashed"] for index in own]))
        return found

    _wait(within, lambda: min(count(), default=0) > 0, lambda: f"slashed, node by node: {count()}")
    return f"of node {number}'s validators, slashed: {min(count())}"


def get_final_epoch(plan: Plan) -> int:
    """The newest epoch that is final on any node."""
    return max([sight.final_epoch for sight in get_answering(look(plan))], default=-1)
