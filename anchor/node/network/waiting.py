"""Messages that came too early: kept, within bounds, until their slot begins or their block arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable
from dataclasses import dataclass
from typing import Final

from anchor.node.network.messages import Kind, Message
from anchor.node.network.outbox import PeerId

MAX_WAITING: Final = 512
MAX_WAITING_BLOCKS: Final = 32
"""Each may have a megabyte."""
MAX_OF_PEER: Final = 128
"""So that no peer takes all the room."""
PATIENCE: Final = 16
"""Slots that a message waits at most."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message that waits, or may have to."""

    message: Message
    peer: PeerId | None
    since: int
    """Slot in which it came."""


class Waiting:
    """By what they wait for: a slot's number, or a block's root."""

    def __init__(self) -> None:
        self._held: dict[int | bytes, list[Held]] = {}
        self._count = self._blocks = 0
        self._of_peer = Counter[Hashable]()

    def __len__(self) -> int:
        return self._count

    def hold(self, held: Held, until: int | bytes, now: int) -> None:
        """Keeps a message until slot or block `until`, if it has not waited too long, and there is room."""
        if held.since + PATIENCE < now or not self._has_room(held):
            return
        others = self._held.setdefault(until, [])
        if all(other.message.value != held.message.value for other in others):
            others.append(held)
            self._account(held, 1)

    def _has_room(self, held: Held) -> bool:
        is_block = held.message.kind == Kind.BLOCK
        return (
            self._count < MAX_WAITING
            and self._of_peer[held.peer] < MAX_OF_PEER
            and not (is_block and self._blocks >= MAX_WAITING_BLOCKS)
        )

    def has_block_for(self, root: bytes) -> bool:
        """Whether a block waits for block `root`."""
        return any(held.message.kind == Kind.BLOCK for held in self._held.get(root, ()))

    def take_slot(self, slot: int) -> list[Held]:
        """What waited for `slot`, or an earlier one."""
        due = [until for until in self._held if isinstance(until, int) and until <= slot]
        return [held for until in sorted(due) for held in self._take(until)]

    def take_known(self, blocks: Container[object]) -> list[Held]:
        """What waited for one of `blocks`."""
        return [held for until in list(self._held) if until in blocks for held in self._take(until)]

    def drop_late(self, slot: int) -> None:
        """Forgets what has waited too long for a block."""
        for until, held in list(self._held.items()):
            if held[0].since + PATIENCE < slot:
                self._take(until)

    def _take(self, until: int | bytes) -> list[Held]:
        taken = self._held.pop(until, [])
        for held in taken:
            self._account(held, -1)
        return taken

    def _account(self, held: Held, change: int) -> None:
        self._count += change
        self._blocks += change * (held.message.kind == Kind.BLOCK)
        self._of_peer[held.peer] += change
        if not self._of_peer[held.peer]:
            del self._of_peer[held.peer]
