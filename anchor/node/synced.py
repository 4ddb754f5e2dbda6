"""A node over what `anchor sync` has verified: one thread answers, the event loop hands out. No HTTP here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from anchor.bundle.build import build_trusted_block
from anchor.bundle.types import TrustedBlock
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.chain.beacon.follow import Followed
from anchor.chain.beacon.networks import Network
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms
from anchor.errors import Misuse, NoSuchRecord, Unavailable
from anchor.node.beacon import BeaconView, ShownBlock, ShownState, Standing, missing
from anchor.node.clock import Clock
from anchor.node.events import FINALIZED_CHECKPOINT, Bus, describe_finalized
from anchor.types import Root

P = ParamSpec("P")
T = TypeVar("T")
KEPT: Final = 4
"""Checkpoints whose states are kept."""
MAX_LAG: Final = 8
"""Epochs by which the newest checkpoint may lie behind the clock before a node counts as unhealthy."""
MAX_WAITING: Final = 64
"""Questions that wait for the one thread."""


class SyncedView:
    """The newest verified checkpoints, newest last, and what the light client has accepted."""

    def __init__(self, anchors: Sequence[VerifiedCheckpoint], followed: Followed | None = None) -> None:
        self.anchors, self.followed = tuple(anchors[-KEPT:]), followed

    @property
    def network(self) -> Network:
        """The network that all of it is of."""
        return self.newest.network

    @property
    def newest(self) -> VerifiedCheckpoint:
        """The newest checkpoint with a state."""
        return self.anchors[-1]

    def with_anchor(self, anchor: VerifiedCheckpoint) -> SyncedView:
        """This and a newer checkpoint; this where it is not newer. Raises Misuse for another network's."""
        if anchor.network.genesis_validators_root != self.network.genesis_validators_root:
            raise Misuse("A view shows one network.")
        is_newer = anchor.checkpoint.epoch > self.newest.checkpoint.epoch
        return SyncedView([*self.anchors, anchor], self.followed) if is_newer else self

    def with_followed(self, followed: Followed) -> SyncedView:
        """This, and what the light client has accepted."""
        return SyncedView(self.anchors, followed)

    # As the Beacon API shows it: what is newest here is final

    def find_block(self, block_id: str) -> ShownBlock:
        """The block of a checkpoint that is kept."""
        return _show_block(self._find("block", block_id, lambda known: known.checkpoint.root))

    def find_state(self, state_id: str) -> ShownState:
        """The state of a checkpoint that is kept."""
        known = self._find("state", state_id, lambda known: known.block.state_root)
        return ShownState(_show_block(known), known.state, lambda: known.state_bytes)

    def _find(
        self, what: str, name: str, get_root: Callable[[VerifiedCheckpoint], Root]
    ) -> VerifiedCheckpoint:
        if name in ("head", "finalized"):
            return self.newest
        found = [k for k in self.anchors if name in (str(k.block.slot), f"0x{get_root(k).hex()}")]
        if not found:
            raise missing(what, name)
        return found[-1]

    def get_finality(self, state_id: str) -> tuple[Checkpoint, Checkpoint, Checkpoint]:
        """By a state; what is newest is final, and so it is justified."""
        if state_id in ("head", "finalized"):
            return (self.newest.checkpoint,) * 3
        state = self.find_state(state_id).state
        return (
            state.previous_justified_checkpoint,
            state.current_justified_checkpoint,
            state.finalized_checkpoint,
        )

    def get_standing(self, now: float) -> Standing:
        """By the clock; by a logical clock, by the newest block's timestamp."""
        network, slot = self.network, self.newest.block.slot
        lag = self._get_lag(now)
        distance = lag * network.preset.SLOTS_PER_EPOCH
        if not network.has_logical_clock:
            distance = max(0, network.compute_slot(now) - slot)
        return Standing(slot, distance, lag <= MAX_LAG)

    def _get_lag(self, now: float) -> int:
        """Epochs between the newest checkpoint and the clock: by its block, not by a claim."""
        network, state = self.network, self.newest.state
        if network.has_logical_clock:
            age: int = max(0, int(now) - state.timestamp)
            return age // int(network.preset.SLOTS_PER_EPOCH * state.network.seconds_per_slot)
        current = network.compute_epoch_at_slot(network.compute_slot(now))
        proven = -(-self.newest.block.slot // network.preset.SLOTS_PER_EPOCH)
        return max(0, current - proven)

    def make_bootstrap(self, root: Root) -> Any:
        """Of a checkpoint that is kept."""
        known = self._find("block", f"0x{root.hex()}", lambda known: known.checkpoint.root)
        forms = Forms(known.network.preset, known.network.config)
        deriver = Deriver(forms, known.block.fork.scope)
        header = deriver.block_to_light_client_header(known.block.block)
        return deriver.create_light_client_bootstrap(header, known.state)

    def list_updates(self, start: int, count: int) -> Sequence[Any]:
        """Those that the light client accepted."""
        known = {} if self.followed is None else self.followed.updates
        return [known[period] for period in range(start, start + count) if period in known]

    def get_finality_update(self) -> Any:
        """The newest that the light client accepted."""
        if self.followed is None or self.followed.finality_update is None:
            raise NoSuchRecord("This node has not followed finality yet.")
        return self.followed.finality_update

    def make_trusted_block(self, root: Root) -> TrustedBlock:
        """Of a checkpoint that is kept."""
        known = self._find("block", f"0x{root.hex()}", lambda known: known.checkpoint.root)
        if known.block.fork.name != "ledger":
            raise NoSuchRecord(f"{self.network.name} is no ledger: its states say nothing of a clock.")
        return build_trusted_block(self.make_bootstrap(root).header.beacon, known.state)


def _show_block(known: VerifiedCheckpoint) -> ShownBlock:
    return ShownBlock(known.block.fork, known.checkpoint.root, known.block.block, True)


class SyncedNode:
    """Answers about the view that it was given last."""

    def __init__(self, view: SyncedView, clock: Clock) -> None:
        self.clock, self.events = clock, Bus()
        self.generation = 0
        """Grows whenever answers may change."""
        self._view, self._waiting = view, 0
        self._readers = ThreadPoolExecutor(1, "reader")

    @property
    def view(self) -> SyncedView:
        """What is shown now."""
        return self._view

    def publish(self, view: SyncedView) -> None:
        """Shows another view from now on, and tells who listens of a newer checkpoint."""
        old, self._view = self._view.newest, view
        self.generation += 1
        if view.newest is not old:
            newest = view.newest
            told = describe_finalized(newest.checkpoint, newest.block.state_root)
            self.events.publish(FINALIZED_CHECKPOINT, told)

    async def compute(self, method: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """What a function of values gives, off the event loop. Raises Unavailable when too many wait."""
        if self._waiting >= MAX_WAITING:
            raise Unavailable("The node is busy: too many questions wait.", fix="Try again in a second.")
        self._waiting += 1
        try:
            run = asyncio.get_running_loop().run_in_executor
            return await run(self._readers, lambda: method(*args, **more))
        finally:
            self._waiting -= 1

    async def show(self, question: Callable[[BeaconView], T]) -> T:
        """What a question about the chain is answered with."""
        return await self.compute(question, self._view)

    def hang_up(self) -> None:
        """Ends all subscriptions."""
        self.events.close()

    def close(self) -> None:
        """Ends the thread."""
        self._readers.shutdown(wait=False, cancel_futures=True)
