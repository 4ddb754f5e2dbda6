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
"""Slots that a message waits for a block."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message that waits."""

    message: Message
    peer: PeerId | None
    since: int
    """Slot."""


class Waiting:
    """By what they wait for: a slot's number, or a block's root."""

    def __init__(self) -> None:
        self._held: dict[int | bytes, list[Held]] = {}
        self._count = self._blocks = 0
        self._of_peer = Counter[Hashable]()

    def __len__(self) -> int:
        return self._count

    def hold(self, message: Message, peer: PeerId | None, until: int | bytes, now: int) -> None:
        """Keeps a message until slot or block `until`, if there is room. `now` is the current slot."""
        is_block = message.kind == Kind.BLOCK
        if self._count >= MAX_WAITING or self._of_peer[peer] >= MAX_OF_PEER:
            return
        if is_block and self._blocks >= MAX_WAITING_BLOCKS:
            return
        held = self._held.setdefault(until, [])
        if any(other.message.value == message.value for other in held):
            return
        held.append(Held(message, peer, now))
        self._account(message, peer, 1)

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
            self._account(held.message, held.peer, -1)
        return taken

    def _account(self, message: Message, peer: PeerId | None, change: int) -> None:
        self._count += change
        self._blocks += change * (message.kind == Kind.BLOCK)
        self._of_peer[peer] += change
        if not self._of_peer[peer]:
            del self._of_peer[peer]
