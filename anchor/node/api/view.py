"""What a node may show of a beacon chain: what it has verified, and nothing else. No HTTP here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.chain.beacon.follow import Followed, Follower
from anchor.chain.beacon.networks import Fork, Network
from anchor.consensus.light_client.derive import Deriver
from anchor.errors import Misuse
from anchor.types import Root

KEPT: Final = 4
"""Checkpoints whose states are kept."""
MAX_LAG: Final = 8
"""Epochs by which the newest checkpoint may lie behind the clock before a node counts as unhealthy."""
QUEUE: Final = 64
Event = dict[str, Any]


class View:
    """The newest verified checkpoints, newest last, and what the light client has accepted."""

    def __init__(self, anchor: VerifiedCheckpoint) -> None:
        self.anchors = [anchor]
        self.follower = Follower(anchor.network)
        self.followed: Followed | None = None
        self._listeners: set[asyncio.Queue[Event]] = set()

    @property
    def network(self) -> Network:
        """The network that all of it is of."""
        return self.anchors[-1].network

    @property
    def newest(self) -> VerifiedCheckpoint:
        """The newest checkpoint with a state."""
        return self.anchors[-1]

    def show(self, anchor: VerifiedCheckpoint) -> None:
        """Shows a newer checkpoint, and tells who listens. Raises Misuse for one of another network."""
        if anchor.network.genesis_validators_root != self.network.genesis_validators_root:
            raise Misuse("A view shows one network.")
        if anchor.checkpoint.epoch <= self.newest.checkpoint.epoch:
            return
        self.anchors = [*self.anchors, anchor][-KEPT:]
        event = {
            "block": f"0x{anchor.checkpoint.root.hex()}",
            "state": f"0x{anchor.block.state_root.hex()}",
            "epoch": str(anchor.checkpoint.epoch),
            "execution_optimistic": False,
        }
        for queue in self._listeners:
            if not queue.full():  # who reads too slowly misses events, and can ask
                queue.put_nowait(event)

    def show_followed(self, followed: Followed) -> None:
        """Shows what the light client has accepted."""
        self.followed = followed

    def find_state(self, state_id: str) -> VerifiedCheckpoint | None:
        """The checkpoint whose state is asked for: `head`, `finalized`, a slot, a state's root."""
        if state_id in ("head", "finalized"):
            return self.newest
        found = [known for known in self.anchors if state_id in _names(known, known.block.state_root)]
        return found[-1] if found else None

    def find_block(self, block_id: str) -> VerifiedCheckpoint | None:
        """The checkpoint whose block is asked for: `head`, `finalized`, a slot, a block's root."""
        if block_id in ("head", "finalized"):
            return self.newest
        found = [known for known in self.anchors if block_id in _names(known, known.checkpoint.root)]
        return found[-1] if found else None

    def get_lag(self, now: float) -> int:
        """Epochs between the newest checkpoint and the clock."""
        network, state = self.network, self.newest.state
        if network.has_logical_clock:
            age: int = max(0, int(now) - state.timestamp)
            return age // int(network.preset.SLOTS_PER_EPOCH * state.network.seconds_per_slot)
        current = network.compute_epoch_at_slot(network.compute_slot(now))
        return max(0, current - self.newest.checkpoint.epoch)

    def get_distance(self, now: float) -> int:
        """Slots between the newest checkpoint's block and the clock."""
        if self.network.has_logical_clock:
            return self.get_lag(now) * self.network.preset.SLOTS_PER_EPOCH
        return max(0, self.network.compute_slot(now) - self.newest.block.slot)

    def is_healthy(self, now: float) -> bool:
        """Whether the newest checkpoint is as new as those of a chain that finalises."""
        return self.get_lag(now) <= MAX_LAG

    def get_form(self, record: Any, name: str) -> Fork:
        """The fork in whose form a light-client record is: of several with one form, the one of its slot."""
        header = getattr(record, "attested_header", None) or record.header
        scheduled = self.network.get_fork_at_slot(header.beacon.slot)
        forks = [scheduled, *reversed(self.network.forks.values())]
        return next(fork for fork in forks if fork.scope.schema(name).record is type(record))

    def make_bootstrap(self, root: Root) -> Any | None:
        """The bootstrap of a block whose state is kept; None for another."""
        found = [known for known in self.anchors if known.checkpoint.root == root]
        if not found:
            return None
        scope = found[-1].block.fork.scope
        deriver = Deriver(self.follower.forms, scope)
        header = deriver.block_to_light_client_header(found[-1].block.block)
        return deriver.create_light_client_bootstrap(header, found[-1].state)

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[Event]]:
        """The events of finalised checkpoints from now on."""
        queue: asyncio.Queue[Event] = asyncio.Queue(QUEUE)
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    async def read_events(self, queue: asyncio.Queue[Event], heartbeat: float) -> AsyncIterator[bytes]:
        """Events as a stream has them, and a comment where there is none for `heartbeat` seconds."""
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), heartbeat)
            except TimeoutError:
                yield b":\n\n"
            else:
                yield f"event: finalized_checkpoint\ndata: {json.dumps(event)}\n\n".encode()


def _names(known: VerifiedCheckpoint, root: Root) -> tuple[str, str]:
    return str(known.block.slot), f"0x{root.hex()}"
