"""Getting blocks that gossip did not bring, and giving them to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.errors import (
    CorruptedLedger,
    Invalid,
    InvalidTransition,
    Premature,
    RefusedPeer,
    Unavailable,
    UnknownParent,
)
from anchor.node.network.backfill import BACKWARDS, Backfill, prepend_blocks
from anchor.node.network.company import Company
from anchor.node.network.messages import Kind, Message, PeerStatus
from anchor.node.network.outbox import Send
from anchor.node.network.peers import Fault
from anchor.node.network.runner import Runner
from anchor.node.network.syncing import Batch, Standpoint, Syncer
from anchor.node.network.wanted import BY_ROOT, Wanted

LOOK_SECONDS: Final = 0.5
"""Between two looks at what is missing, unless something comes."""
GRACE_SECONDS: Final = 3.0
"""After the start, in which duties wait for the first peer to say how the network stands."""
PROGRESS_SECONDS: Final = 5.0
"""Without a batch, after which duties no longer wait for what peers say that they have."""


class CatchingUp:
    """Follows the peers' statuses with questions, one batch at a time."""

    def __init__(
        self,
        runner: Runner,
        company: Company,
        now_ms: Callable[[], int],
        emit: Callable[[Sequence[Send]], None],
        backfill: Backfill,
    ) -> None:
        self._runner, self._company, self._now_ms, self._emit = runner, company, now_ms, emit
        ledger = runner.engine.ledger
        self.syncer, self.wanted = Syncer(ledger.preset.SLOTS_PER_EPOCH), Wanted()
        self._ledger = ledger
        self.backfill = backfill
        self._older: tuple[bytes, list[tuple[bytes, SignedBeaconBlock]]] = (b"", [])
        """Blocks that came from a peer, and are to be stored before the oldest."""
        self._heads: dict[bytes, bytes] = {}
        """The last head of each peer that was asked for by its root."""
        self._news = asyncio.Event()
        self._time = asyncio.get_running_loop().time
        self._duties_from = self._time() + GRACE_SECONDS

    async def run(self) -> None:
        """Catches up whenever there is something to catch up with, for ever."""
        while True:
            try:
                await self._look()
            except CorruptedLedger:
                raise
            except Unavailable as error:
                self._runner.note(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):  # unlike wait_for, it never swallows a cancellation
                    await self._news.wait()
            self._news.clear()

    @property
    def may_do_duties(self) -> bool:
        """Whether votes and blocks are worth making: not upon a head that is about to be left behind."""
        return self._time() >= self._duties_from

    @property
    def words(self) -> str:
        """How far it has come, in a sentence; empty when this node is where its peers are."""
        if self.syncer.is_running:
            slot = self._runner.stand.status.head_slot
            return f"It catches up with its peers: slot {slot} of {self.syncer.target_slot}."
        return "" if self.may_do_duties else "It has just started, and asks its peers how the ledger stands."

    def on_status(self, peer: bytes, status: PeerStatus) -> None:
        """A peer said how it stands."""
        self.syncer.on_status(peer, status)
        if status.head_slot <= self._runner.stand.status.head_slot and not self.syncer.is_running:
            self._duties_from = min(self._duties_from, self._time())
        self._news.set()

    def on_gone(self, peer: bytes) -> None:
        """A peer has left."""
        self.syncer.on_gone(peer)
        self.wanted.on_gone(peer)
        self._heads.pop(peer, None)
        self._news.set()

    def want(self, root: bytes, peer: bytes, child: bytes) -> None:
        """A peer spoke of a block that is not here. One too far back is got by range."""
        if self.wanted.want(root, peer, child):
            self._news.set()
        else:
            self.syncer.begin_from_final(self._get_standpoint(frozenset()))

    # Answers

    def on_answer(self, peer: bytes, message: Message) -> bytes:
        """A block, or the end, of an answer. Returns the root of a block that was asked for by its root.

        Raises RefusedPeer when it was not asked for.
        """
        if message.request & BY_ROOT:
            return self._on_wanted(peer, message)
        if message.request & BACKWARDS:
            self._on_older(peer, message)
            return b""
        if message.kind == Kind.END:
            self.syncer.on_end(peer, message.request)
            self._news.set()
        else:
            root = self._ledger.hash_tree_root(message.value.message)
            self.syncer.on_block(peer, message.request, message.value, root, self._time())
        return b""

    def _on_wanted(self, peer: bytes, message: Message) -> bytes:
        if message.kind == Kind.END:
            self.wanted.on_end(peer, message.request)
            self._news.set()
            return b""
        root: bytes = self._ledger.hash_tree_root(message.value.message)
        if not self.wanted.on_block(peer, message.request, root):
            raise RefusedPeer(f"It gives block 0x{root.hex()}, which it was not asked for.")
        return root

    def _on_older(self, peer: bytes, message: Message) -> None:
        if message.kind == Kind.END:
            self._older = (peer, self.backfill.on_end(peer, message.request))
            self._news.set()
        else:
            root = self._ledger.hash_tree_root(message.value.message)
            self.backfill.on_block(peer, message.request, message.value, root)

    # One look

    async def _look(self) -> None:
        roots = {bytes(status.head_root) for status in self._company.statuses.values()}
        known = await self._runner.run(lambda: frozenset(filter(self._runner.engine.is_known, roots)))
        own = self._get_standpoint(known)
        if not self.syncer.begin(own, self._time()):
            self._want_heads(own)
        asks, stalled = self.syncer.get_asks(self._time())
        for peer in stalled:
            self._company.blame(peer, Fault.STALLED, "It did not give the blocks that it has.")
        if not self.syncer.is_running:
            asks = self.wanted.get_asks(self._time())
        for peer in self._company.ask(asks):
            self.on_gone(peer)
        while (batch := self.syncer.get_ready()) is not None:
            await self._apply(batch)
            self._news.set()
        if not self.syncer.is_running:
            await self._go_back()

    async def _go_back(self) -> None:
        """Gets, when there is nothing newer to do, blocks from before the one that this node joined from."""
        (peer, blocks), self._older = self._older, (b"", [])
        if blocks:
            try:
                missing = await self._runner.run(prepend_blocks, self._runner.store, blocks)
            except InvalidTransition as error:
                self._company.blame(peer, Fault.LIED, error.what)
            else:
                self.backfill.on_stored(missing)
        earliest = {one: int(status.earliest_slot) for one, status in self._company.statuses.items()}
        ask = self.backfill.get_ask(earliest, self._time())
        if ask is not None:
            self._company.ask([ask])

    def _want_heads(self, own: Standpoint) -> None:
        """Asks for heads that no gossip brought: a branch beside this node's own, after a partition."""
        for peer, status in self._company.statuses.items():
            head = bytes(status.head_root)
            is_new = own.final_slot < status.head_slot <= own.current_slot + 1 and not own.has(head)
            if is_new and self._heads.get(peer) != head:
                self._heads[peer] = head
                self.want(head, peer, b"")

    def _get_standpoint(self, known: frozenset[bytes]) -> Standpoint:
        stand = self._runner.stand
        genesis, config = self._runner.engine.genesis, self._ledger.config
        passed = max(self._now_ms() - genesis.genesis_time * 1000, 0)
        head = bytes(stand.status.head_root)
        return Standpoint(
            final_slot=stand.final_slot,
            head_slot=stand.status.head_slot,
            current_slot=passed // config.SLOT_DURATION_MS,
            has=lambda root: root == head or root in known,
        )

    async def _apply(self, batch: Batch) -> None:
        """Gives a batch to the engine, and judges who gave it."""
        peer, target = batch.peer, self.syncer.target_root
        try:
            sends = await self._runner.run(self._runner.engine.on_blocks, batch.blocks, self._now_ms())
        except UnknownParent:
            if not self.syncer.on_unlinked(self._get_standpoint(frozenset()), self._time()):
                self._company.blame(peer, Fault.LIED, "Its blocks do not follow what is final.")
        except Premature:
            self.syncer.on_refused(batch, self._time())
        except Invalid as error:
            self._company.blame(peer, Fault.LIED, error.what)
            self.syncer.on_refused(batch, self._time())
        except Unavailable:
            self.syncer.on_refused(batch, self._time())
            raise
        else:
            self._emit(sends)
            await self._on_applied(batch, target)

    async def _on_applied(self, batch: Batch, target: bytes) -> None:
        """Duties wait while blocks come, and no longer: nobody stops them with a claim alone."""
        known = await self._runner.run(self._runner.engine.is_known, target)
        own = self._get_standpoint(frozenset([target]) if known else frozenset())
        for liar in self.syncer.on_applied(batch, own, self._time()):
            self._company.blame(liar, Fault.STALLED, "It did not show the head that it says it has.")
        if batch.blocks and self.syncer.is_running:
            self._duties_from = self._time() + PROGRESS_SECONDS
        elif not self.syncer.is_running:
            self._duties_from = self._time()
