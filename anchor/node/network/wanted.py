"""Blocks that are wanted by root: the unknown parents of what gossip brought."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from anchor.node.network.messages import MAX_ROOTS_ASKED, BlocksByRoot, Kind, Message
from anchor.node.network.syncing import Ask, Peer

BY_ROOT: Final = 1 << 31
"""Set in the number of every question from here: no other question has it."""
MAX_WANTED: Final = 64
MAX_DEPTH: Final = 16
"""Parents of parents that are asked for one by one; what lies deeper comes by range."""
PATIENCE: Final = 2.0
"""Seconds, after which another peer is asked."""
MAX_PEERS_ASKED: Final = 4
"""After which a block is no longer wanted."""
MAX_ASKED: Final = 128
"""Questions that are remembered: an answer that comes late is no fault."""


@dataclass(slots=True, eq=False)
class Want:
    """A block that somebody spoke of."""

    depth: int
    peers: list[Peer]
    """Who may have it: who spoke of it first."""
    asked: set[Peer] = field(default_factory=set)
    peer: Peer = b""
    """Who was asked last."""
    deadline: float = 0.0


class Wanted:
    """What is wanted, and who was asked. The oldest is forgotten when there is too much."""

    def __init__(self) -> None:
        self._wants: OrderedDict[bytes, Want] = OrderedDict()
        self._asked: OrderedDict[tuple[Peer, int], set[bytes]] = OrderedDict()
        """Roots that may still come, by peer and question."""
        self._requests = 0

    def __contains__(self, root: bytes) -> bool:
        return root in self._wants

    def want(self, root: bytes, peer: Peer, child: bytes = b"") -> bool:
        """Notes that `peer` spoke of block `root`, as the parent of `child`. False when that is too deep."""
        known = self._wants.get(root)
        if known is not None:
            if peer not in known.peers:
                known.peers.append(peer)
            return True
        depth = self._wants[child].depth + 1 if child in self._wants else 0
        if depth > MAX_DEPTH:
            return False
        self._wants[root] = Want(depth, [peer])
        if len(self._wants) > MAX_WANTED:
            self._wants.popitem(last=False)
        return True

    def get_asks(self, now: float) -> list[Ask]:
        """Questions to send now."""
        asks: dict[Peer, list[bytes]] = {}
        for root, want in list(self._wants.items()):
            fresh = [peer for peer in want.peers if peer not in want.asked]
            if now < want.deadline or (fresh and len(asks.get(fresh[0], ())) >= MAX_ROOTS_ASKED):
                continue
            if not fresh or len(want.asked) >= MAX_PEERS_ASKED:
                del self._wants[root]
                continue
            want.peer, want.deadline = fresh[0], now + PATIENCE
            want.asked.add(want.peer)
            asks.setdefault(want.peer, []).append(root)
        return [self._ask(peer, roots) for peer, roots in asks.items()]

    def _ask(self, peer: Peer, roots: list[bytes]) -> Ask:
        self._requests = (self._requests + 1) % BY_ROOT
        request = BY_ROOT | self._requests
        self._asked[peer, request] = set(roots)
        if len(self._asked) > MAX_ASKED:
            self._asked.popitem(last=False)
        return Ask(peer, Message(Kind.GET_BLOCKS_BY_ROOT, BlocksByRoot(roots=tuple(roots)), request))

    def on_block(self, peer: Peer, request: int, root: bytes) -> bool:
        """Whether block `root`, from `peer`, is asked for under this number, and new."""
        roots = self._asked.get((peer, request), set())
        is_asked = root in roots
        roots.discard(root)
        return is_asked

    def on_end(self, peer: Peer, request: int) -> bool:
        """A peer has no more of what it was asked: others are asked at once. False when it was not asked."""
        roots = self._asked.pop((peer, request), None)
        for root in roots or ():
            want = self._wants.get(root)
            if want is not None and want.peer == peer:
                want.deadline = 0.0
        return roots is not None

    def on_found(self, root: bytes) -> None:
        """The block is here."""
        self._wants.pop(root, None)

    def on_gone(self, peer: Peer) -> None:
        """A peer has left."""
        for want in self._wants.values():
            if want.peer == peer:
                want.deadline = 0.0
            want.peers = [one for one in want.peers if one != peer]
