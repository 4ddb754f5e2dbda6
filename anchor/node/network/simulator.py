"""Many engines in one process, on a clock that is set and links that fail as told: the same run from a seed.

    heap of (time, number, what happens) ─► tick of a node | frame from one node to another | …

It stands in for the driver: it passes on what an engine sends, asks for blocks that are missing, and compares
how nodes stand once an epoch. A node that is killed loses all but its store.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from anchor.consensus.bls import Signatures
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import SignedBeaconBlock, SignedVoluntaryExit
from anchor.errors import AnchorError, Invalid, Malformed, Premature, UnknownParent
from anchor.node.network.duties import Validators
from anchor.node.network.engine import Engine
from anchor.node.network.messages import MAX_BLOCKS_ASKED, Message, decode_message, encode_message
from anchor.node.network.outbox import Send
from anchor.node.store import Store

MAX_ANCESTORS: Final = 64
"""Blocks that are asked for one by one, back from one whose parent is unknown."""


class Killed(BaseException):
    """Stands for a kill in the midst of a call; nothing that runs in a node may catch it."""


@dataclass
class Links:
    """How messages travel."""

    latency_ms: tuple[int, int] = (5, 50)
    """Least and most."""
    loss: float = 0.0
    """The share of pushed messages that is lost."""
    is_framed: bool = True
    """Whether messages are encoded and decoded on the way, as between processes."""
    ticks: int = 6
    """Of each node, in a slot."""


@dataclass(eq=False)
class SimulatedNode:
    """One node: what survives it, and its engine while it runs."""

    number: int
    open_store: Callable[[], Store]
    validators: Validators | None
    signatures: Signatures | None = None
    skew_ms: int = 0
    """How far its clock is ahead."""
    tamper: Callable[[Engine, Send], list[tuple[int, Message]]] | None = None
    """Of a node that does not keep to the rules: what it sends to whom (by number) in place of a message."""
    engine: Engine | None = None
    store: Store | None = None
    blamed: Counter[int] = field(default_factory=Counter)
    """By number of the peer: what it sent that no honest one does."""
    missing: set[bytes] = field(default_factory=set)
    """Blocks that were asked for."""

    @property
    def peer_id(self) -> bytes:
        """What others know it by."""
        return self.number.to_bytes(32, "big")

    def start(self) -> None:
        """Opens what is stored. Killed passes through."""
        self.store = self.open_store()
        self.engine = Engine(self.store, self.validators, self.signatures)
        self.missing.clear()

    def stop(self) -> None:
        """Loses all but what is stored."""
        if self.store is not None:
            self.store.close()
        self.engine = self.store = None


class Simulation:
    """Runs nodes. All that happens follows from what is done to it, and from `randomness`."""

    def __init__(
        self, nodes: Sequence[SimulatedNode], time_ms: int, randomness: Random, links: Links
    ) -> None:
        self.nodes, self.time_ms, self.links = list(nodes), time_ms, links
        self._random = randomness
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._groups: list[set[int]] = []
        """While there is a partition: who reaches whom."""
        for node in self.nodes:
            node.start()
        self.slot_ms: int = self.get_engine(0).ledger.config.SLOT_DURATION_MS
        self._at(self.time_ms, self._tick_all)

    def get_engine(self, number: int) -> Engine:
        """The engine of a node that runs. Raises KeyError for one that does not."""
        engine = self.nodes[number].engine
        if engine is None:
            raise KeyError(number)
        return engine

    @property
    def running(self) -> list[SimulatedNode]:
        """The nodes that run."""
        return [node for node in self.nodes if node.engine is not None]

    # What is done to it

    def run(self, slots: float) -> None:
        """Lets time pass."""
        end = self.time_ms + round(slots * self.slot_ms)
        while self._events and self._events[0][0] <= end:
            self.time_ms, _, happen = heapq.heappop(self._events)
            happen()
        self.time_ms = end

    def partition(self, *groups: Sequence[int]) -> None:
        """Cuts all links but those within the groups."""
        self._groups = [set(group) for group in groups]

    def heal(self) -> None:
        """Brings all links back."""
        self._groups = []

    def kill(self, number: int) -> None:
        """Ends a node at once."""
        self.nodes[number].stop()

    def restart(self, number: int) -> None:
        """Starts a node from its store."""
        self._guard(self.nodes[number], self.nodes[number].start)

    def submit(self, number: int, entry: SignedEntry) -> None:
        """Sends an entry to a node, as its user. Raises as `Engine.submit` does."""
        node = self.nodes[number]
        self._post(node, self.get_engine(number).submit(entry, self._now(node)))

    def submit_exit(self, number: int, wish: SignedVoluntaryExit) -> None:
        """Sends a validator's wish to leave to a node. Raises as `Engine.submit_exit` does."""
        node = self.nodes[number]
        self._post(node, self.get_engine(number).submit_exit(wish, self._now(node)))

    def inject(self, number: int, message: Message, sender: int) -> AnchorError | None:
        """Hands a message to a node as if `sender` had pushed it; returns what the node holds against it."""
        return self._receive(self.nodes[number], message, self.nodes[sender])

    # What happens

    def _at(self, time_ms: int, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time_ms, self._count, happen))

    def _after_latency(self, happen: Callable[[], None]) -> None:
        self._at(self.time_ms + self._random.randint(*self.links.latency_ms), happen)

    def _now(self, node: SimulatedNode) -> int:
        return self.time_ms + node.skew_ms

    def _guard(self, node: SimulatedNode, call: Callable[[], None]) -> None:
        """Does what a node does; it may be killed in the midst."""
        try:
            call()
        except Killed:
            node.stop()

    def _tick_all(self) -> None:
        for node in self.nodes:
            if node.engine is not None:
                self._guard(node, lambda node=node: self._tick(node))  # type: ignore[misc]
        self._at(self.time_ms + max(self.slot_ms // self.links.ticks, 1), self._tick_all)

    def _tick(self, node: SimulatedNode) -> None:
        engine = self.get_engine(node.number)
        self._post(node, engine.on_tick(self._now(node)))
        if (self.time_ms // self.slot_ms) % 8 == node.number % 8 and self.time_ms % self.slot_ms < 200:
            self._compare(node)

    def _compare(self, node: SimulatedNode) -> None:
        """Looks at how another node stands, and catches up with it where it is ahead."""
        peer = self._random.choice(self.nodes)
        if peer is node or peer.engine is None or not self._is_linked(node, peer) or node.engine is None:
            return
        theirs, own = [n.engine.get_status(self._now(n)) for n in (peer, node) if n.engine is not None]
        if theirs.head_slot > own.head_slot + 2:
            self._catch_up(node, peer)

    def _is_linked(self, one: SimulatedNode, other: SimulatedNode) -> bool:
        if not self._groups:
            return True
        return any({one.number, other.number} <= group for group in self._groups)

    def _post(self, node: SimulatedNode, sends: Sequence[Send]) -> None:
        """Hands what an engine wants sent to the links."""
        for send in sends:
            message = self._frame(node, send.message)
            if node.tamper is not None and node.engine is not None:
                for number, other in node.tamper(node.engine, send):
                    self._push(node, self.nodes[number], self._frame(node, other))
                continue
            for peer in self.nodes:
                if peer is not node and peer.peer_id != send.but and send.to in (None, peer.peer_id):
                    self._push(node, peer, message)

    def _frame(self, node: SimulatedNode, message: Message) -> Message | bytes:
        if not self.links.is_framed or node.engine is None:
            return message
        return encode_message(node.engine.ledger.scope, message)

    def _push(self, sender: SimulatedNode, receiver: SimulatedNode, message: Message | bytes) -> None:
        if not self._is_linked(sender, receiver) or self._random.random() < self.links.loss:
            return
        self._after_latency(lambda: self._guard(receiver, lambda: self._deliver(receiver, message, sender)))

    def _deliver(self, node: SimulatedNode, message: Message | bytes, sender: SimulatedNode) -> None:
        if isinstance(message, bytes):
            if node.engine is None:
                return
            message = decode_message(node.engine.ledger.scope, message)
        self._receive(node, message, sender)

    def _receive(self, node: SimulatedNode, message: Message, sender: SimulatedNode) -> AnchorError | None:
        engine = node.engine
        if engine is None:
            return None
        try:
            self._post(node, engine.on_message(message, sender.peer_id, self._now(node)))
        except UnknownParent as error:
            self._ask(node, sender, error.root)
            return error
        except Premature as error:
            return error
        except (Malformed, Invalid) as error:
            node.blamed[sender.number] += 1
            return error
        return None

    # Asking for blocks

    def _ask(self, node: SimulatedNode, peer: SimulatedNode, root: bytes) -> None:
        """Gets a missing block from who mentioned it."""
        if root in node.missing:
            return
        node.missing.add(root)
        self._after_latency(lambda: self._guard(node, lambda: self._fetch(node, peer, root)))

    def _fetch(self, node: SimulatedNode, peer: SimulatedNode, root: bytes) -> None:
        node.missing.discard(root)
        if node.engine is None or peer.engine is None or not self._is_linked(node, peer):
            return
        blocks: list[SignedBeaconBlock] = []
        while len(blocks) < MAX_ANCESTORS:
            found = peer.engine.get_blocks_by_root([root])
            if not found:
                return
            blocks.insert(0, self._decode(node.engine, found[0]))
            if (error := self._take(node, blocks)) is None:
                return
            root = error
        self._catch_up(node, peer)

    def _take(self, node: SimulatedNode, blocks: Sequence[SignedBeaconBlock]) -> bytes | None:
        """Gives a node blocks that it asked for; returns the root of their parent where that is missing."""
        if node.engine is None:
            return None
        try:
            self._post(node, node.engine.on_blocks(blocks, self._now(node)))
        except UnknownParent as error:
            return error.root
        except Invalid:
            return None
        return None

    def _catch_up(self, node: SimulatedNode, peer: SimulatedNode) -> None:
        """Gets a peer's chain from the node's newest final block on."""
        if node.engine is None or peer.engine is None:
            return
        start = node.engine.final_slot + 1
        newest = peer.engine.get_status(self._now(peer)).head_slot
        while start <= newest:
            encoded = peer.engine.get_blocks_by_range(start, MAX_BLOCKS_ASKED)
            blocks = [self._decode(node.engine, block) for block in encoded]
            if blocks and self._take(node, blocks) is not None:
                return
            start += MAX_BLOCKS_ASKED

    def _decode(self, engine: Engine, data: bytes) -> SignedBeaconBlock:
        block: SignedBeaconBlock = engine.ledger.scope.schema(SignedBeaconBlock).decode(data)
        return block
