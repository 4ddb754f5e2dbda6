"""What several endpoints say is final: counted over all of them, and never stronger than the user's own root.

Two roots at one epoch mean that someone lies or that finality has split: that stops a sync, and is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint
from anchor.errors import InvalidCheckpoint, Misuse, Unavailable
from anchor.files import write_new

SCHEMA: Final = "anchor-conflict/1"
UNVERIFIED: Final = "unverified trust: only what the endpoints say"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one endpoint says."""

    label: str
    """The endpoint, as it may be shown."""
    finalized: Checkpoint | None
    """None where it said nothing."""
    problem: str = ""
    """Why."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two roots at one epoch."""

    epoch: int
    claims: dict[str, bytes]
    """Who says which."""

    def describe(self) -> str:
        """In words, one endpoint after the other."""
        told = ", ".join([f"{label} says 0x{root.hex()}" for label, root in self.claims.items()])
        return f"At epoch {self.epoch} {told}"


def count_agreement(claims: Sequence[Claim]) -> list[tuple[Checkpoint, int]]:
    """How many endpoints say each checkpoint; most first, then newest."""
    counts = Counter([claim.finalized for claim in claims if claim.finalized is not None])
    return sorted(counts.items(), key=lambda item: (item[1], item[0].epoch), reverse=True)


def find_conflict(claims: Sequence[Claim], trusted: Checkpoint | None = None) -> Conflict | None:
    """The newest epoch at which two roots are claimed, one of them perhaps the user's own."""
    told: dict[int, dict[str, bytes]] = {}
    if trusted is not None:
        told[trusted.epoch] = {"the trusted checkpoint": trusted.root}
    for claim in claims:
        if claim.finalized is not None:
            told.setdefault(claim.finalized.epoch, {})[claim.label] = claim.finalized.root
    split = [epoch for epoch, roots in told.items() if len(set(roots.values())) > 1]
    return Conflict(max(split), told[max(split)]) if split else None


def drop_refuted(claims: Sequence[Claim], trusted: Checkpoint) -> set[str]:
    """The endpoints that contradict the user's own root: nothing of theirs is used."""
    return {
        claim.label
        for claim in claims
        if claim.finalized is not None
        and claim.finalized.epoch == trusted.epoch
        and claim.finalized.root != trusted.root
    }


def choose_unverified(claims: Sequence[Claim]) -> Checkpoint:
    """What most endpoints say, for a user who accepts that. Raises Unavailable, InvalidCheckpoint."""
    agreement = count_agreement(claims)
    if not agreement:
        problems = "; ".join([claim.problem for claim in claims])
        raise Unavailable(f"No endpoint says what is final: {problems}")
    return agreement[0][0]


def require_no_conflict(conflict: Conflict | None, kept: Path | None) -> None:
    """Raises InvalidCheckpoint for a conflict. `kept` is where the evidence is."""
    if conflict is None:
        return
    where = f" This is kept in {kept}." if kept else ""
    raise InvalidCheckpoint(
        f"The endpoints contradict each other: {conflict.describe()}.{where}",
        fix="Find out which is right by other means; a majority proves nothing.",
    )


def keep_conflict(folder: Path, conflict: Conflict, now: float) -> Path:
    """Writes a conflict to a file of its own in `folder`. Raises Unavailable."""
    roots = b"".join(sorted(set(conflict.claims.values())))
    path = folder / f"conflict-{conflict.epoch}-{roots[:4].hex()}-{roots[32:36].hex()}.json"
    if not path.exists():
        write_new(path, json.dumps(_to_json(conflict, now), indent=2).encode() + b"\n")
    return path


def _to_json(conflict: Conflict, now: float) -> dict[str, Any]:
    claims = {
        label: format_checkpoint(Checkpoint(epoch=conflict.epoch, root=root))
        for label, root in conflict.claims.items()
    }
    return {"schema": SCHEMA, "epoch": conflict.epoch, "seen_at": int(now), "claims": claims}


def describe_claims(claims: Sequence[Claim]) -> list[str]:
    """A line for every checkpoint that is claimed, and for every endpoint that is silent."""
    asked = len(claims)
    lines = [f"{format_checkpoint(known)}  {count} of {asked}" for known, count in count_agreement(claims)]
    return lines + [claim.problem for claim in claims if claim.finalized is None]


def require_choice(claims: Sequence[Claim]) -> None:
    """Raises Misuse: nothing is trusted, and what endpoints say is not enough to go on."""
    told = "; ".join(describe_claims(claims))
    raise Misuse(
        f"No checkpoint is trusted. The endpoints say ({UNVERIFIED}): {told}.",
        fix="Compare with sources of your own and give --trust root:epoch (or accept it with --unverified).",
    )
