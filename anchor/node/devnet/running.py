"""Running a scenario: each step is done, or looked for, and told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from anchor.errors import AnchorError
from anchor.node.devnet import claims, using
from anchor.node.devnet.control import Control
from anchor.node.devnet.scenario import Scenario, Step


class Result(NamedTuple):
    """What became of a step."""

    step: Step
    holds: bool
    words: str
    seconds: float


def run(control: Control, scenario: Scenario) -> Iterator[Result]:
    """Runs the steps in order, and ends after the first that does not hold."""
    for step in scenario.steps:
        start = time.monotonic()
        try:
            words, holds = VERBS[step.verb](control, **_name(step)), True
        except claims.Failed as failure:
            words, holds = str(failure), False
        except AnchorError as error:
            words, holds = error.what, False
        yield Result(step, holds, words or "done", time.monotonic() - start)
        if not holds:
            return


def _name(step: Step) -> dict[str, Any]:
    """The step's values under names that Python takes."""
    return {{"for": "seconds"}.get(name, name): value for name, value in step.values.items()}


def _sleep(control: Control, seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _stalls(control: Control, seconds: float) -> str:
    return claims.stalls(control.plan, seconds, control.epoch_seconds)


VERBS: dict[str, Callable[..., str]] = {
    "kill": Control.kill,
    "start": Control.start,
    "partition": Control.partition,
    "heal": Control.heal,
    "equivocate": Control.equivocate,
    "skew": Control.skew,
    "join": Control.join,
    "publish": using.publish,
    "verifies": using.verify,
    "sleep": _sleep,
    "finalizes": lambda control, within: claims.finalizes(control.plan, within),
    "stalls": _stalls,
    "agree": lambda control, within: claims.agree(control.plan, within),
    "slashed": lambda control, node, within: claims.slashed(control.plan, node, within),
}
"""What each verb of STEPS does. Answers in words; raises Failed, or an error of the tree."""
