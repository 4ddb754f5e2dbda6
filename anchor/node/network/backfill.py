"""The blocks before the one that a node joined from: asked for backwards, each held to the one after it."""

from __future__ import annotations

from typing import Final

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.errors import InvalidTransition, RefusedPeer
from anchor.merkle.scope import hash_tree_root, schema_of
from anchor.node.chain import Chain
from anchor.node.network.messages import MAX_BLOCKS_ASKED, BlocksByRange, Kind, Message
from anchor.node.network.syncing import STALL_SECONDS, Ask, Peer
from anchor.node.records import FOREVER, Block, StoredEntry
from anchor.node.store import Store

BACKWARDS: Final = 1 << 30
"""Set in the number of every question from here, and of no other's."""
BATCH: Final = 64
"""Slots that are asked for at once; more while they turn out to be empty."""


class Backfill:
    """What is asked of whom, and what came: one batch at a time, there is no hurry."""

    def __init__(self, missing: bytes | None, oldest: int) -> None:
        self.missing = missing
        """Root of the newest block that is not here; None when all are."""
        self._end = oldest
        """Slot below which it is looked for."""
        self._asked: Ask | None = None
        self._deadline = 0.0
        self._blocks: list[tuple[bytes, SignedBeaconBlock]] = []
        self._tried: set[Peer] = set()
        self._requests = 0

    def get_ask(self, earliest: dict[Peer, int], now: float) -> Ask | None:
        """The next question; `earliest` is each peer's oldest slot."""
        if self.missing is None or (self._asked is not None and now <= self._deadline):
            return None
        able = {peer for peer, slot in earliest.items() if slot < self._end}
        fresh = sorted(able - self._tried) or sorted(able)
        if not fresh:
            return None
        self._requests = (self._requests + 1) % BACKWARDS
        start = max(self._end - BATCH, 1)
        question = BlocksByRange(start_slot=start, count=min(self._end - start, MAX_BLOCKS_ASKED))
        message = Message(Kind.GET_BLOCKS_BY_RANGE, question, BACKWARDS | self._requests)
        self._asked, self._deadline, self._blocks = Ask(fresh[0], message), now + STALL_SECONDS, []
        self._tried.add(fresh[0])
        return self._asked

    def on_block(self, peer: Peer, request: int, block: SignedBeaconBlock, root: bytes) -> None:
        """A block. Raises RefusedPeer for one that nobody asked for; one that comes late is passed over."""
        if self._is_asked(peer, request):
            if len(self._blocks) >= BATCH:
                raise RefusedPeer(f"It gives more than {BATCH} blocks of as many slots.")
            self._blocks.append((root, block))

    def on_end(self, peer: Peer, request: int) -> list[tuple[bytes, SignedBeaconBlock]]:
        """The run of blocks, ascending, that leads to the oldest one here; empty where nothing came.

        Raises RefusedPeer when what came does not lead there.
        """
        if not self._is_asked(peer, request) or self._asked is None:
            return []
        start, blocks = self._asked.message.value.start_slot, self._blocks
        self._asked, wanted = None, self.missing
        for root, block in reversed(blocks):
            if root != wanted:
                raise RefusedPeer("Its blocks do not lead to the oldest one here.")
            wanted = block.message.parent_root
        if blocks:
            self._tried = set()
        elif start == 1:
            raise RefusedPeer("It has not the blocks that it says it has.")
        self._end = start
        return blocks

    def on_stored(self, missing: bytes | None) -> None:
        """A run is stored; `missing` is wanted next."""
        self.missing = missing

    def _is_asked(self, peer: Peer, request: int) -> bool:
        asked = self._asked
        return asked is not None and (asked.peer, asked.message.request) == (peer, request)


def prepend_blocks(store: Store, blocks: list[tuple[bytes, SignedBeaconBlock]]) -> bytes | None:
    """Stores a run of blocks before the oldest one, with the entries that they bring; what is missing then.

    Their roots, of which each is in the next one, and the last in what was trusted, vouch for all of it but
    signatures. Raises InvalidTransition when an entry is not the one that the newest state names.
    """
    chain = Chain(store)
    ledger, position = chain.ledger, get_first_position(store, chain)
    roots = chain.get_head().state.entries
    entries: list[StoredEntry] = []
    for _, signed in reversed(blocks):
        for entry in reversed(signed.message.body.entries):  # type: ignore[attr-defined]
            if store.find_entry_by_root(hash_tree_root(entry)) is not None:
                continue  # the block was here before, and was let go of
            position -= 1
            entries.append(_to_stored(entry, position, signed))
            if position < 0 or roots[position] != entries[-1].root:
                raise InvalidTransition(
                    f"The block of slot {signed.message.slot} has another entry {position}."
                )
    stored = [
        Block(int(one.message.slot), root, ledger.hash_tree_root(one), ledger.scope.encode(one))
        for root, one in blocks
    ]
    store.prepend(stored, entries[::-1], bytes(blocks[0][1].message.parent_root))
    return store.find_missing_root()


def get_first_position(store: Store, chain: Chain) -> int:
    """The position of the oldest entry here, or that the first one to come would have."""
    first = next(store.get_entries(0, FOREVER), None)
    return len(chain.get_head().state.entries) if first is None else first.position


def _to_stored(entry: SignedEntry, position: int, signed: SignedBeaconBlock) -> StoredEntry:
    return StoredEntry(
        position=position,
        root=hash_tree_root(entry),
        slot=int(signed.message.slot),
        timestamp=int(signed.message.body.timestamp),  # type: ignore[attr-defined]
        ssz=schema_of(SignedEntry).encode(entry),
    )
