"""How a devnet stands: what its nodes say, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from anchor.errors import Unavailable
from anchor.node.devnet.calls import ask
from anchor.node.devnet.plan import Member, Plan
from anchor.node.devnet.processes import is_alive

PAGE: Final = 100
"""Validators that are asked for at once."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One node, as it was seen."""

    number: int
    is_alive: bool
    head: str = ""
    """Root of its newest block."""
    slot: int = 0
    """Of that block."""
    final_root: str = ""
    final_epoch: int = -1
    words: str = ""
    """Its health in words, or why it says nothing."""

    @property
    def answers(self) -> bool:
        """Whether it said how it stands."""
        return bool(self.head)


def look(plan: Plan) -> list[Sight]:
    """All nodes, in order."""
    return [look_at(member) for member in plan.members]


def look_at(member: Member) -> Sight:
    """One node."""
    if not is_alive(member):
        return Sight(member.number, False, words="it is not running")
    try:
        status = ask(member, "/anchor/v1/status")
        health = ask(member, "/health", takes=(200, 503))
    except Unavailable as error:
        return Sight(member.number, True, words=error.what)
    root, _, epoch = status["finalized"].partition(":")
    head = status["head"]
    words = health["words"]
    return Sight(member.number, True, head["root"], int(head["slot"]), root, int(epoch), words)


def get_answering(sights: Sequence[Sight]) -> list[Sight]:
    """Those that said how they stand."""
    return [sight for sight in sights if sight.answers]


def list_validators(member: Member) -> list[dict[str, Any]]:
    """The registry of a node's newest final state."""
    found: list[dict[str, Any]] = []
    while page := ask(member, f"/anchor/v1/validators?after={len(found)}&limit={PAGE}"):
        found += page
        if len(page) < PAGE:
            break
    return found
