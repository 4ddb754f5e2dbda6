"""Drivers with real engines on loopback, on a clock that stands still until it is set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from anchor.consensus.containers.phase0 import Checkpoint, SignedBeaconBlock
from anchor.errors import AnchorError
from anchor.node.network.backfill import Backfill
from anchor.node.network.company import Company, Settings
from anchor.node.network.driver import Driver
from anchor.node.network.engine import Engine
from anchor.node.network.faults import Faults
from anchor.node.network.links import PATH
from anchor.node.network.messages import Kind, Message, PeerStatus, decode_message, encode_message
from anchor.node.network.runner import Runner
from tests.consensus.ledgers import GENESIS_TIME
from tests.node.network.tools import SLOT, Unsigned, make_hands, make_network_genesis, make_store, open_store
from tests.node.network.wires import make_identity, peer
from tests.node.tools import Random

VALIDATORS = 16


class Clock:
    """Shows a slot's beginning, or some time after it."""

    def __init__(self, slot: float = 0) -> None:
        self.slot = slot

    def now(self) -> int:
        """Seconds."""
        return self.now_ms() // 1000

    def now_ms(self) -> int:
        """Milliseconds."""
        return int((GENESIS_TIME + self.slot * SLOT) * 1000)


@dataclass
class DriverSite:
    """A driver that runs and can be reached."""

    driver: Driver
    clock: Clock
    url: str = ""

    @property
    def engine(self) -> Engine:
        """Its engine."""
        return self.driver.runner.engine

    @property
    def head_slot(self) -> int:
        """Of its newest block."""
        return int(self.driver.runner.stand.status.head_slot)

    def count(self, kind: str, verdict: str) -> int:
        """Frames of a kind of which that came."""
        return self.driver.company.counter._counts[kind, verdict]

    def encode(self, kind: Kind, value: Any, request: int = 0) -> bytes:
        """A frame."""
        return encode_message(self.engine.ledger.scope, Message(kind, value, request))

    async def make_blocks(self, start: int, stop: int) -> None:
        """Lets its validators make the blocks of slots start … stop - 1."""
        runner = self.driver.runner
        for slot in range(start, stop):
            for part in (0.0, 0.4, 0.8):
                self.clock.slot = slot + part
                await runner.run(self.engine.on_tick, self.clock.now_ms())

    async def get_blocks(self, start: int, count: int) -> list[SignedBeaconBlock]:
        """Blocks of its chain."""
        encoded = await self.driver.runner.run(self.engine.get_blocks_by_range, start, count)
        return [self.engine.ledger.scope.schema(SignedBeaconBlock).decode(block) for block in encoded]


@asynccontextmanager
async def driving(
    folder: Path,
    name: str,
    *,
    validators: Sequence[int] = (),
    clock: Clock | None = None,
    runs: bool = True,
    listed: Sequence[str] = (),
    prepare: Callable[[DriverSite], Awaitable[None]] | None = None,
) -> AsyncIterator[DriverSite]:
    """A node in `folder`; `prepare` has it before it meets anybody."""
    genesis, home, clock = make_network_genesis(VALIDATORS), folder / name, clock or Clock()
    if not home.exists():
        make_store(home, genesis)
    with ThreadPoolExecutor(1) as thread:
        loop = asyncio.get_running_loop()

        def start() -> tuple[Runner, Backfill, Any]:
            store, bls = open_store(home), Unsigned()
            hands = make_hands(bls, validators) if validators else None
            runner = Runner(Engine(store, hands, bls), store, thread)
            return runner, Backfill(store.find_missing_root(), store.get_oldest_slot()), hands

        runner, backfill, hands = await loop.run_in_executor(thread, start)
        engine, settings = runner.engine, Settings(listed=tuple(listed), has_faults=True)
        network = bytes(engine.ledger.initialize_ledger_state(genesis).genesis_validators_root)
        company = Company(
            home, make_identity(name, network), settings, engine.ledger.scope, Random(name.encode())
        )
        faults = Faults(company, engine, hands.keyring if hands else None, are_allowed=True)
        site = DriverSite(Driver(runner, backfill, company, faults, settings, clock), clock)
        if prepare is not None:
            await prepare(site)
        async with _serving(site):
            task = asyncio.create_task(site.driver.run() if runs else asyncio.sleep(3600))
            try:
                yield site
            finally:
                site.driver.hang_up()
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await loop.run_in_executor(thread, runner.store.close)


@asynccontextmanager
async def _serving(site: DriverSite) -> AsyncIterator[None]:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await site.driver.accept(request)
        except AnchorError as error:
            return web.Response(status=503, text=error.what)

    app = web.Application()
    app.router.add_get(PATH, answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield
    finally:
        site.driver.hang_up()
        await runner.cleanup()


class Mallory:
    """A peer that says what a test wants."""

    def __init__(self, site: DriverSite, socket: aiohttp.ClientWebSocketResponse, identity: bytes) -> None:
        self._site, self.socket, self.identity = site, socket, identity

    async def push(self, kind: Kind, value: Any, request: int = 0) -> None:
        """Sends a message."""
        await self.socket.send_bytes(self._site.encode(kind, value, request))

    async def receive(self, kind: Kind) -> Message:
        """The next message of a kind; others are passed over."""
        while True:
            frame = await asyncio.wait_for(self.socket.receive_bytes(), 10)
            if frame[0] == kind:
                return decode_message(self._site.engine.ledger.scope, frame)

    async def claim(self, slot: int, root: bytes = b"\1" * 32, epoch: int = 0) -> None:
        """Says how it stands."""
        final = Checkpoint(epoch=epoch, root=bytes(32))
        time_ms = self._site.clock.now_ms()
        status = PeerStatus(finalized=final, head_root=root, head_slot=slot, earliest_slot=0, time_ms=time_ms)
        await self.push(Kind.STATUS, status)

    @property
    def points(self) -> float:
        """What is held against it; a ban is 100."""
        import time

        return self._site.driver.company.standings.get_points(self.identity, time.time())


@asynccontextmanager
async def meeting(site: DriverSite, name: str = "mallory") -> AsyncIterator[Mallory]:
    """A peer of a driver."""
    identity = make_identity(name, site.driver.company.links.own.network_id)
    async with peer(site.url, identity) as socket:
        yield Mallory(site, socket, identity.public)
