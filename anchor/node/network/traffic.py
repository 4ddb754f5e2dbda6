"""How much of each kind a peer may send, how much waits to be judged, and what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from anchor.node.limits import Buckets
from anchor.node.network.messages import MAX_FRAME, Kind

RATES: Final[dict[Kind, tuple[float, float]]] = {
    Kind.STATUS: (1, 20),
    Kind.BLOCK: (8, 64),
    Kind.ATTESTATION: (128, 1024),
    Kind.CONTRIBUTION: (64, 512),
    Kind.ENTRY: (32, 512),
    Kind.PROPOSER_SLASHING: (4, 64),
    Kind.ATTESTER_SLASHING: (4, 64),
    Kind.EXIT: (4, 64),
    Kind.ADDRESSES: (0.1, 5),
    Kind.GET_BLOCKS_BY_RANGE: (4, 32),
    Kind.GET_BLOCKS_BY_ROOT: (4, 32),
}
"""Frames of a kind that a peer may send a second, and at once. Answers are counted by their questions."""
MAX_WAITING: Final = 512
MAX_WAITING_BYTES: Final = 8 * MAX_FRAME
"""Frames, and their bytes, that wait to be judged; whoever sends more is not read meanwhile."""
MAX_SEEN: Final = 1 << 16
"""Pushed frames that are known again, so that they are judged once whoever sends them."""


class Allowances:
    """What each peer may still send."""

    def __init__(self) -> None:
        self._buckets = {kind: Buckets(rate, burst) for kind, (rate, burst) in RATES.items()}

    def take(self, peer: bytes, kind: Kind, now: float) -> bool:
        """Takes one frame from a peer's allowance; False when it is used up."""
        buckets = self._buckets.get(kind)
        return buckets is not None and buckets.take(peer.hex(), 1, now) == 0


class Received(NamedTuple):
    """A frame that is to be judged."""

    peer: bytes
    frame: bytes
    digest: bytes


class Inbox:
    """Frames that wait to be judged, blocks first. Who adds to a full one waits."""

    def __init__(self) -> None:
        self._blocks: deque[Received] = deque()
        self._others: deque[Received] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()

    def __len__(self) -> int:
        return len(self._blocks) + len(self._others)

    async def put(self, received: Received) -> None:
        """Adds a frame, when there is room."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._has_room(len(received.frame)))
            (self._blocks if received.frame[0] == Kind.BLOCK else self._others).append(received)
            self._bytes += len(received.frame)
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        return len(self) < MAX_WAITING and self._bytes + size <= MAX_WAITING_BYTES

    async def take(self, most: int) -> list[Received]:
        """The next frames, at least one and at most `most`."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self) > 0)
            taken: list[Received] = []
            while len(taken) < most and (queue := self._blocks or self._others):
                taken.append(queue.popleft())
            self._bytes -= sum([len(received.frame) for received in taken])
            self._changed.notify_all()
            return taken


class Seen:
    """Digests of the newest pushed frames."""

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def add(self, digest: bytes) -> bool:
        """Notes a frame; whether it is new."""
        if digest in self._digests:
            return False
        self._digests[digest] = None
        if len(self._digests) > MAX_SEEN:
            self._digests.popitem(last=False)
        return True

    def forget(self, digest: bytes) -> None:
        """Lets a frame be judged again: its time had not come."""
        self._digests.pop(digest, None)


class MessageCounter:
    """Counts frames by kind and by what came of them. Labels come from fixed sets."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: Kind | None, verdict: str) -> None:
        """One frame; None for one of no kind."""
        self._counts["none" if kind is None else kind.name.lower(), verdict] += 1

    def format(self) -> Iterable[str]:
        """The lines of this metric."""
        yield "# HELP anchor_peer_messages_total Frames from peers, by kind and what came of them."
        yield "# TYPE anchor_peer_messages_total counter"
        for (kind, verdict), count in sorted(self._counts.items()):
            yield f'anchor_peer_messages_total{{kind="{kind}",verdict="{verdict}"}} {count}'
