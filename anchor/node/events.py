"""What happens to a chain, told to whoever listens: bounded memory, and nobody waits for a slow listener."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint
from anchor.errors import Unavailable
from anchor.node.reading import Found, Reader
from anchor.types import Root

TOPICS: Final = ("head", "justified", "finalized", "entry")
"""Of a ledger."""
FINALIZED_CHECKPOINT: Final = "finalized_checkpoint"
"""What the Beacon API calls a new final checkpoint."""
MAX_SUBSCRIBERS: Final = 4096
MAX_WAITING: Final = 256
"""Events that a listener may be behind; then it is cut off, and can resume by the number it saw last."""
KEPT: Final = 1024
"""Events that are kept for those who resume."""
ENTRIES_TOLD: Final = 256
"""Entries that are told of singly after one refresh."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    number: int
    topic: str
    """One of TOPICS, or FINALIZED_CHECKPOINT."""
    data: dict[str, Any]


class Subscription:
    """One listener's queue. None in it: the listener was cut off, or the node stops."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue(MAX_WAITING + 1)

    def offer(self, event: Event) -> bool:
        """Adds an event of the listener's topics; False when it is too far behind."""
        if event.topic in self.topics:
            if self.queue.qsize() >= MAX_WAITING:
                return False
            self.queue.put_nowait(event)
        return True

    def end(self) -> None:
        """Tells the listener, behind all events, that no more come."""
        self.queue.put_nowait(None)


class Bus:
    """Numbers events and hands them to listeners. All calls are from one event loop."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._number = 0

    @property
    def subscribers(self) -> int:
        """How many listen now."""
        return len(self._subscriptions)

    @contextmanager
    def subscribe(self, topics: frozenset[str], after: int | None = None) -> Iterator[Subscription]:
        """A listener for the length of the body; it first gets the kept events later than `after`.

        Raises Unavailable when too many listen already.
        """
        if len(self._subscriptions) >= MAX_SUBSCRIBERS:
            raise Unavailable("Too many listen to this node's events already.", fix="Try again later.")
        subscription = Subscription(topics)
        late = [event for event in self._kept if after is not None and event.number > after]
        for event in late[-MAX_WAITING:]:
            subscription.offer(event)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, topic: str, data: dict[str, Any]) -> None:
        """Tells all listeners of a topic."""
        self._number += 1
        event = Event(self._number, topic, data)
        self._kept.append(event)
        for subscription in [one for one in self._subscriptions if not one.offer(event)]:
            self._drop(subscription)

    def close(self) -> None:
        """Ends all subscriptions."""
        for subscription in list(self._subscriptions):
            self._drop(subscription)

    def _drop(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        subscription.end()


def describe_changes(old: Reader, new: Reader) -> list[tuple[str, dict[str, Any]]]:
    """What happened between two moments of a chain: topics and data, in order."""
    before, now = old.status, new.status
    told: list[tuple[str, dict[str, Any]]] = []
    if now.head != before.head:
        told.append(("head", {"root": f"0x{now.head.hex()}", "slot": now.slot, "epoch": now.epoch}))
    first = max(old.count_common_entries(new), now.entries - ENTRIES_TOLD)
    told += [("entry", _describe_entry(found)) for found in new.list_entries(first, ENTRIES_TOLD).items]
    if now.justified != before.justified:
        told.append(("justified", {"checkpoint": format_checkpoint(now.justified)}))
    if now.finalized != before.finalized:
        told.append(("finalized", {"checkpoint": format_checkpoint(now.finalized)}))
        state_root = new.chain.get_header(now.finalized.root).state_root
        told.append((FINALIZED_CHECKPOINT, describe_finalized(now.finalized, state_root)))
    return told


def describe_finalized(checkpoint: Checkpoint, state_root: Root) -> dict[str, Any]:
    """A final checkpoint and its block's state, as the Beacon API tells of it."""
    return {
        "block": f"0x{checkpoint.root.hex()}",
        "state": f"0x{state_root.hex()}",
        "epoch": str(checkpoint.epoch),
        "execution_optimistic": False,
    }


def _describe_entry(found: Found) -> dict[str, Any]:
    return {
        "position": found.stored.position,
        "root": f"0x{found.stored.root.hex()}",
        "slot": found.stored.slot,
        "kind": type(found.signed.entry.body.data).__name__,
        "final": found.is_final,
    }
