"""Catching up with peers: which blocks to ask whom for, and what to make of their answers.

A run goes from a slot of this node's chain to one peer's head, in batches. What is final everywhere may come
from any peer that has it; what is not comes from peers with the same head. Nothing here reads a socket or a
clock, judges a signature, or applies a block: whoever drives it does, and says what came of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.errors import RefusedPeer
from anchor.node.network.messages import BlocksByRange, Kind, Message, PeerStatus

BATCH: Final = 32
"""Slots that are asked for at once."""
MAX_BATCHES: Final = 4
"""That are asked for, or wait to be applied, at once."""
MAX_PER_PEER: Final = 2
STALL_SECONDS: Final = 10.0
"""Without a block, after which another peer is asked."""
MAX_TRIES: Final = 5
"""Of one batch, before the run is given up."""
MAX_ASKED: Final = 128
"""Questions that are remembered: an answer that comes late is no fault."""
SLACK: Final = 2
"""Slots by which a peer may be ahead without a run: gossip brings those blocks."""
REST_SECONDS: Final = 5.0
"""After a run that failed."""
Peer = bytes


class Ask(NamedTuple):
    """A question to be sent."""

    peer: Peer
    message: Message


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where this node stands."""

    final_slot: int
    """Of the newest final block."""
    head_slot: int
    current_slot: int
    """By its clock."""
    has: Callable[[bytes], bool]
    """Whether it has the block with this root."""


class State(Enum):
    """What is being done about a batch."""

    WAITING = auto()
    ASKED = auto()
    READY = auto()


@dataclass(slots=True, eq=False)
class Batch:
    """Blocks of slots start … start + count - 1."""

    start: int
    count: int
    state: State = State.WAITING
    peer: Peer = b""
    """Who is asked, or answered."""
    request: int = 0
    deadline: float = 0.0
    blocks: list[SignedBeaconBlock] = field(default_factory=list)
    last: bytes = b""
    """Root of the newest of them."""
    tried: set[Peer] = field(default_factory=set)
    tries: int = 0

    def reset(self) -> None:
        """Forgets the answer; another peer will be asked."""
        self.tried.add(self.peer)
        self.state, self.peer, self.request, self.blocks, self.last = State.WAITING, b"", 0, [], b""


