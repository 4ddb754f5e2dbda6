"""What a devnet is, in one file of its folder: its nodes, their places and processes, and its clock."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from anchor.errors import Misuse, Unavailable
from anchor.files import PRIVATE, read_bounded, write_over

FILE: Final = "devnet.json"
SCHEMA: Final = "anchor-devnet/1"
MAX_FILE_BYTES: Final = 1 << 20
MAX_NODES: Final = 32


@dataclass(slots=True)
class Member:
    """One node."""

    number: int
    """From 1."""
    port: int
    validators: int
    first: int
    """Index of the first of its validators in the registry."""
    join: tuple[str, str] | None = None
    """The node and the checkpoint (root:epoch) that it started from, where it joined later."""
    pid: int | None = None
    """Of its process, when it was started."""
    born: int | None = None
    """When that process started, in the system's ticks: its number may be another process's by now."""
    unheard: list[str] = field(default_factory=list)
    """Addresses of the nodes that it does not talk to: a partition."""
    skew_ms: int = 0
    """By which its clock is ahead of the devnet's."""

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(slots=True)
class Plan:
    """A devnet."""

    name: str
    seconds_per_slot: int
    token: str
    """Of the operator, for every node."""
    behind_ms: int = 0
    """By which the devnet's clock is behind the machine's: the time for which it was stopped."""
    members: list[Member] = field(default_factory=list)

    def get_member(self, number: int) -> Member:
        """The node with this number. Raises Misuse."""
        for member in self.members:
            if member.number == number:
                return member
        raise Misuse(f"There is no node {number}: they are 1 to {len(self.members)}.")


def get_node_folder(folder: Path, member: Member) -> Path:
    """Where a node keeps its ledger, and its log beside it."""
    return folder / f"node-{member.number}"


def get_log(folder: Path, member: Member) -> Path:
    """Where a node's log goes."""
    return folder / f"node-{member.number}.log"


def load_plan(folder: Path) -> Plan:
    """The devnet in `folder`. Raises Unavailable when there is none, Misuse for a file that is none."""
    path = folder / FILE
    if not path.is_file():
        raise Unavailable(f"There is no devnet in {folder}.", fix="Start one with: anchor devnet up")
    data = read_bounded(path, MAX_FILE_BYTES, "a devnet's description")
    try:
        return _decode(json.loads(data))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Misuse(f"{path} describes no devnet.", fix=f"Remove {folder}, and start another.") from None


def _decode(values: dict[str, Any]) -> Plan:
    if values.pop("schema") != SCHEMA:
        raise ValueError
    members = [_decode_member(member) for member in values.pop("members")]
    return Plan(**values, members=members)


def _decode_member(values: dict[str, Any]) -> Member:
    join = values.pop("join")
    return Member(**values, join=None if join is None else (join[0], join[1]))


def save_plan(folder: Path, plan: Plan) -> None:
    """Writes `plan` down, whole or not at all."""
    values = {"schema": SCHEMA, **asdict(plan)}
    write_over(folder / FILE, json.dumps(values, indent=2).encode() + b"\n", mode=PRIVATE)
