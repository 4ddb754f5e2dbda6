"""Keeps an engine in touch with time and with its peers: one event loop, and one thread in which it runs.

    links ─► allowance ─► inbox ─► judge (engine's thread) ─► what is to be sent ─► links
    clock ─► tick (engine's thread) ──────────────────────────────────┘
    statuses ─► what is missing ─► questions ─► answers ─► engine

Who may connect and who is blamed is `company`'s to know, what is missing `catching_up`'s: here they meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from aiohttp import web

from anchor.consensus.text import format_identity
from anchor.errors import CorruptedLedger, MalformedAnswer, MalformedSSZ, RefusedPeer, Unavailable
from anchor.node.clock import Clock
from anchor.node.logs import tell
from anchor.node.network import judging
from anchor.node.network.answering import Answerer
from anchor.node.network.backfill import Backfill
from anchor.node.network.catching_up import CatchingUp
from anchor.node.network.company import Company, Settings
from anchor.node.network.dialling import Dialling
from anchor.node.network.faults import Faults
from anchor.node.network.judging import Judged, compute_digest, judge, read_head
from anchor.node.network.link import Link
from anchor.node.network.messages import Kind, Message, PeerStatus, decode_message
from anchor.node.network.outbox import Send
from anchor.node.network.peers import Fault
from anchor.node.network.runner import Runner
from anchor.node.network.traffic import Inbox, Received

TICK_SECONDS: Final = 0.1
STATUS_SECONDS: Final = 5.0
"""Between two words on how a node stands: signs of life, too."""
ADDRESSES_TURNS: Final = 12
"""Of those words, after which addresses are told as well."""
SAVE_SECONDS: Final = 30.0
MAX_JUDGED: Final = 32
"""Frames that are judged in one go, between two ticks."""
ANSWERS: Final = (Kind.BLOCK, Kind.END)


class Driver:
    """One node's part in its network."""

    def __init__(
        self,
        runner: Runner,
        backfill: Backfill,
        company: Company,
        faults: Faults,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self.runner, self.company, self.faults, self._clock = runner, company, faults, clock
        self.changed = asyncio.Event()
        """Set when the chain may have moved."""
        self.inbox = Inbox()
        self.catching_up = CatchingUp(runner, company, self.now_ms, self.emit, backfill)
        self._dialling = Dialling(company, settings.most, self._converse)
        self._answerer = Answerer(runner)

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return self._clock.now_ms() + self.faults.skew_ms

    # Its life

    async def run(self) -> None:
        """Takes part, for ever. Raises CorruptedLedger."""
        await run_all(
            self._tick(),
            self._judge(),
            self.catching_up.run(),
            self._dialling.run(),
            self._tell(),
            self._save(),
        )

    async def accept(self, request: web.Request) -> web.StreamResponse:
        """Serves a peer that dials. Raises as `Links.accept` does."""
        return await self.company.links.accept(request, self._converse)

    def hang_up(self) -> None:
        """Ends all links."""
        self.company.links.drop_all()

    async def _tick(self) -> None:
        engine = self.runner.engine
        while True:
            engine.does_duties = self.catching_up.may_do_duties
            self.emit(await self.runner.step(self._pass_time, self.now_ms()))
            await asyncio.sleep(TICK_SECONDS)

    def _pass_time(self, time_ms: int) -> Sequence[Send]:
        sends = self.runner.engine.on_tick(time_ms)
        return [*sends, *self.faults.contradict(sends)]

    async def _tell(self) -> None:
        """Tells every peer how this node stands, and now and then where others can be reached."""
        turn = 0
        while True:
            await asyncio.sleep(STATUS_SECONDS)
            links, turn = list(self.company.links.all.values()), turn + 1
            self.company.tell_status(self._make_status(), links)
            if turn % ADDRESSES_TURNS == 0:
                for link in links:
                    self._dialling.introduce(link)

    async def _save(self) -> None:
        """Writes down now and then what a restart should know of peers."""
        try:
            while True:
                await asyncio.sleep(SAVE_SECONDS)
                try:
                    await asyncio.to_thread(self.company.save())
                except Unavailable as error:
                    self.runner.note(error)
        finally:
            self.company.save()()

    def _make_status(self) -> PeerStatus:
        return self.runner.stand.status.replace(time_ms=self.now_ms())

    def emit(self, sends: Sequence[Send]) -> None:
        """Sends what the engine wants sent, after a call of it."""
        self.company.hand_out(sends)
        self.changed.set()

    # Links

    async def _converse(self, link: Link) -> None:
        """Talks with a peer for as long as the link lasts."""
        who = format_identity(link.peer)
        tell(f"Peer {who} is connected.", peer=who, url=link.url, dialled=link.is_dialled)
        self.company.tell_status(self._make_status(), [link])
        self._dialling.on_link(link)
        why = link.why
        try:
            await link.talk(lambda frame: self._on_frame(link, frame))
        except MalformedAnswer as error:
            self.company.blame(link.peer, Fault.MALFORMED, error.what)
            why = error.what
        except (Unavailable, RefusedPeer) as error:
            why = error.what
        finally:
            self._answerer.on_gone(link)
            if self.company.links.all.get(link.peer) is link:
                self.company.on_gone(link.peer)
                self.catching_up.on_gone(link.peer)
                tell(f"Peer {who} is gone. {why or link.why}".rstrip(), peer=who)

    async def _on_frame(self, link: Link, frame: bytes) -> None:
        """One frame from a peer. Whoever sends more than is judged in time waits here."""
        kind, request = read_head(frame)
        if request and kind in ANSWERS:
            await self._on_answer(link, frame)
        elif kind is None or kind == Kind.END:
            self._fault(link, kind, judging.MALFORMED, Fault.MALFORMED, "It sent a frame of no known kind.")
        elif not self.company.allowances.take(link.peer, kind, asyncio.get_running_loop().time()):
            self._fault(link, kind, judging.FLOOD, Fault.FLOOD, f"It sends too much: {kind.name}.")
        elif kind in HANDLERS:
            self._on_own(link, kind, frame)
        else:
            await self._on_pushed(link, kind, frame)

    async def _on_pushed(self, link: Link, kind: Kind, frame: bytes) -> None:
        digest = compute_digest(frame)
        link.note(digest)
        if self.company.seen.add(digest):
            await self.inbox.put(Received(link.peer, frame, digest))
        else:
            self.company.counter.add(kind, judging.KNOWN)

    async def _on_answer(self, link: Link, frame: bytes) -> None:
        try:
            message = decode_message(self.runner.engine.ledger.scope, frame)
            root = self.catching_up.on_answer(link.peer, message)
        except MalformedSSZ as error:
            self._fault(link, Kind.BLOCK, judging.MALFORMED, Fault.MALFORMED, error.what)
        except RefusedPeer as error:
            self._fault(link, Kind.BLOCK, judging.UNASKED, Fault.UNASKED, error.what)
        else:
            self.company.counter.add(message.kind, judging.ANSWER)
            if root:
                await self.inbox.put(Received(link.peer, frame, compute_digest(frame)))

    def _on_own(self, link: Link, kind: Kind, frame: bytes) -> None:
        """What is the driver's own business."""
        try:
            message = decode_message(self.runner.engine.ledger.scope, frame)
            HANDLERS[kind](self, link, message)
        except MalformedSSZ as error:
            self._fault(link, kind, judging.MALFORMED, Fault.MALFORMED, error.what)
        except RefusedPeer as error:
            self._fault(link, kind, judging.FLOOD, Fault.FLOOD, error.what)
        else:
            self.company.counter.add(kind, judging.NEW)

    def _on_status(self, link: Link, message: Message) -> None:
        self.company.statuses[link.peer] = message.value
        self.company.clocks.on_status(link.peer, message.value.time_ms, self.now_ms())
        self.catching_up.on_status(link.peer, message.value)

    def _on_addresses(self, link: Link, message: Message) -> None:
        self._dialling.learn(link, message.value)

    def _on_question(self, link: Link, message: Message) -> None:
        self._answerer.answer(link, message)

    def _fault(self, link: Link, kind: Kind | None, verdict: str, fault: Fault, what: str) -> None:
        self.company.counter.add(kind, verdict)
        self.company.blame(link.peer, fault, what)

    # Judging

    async def _judge(self) -> None:
        while True:
            received = await self.inbox.take(MAX_JUDGED)
            for item in received:
                self._act(item, await self._judge_one(item))

    async def _judge_one(self, item: Received) -> Judged:
        try:
            return await self.runner.run(judge, self.runner.engine, item, self.now_ms())
        except CorruptedLedger:
            raise
        except Unavailable as error:
            self.runner.note(error)
            return Judged(judging.FAILED)

    def _act(self, item: Received, judged: Judged) -> None:
        """What follows from a verdict."""
        kind, _ = read_head(item.frame)
        self.company.counter.add(kind, judged.verdict)
        self.emit(judged.sends)
        if judged.fault is not None:
            self.company.blame(item.peer, judged.fault, judged.what)
        if judged.verdict in (judging.EARLY, judging.FAILED):
            self.company.seen.forget(item.digest)
        elif judged.root:
            self.catching_up.wanted.on_found(judged.root)
        if judged.missing:
            self.catching_up.want(judged.missing, item.peer, judged.root)


async def run_all(*work: Coroutine[Any, Any, None]) -> None:
    """Does several things that never end; raises what ends one of them, once all have ended."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


HANDLERS: Final = {
    Kind.STATUS: Driver._on_status,
    Kind.ADDRESSES: Driver._on_addresses,
    Kind.GET_BLOCKS_BY_RANGE: Driver._on_question,
    Kind.GET_BLOCKS_BY_ROOT: Driver._on_question,
}
"""What is not the engine's to judge."""
