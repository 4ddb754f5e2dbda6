"""Blocks that are wanted by root: the unknown parents of what gossip brought."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from anchor.node.network.messages import MAX_ROOTS_ASKED, BlocksByRoot, Kind, Message
from anchor.node.network.syncing import Ask, Peer

MAX_WANTED: Final = 64
MAX_DEPTH: Final = 16
"""Parents of parents that are asked for one by one; what lies deeper comes by range."""
PATIENCE: Final = 2.0
"""Seconds, after which another peer is asked."""
MAX_ASKED: Final = 4
"""Peers, after which a block is no longer wanted."""


@dataclass(slots=True, eq=False)
class Want:
    """A block that somebody spoke of."""

    depth: int
    peers: list[Peer]
    """Who may have it: who spoke of it first."""
    asked: set[Peer] = field(default_factory=set)
    request: int = 0
    peer: Peer = b""
    deadline: float = 0.0


class Wanted:
    """What is wanted, and who was asked. The oldest is forgotten when there is too much."""

    def __init__(self) -> None:
        self._wants: OrderedDict[bytes, Want] = OrderedDict()
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
        asked: dict[Peer, list[bytes]] = {}
        for root, want in list(self._wants.items()):
            fresh = [peer for peer in want.peers if peer not in want.asked]
            if now < want.deadline or len(asked.get(fresh[0], ()) if fresh else ()) >= MAX_ROOTS_ASKED:
                continue
            if not fresh or len(want.asked) >= MAX_ASKED:
                del self._wants[root]
                continue
            want.peer, want.deadline = fresh[0], now + PATIENCE
            want.asked.add(want.peer)
            asked.setdefault(want.peer, []).append(root)
        return [self._ask(peer, roots) for peer, roots in asked.items()]

    def _ask(self, peer: Peer, roots: list[bytes]) -> Ask:
        self._requests = self._requests % 0x7FFF_FFFF + 1
        request = self._requests | 1 << 31
        for root in roots:
            self._wants[root].request = request
        return Ask(peer, Message(Kind.GET_BLOCKS_BY_ROOT, BlocksByRoot(roots=tuple(roots)), request))

    def owns(self, request: int) -> bool:
        """Whether an answer with this number is to a question from here."""
        return request >> 31 == 1

    def is_asked(self, peer: Peer, request: int, root: bytes) -> bool:
        """Whether block `root` answers a question to `peer`."""
        want = self._wants.get(root)
        return want is not None and (want.peer, want.request) == (peer, request)

    def on_end(self, peer: Peer, request: int) -> None:
        """The peer has no more of what it was asked: others are asked at once."""
        for want in self._wants.values():
            if (want.peer, want.request) == (peer, request):
                want.deadline = 0.0

    def on_found(self, root: bytes) -> None:
        """The block is here."""
        self._wants.pop(root, None)

    def on_gone(self, peer: Peer) -> None:
        """A peer has left."""
        for want in self._wants.values():
            if want.peer == peer:
                want.deadline = 0.0
            want.peers = [one for one in want.peers if one != peer]