class Syncer:
    """Follows the peers' statuses, and asks for what this node lacks."""

    def __init__(self, slots_per_epoch: int) -> None:
        self._slots_per_epoch = slots_per_epoch
        self._statuses: dict[Peer, PeerStatus] = {}
        self._empty: dict[Peer, bytes] = {}
        """Heads that peers claimed, and did not show."""
        self._batches: list[Batch] = []
        self._target: PeerStatus | None = None
        self._cursor = 0
        self._requests = 0
        self._asked: OrderedDict[int, Peer] = OrderedDict()
        """The newest questions, whoever waits for an answer still."""
        self._rests_until = 0.0
        self._from_final = False

    @property
    def is_running(self) -> bool:
        """Whether blocks are being asked for."""
        return self._target is not None

    @property
    def target_slot(self) -> int:
        """Of the head to which the run goes; 0 without one."""
        return 0 if self._target is None else int(self._target.head_slot)

    @property
    def target_root(self) -> bytes:
        """The head to which the run goes; empty without one."""
        return b"" if self._target is None else bytes(self._target.head_root)

    def on_status(self, peer: Peer, status: PeerStatus) -> None:
        """A peer said how it stands."""
        self._statuses[peer] = status

    def on_gone(self, peer: Peer) -> None:
        """A peer has left: others are asked for what it owed."""
        self._statuses.pop(peer, None)
        self._empty.pop(peer, None)
        for batch in self._batches:
            if batch.peer == peer and batch.state is State.ASKED:
                batch.reset()

    # A run

    def begin(self, own: Standpoint, now: float) -> bool:
        """Starts a run where a peer's head is out of gossip's reach; whether one goes on."""
        if self._target is not None or now < self._rests_until:
            return self.is_running
        ahead = [status for peer, status in self._statuses.items() if self._is_ahead(peer, status, own)]
        if ahead:
            best = max(ahead, key=lambda status: (status.finalized.epoch, status.head_slot))
            self._start(best, own, from_final=best.head_slot <= own.head_slot + SLACK)
        return self.is_running

    def begin_from_final(self, own: Standpoint) -> None:
        """Starts a run from the final block: what came by root has parents too far back."""
        ahead = [one for peer, one in self._statuses.items() if self._is_new(peer, one, own)]
        if ahead and self._target is None:
            self._start(max(ahead, key=lambda status: status.head_slot), own, from_final=True)

    def _is_new(self, peer: Peer, status: PeerStatus, own: Standpoint) -> bool:
        """Whether a peer's head is one that this node lacks, may be real, and was not asked for in vain."""
        is_possible = own.final_slot < status.head_slot <= own.current_slot + 1
        return (
            is_possible and self._empty.get(peer) != status.head_root and not own.has(bytes(status.head_root))
        )

    def _is_ahead(self, peer: Peer, status: PeerStatus, own: Standpoint) -> bool:
        final = status.finalized.epoch * self._slots_per_epoch
        is_far = (
            status.head_slot > own.head_slot + SLACK or final > own.final_slot + 2 * self._slots_per_epoch
        )
        return is_far and self._is_new(peer, status, own)

    def _start(self, target: PeerStatus, own: Standpoint, *, from_final: bool) -> None:
        self._target, self._from_final, self._batches = target, from_final, []
        self._cursor = (own.final_slot if from_final else own.head_slot) + 1

    def get_asks(self, now: float) -> tuple[list[Ask], list[Peer]]:
        """Questions to send now, and peers that have kept this node waiting."""
        if self._target is None:
            return [], []
        stalled = []
        for batch in self._batches:
            if batch.state is State.ASKED and now > batch.deadline:
                stalled.append(batch.peer)
                batch.reset()
        while len(self._batches) < MAX_BATCHES and self._cursor <= self._target.head_slot:
            count = min(BATCH, self._target.head_slot - self._cursor + 1)
            self._batches.append(Batch(self._cursor, count))
            self._cursor += count
        return [ask for batch in self._batches if (ask := self._ask(batch, now))], stalled

    def _ask(self, batch: Batch, now: float) -> Ask | None:
        if batch.state is not State.WAITING:
            return None
        able = [peer for peer in self._statuses if self._can_give(peer, batch)]
        fresh = [peer for peer in able if peer not in batch.tried] or able
        loads = [(sum(one.peer == peer for one in self._batches), peer) for peer in fresh]
        free = [(load, peer) for load, peer in loads if load < MAX_PER_PEER]
        if not free:
            return None
        self._requests = self._requests % 0x7FFF_FFFF + 1
        batch.state, batch.peer, batch.request = State.ASKED, min(free)[1], self._requests
        batch.deadline, batch.tries = now + STALL_SECONDS, batch.tries + 1
        self._asked[batch.request] = batch.peer
        if len(self._asked) > MAX_ASKED:
            self._asked.popitem(last=False)
        question = BlocksByRange(start_slot=batch.start, count=batch.count)
        return Ask(batch.peer, Message(Kind.GET_BLOCKS_BY_RANGE, question, batch.request))

    def _can_give(self, peer: Peer, batch: Batch) -> bool:
        status, target = self._statuses[peer], self._target
        end = batch.start + batch.count - 1
        is_final = end <= status.finalized.epoch * self._slots_per_epoch
        is_same = target is not None and status.head_root == target.head_root
        return status.earliest_slot <= batch.start and (is_final or is_same)

    # Answers

    def on_block(self, peer: Peer, request: int, block: SignedBeaconBlock, root: bytes, now: float) -> None:
        """A block, as an answer. Raises RefusedPeer when it is none to what was asked."""
        batch = self._find(peer, request)
        if batch is None:
            return
        message = block.message
        first = batch.blocks[-1].message.slot + 1 if batch.blocks else batch.start
        if not first <= message.slot < batch.start + batch.count:
            raise RefusedPeer(f"A block of slot {message.slot} answers a question for {first} and later.")
        if batch.blocks and message.parent_root != batch.last:
            raise RefusedPeer(f"The block of slot {message.slot} does not follow the one before it.")
        batch.blocks.append(block)
        batch.last, batch.deadline = root, now + STALL_SECONDS

    def on_end(self, peer: Peer, request: int) -> None:
        """The end of an answer. Raises RefusedPeer when nothing was asked."""
        batch = self._find(peer, request)
        if batch is not None:
            batch.state = State.READY

    def _find(self, peer: Peer, request: int) -> Batch | None:
        """The batch that is answered; None where the answer comes too late."""
        for batch in self._batches:
            if (batch.peer, batch.request, batch.state) == (peer, request, State.ASKED):
                return batch
        if self._asked.get(request) == peer:
            return None
        raise RefusedPeer(f"It answers question {request}, which it was not asked.")

    def get_ready(self) -> Batch | None:
        """The next batch to apply, when it is here whole."""
        if self._batches and self._batches[0].state is State.READY:
            return self._batches[0]
        return None

    # What came of it

    def on_applied(self, batch: Batch, own: Standpoint, now: float) -> list[Peer]:
        """All blocks of a batch are applied. Returns peers that claimed a head which they did not show."""
        self._batches.remove(batch)
        target = self._target
        if target is None or self._batches or self._cursor <= target.head_slot:
            return []
        self._stop(now if own.has(bytes(target.head_root)) else now + REST_SECONDS)
        if own.has(bytes(target.head_root)):
            return []
        liars = [peer for peer, one in self._statuses.items() if one.head_root == target.head_root]
        self._empty |= dict.fromkeys(liars, bytes(target.head_root))
        return liars

    def on_refused(self, batch: Batch, now: float) -> None:
        """A block of a batch breaks the rules: another peer is asked, a few times."""
        batch.reset()
        if batch.tries >= MAX_TRIES:
            self._stop(now + REST_SECONDS)

    def on_unlinked(self, own: Standpoint, now: float) -> bool:
        """A batch does not follow what this node has. False when a run from the final block says so too."""
        target, was_from_final = self._target, self._from_final
        self._stop(now + REST_SECONDS if was_from_final else now)
        if target is not None and not was_from_final:
            self._start(target, own, from_final=True)
        return not was_from_final

    def _stop(self, rests_until: float) -> None:
        self._target, self._batches, self._rests_until = None, [], rests_until
