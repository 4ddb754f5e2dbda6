"""The writer of a ledger that one operator keeps alone: entries wait, and are recorded together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import SignedVoluntaryExit
from anchor.errors import AnchorError, Misuse, Unavailable
from anchor.node import writer
from anchor.node.clock import Clock
from anchor.node.folder import open_writer
from anchor.node.health import Health
from anchor.node.intake import sift
from anchor.node.service import Service
from anchor.node.writer import Gauges, Refresh

if TYPE_CHECKING:
    from anchor.node.network.driver import Driver

P = ParamSpec("P")
T = TypeVar("T")
MAX_SUBMITTED: Final = 256
"""Entries that wait to be recorded."""
Waiting = list[tuple[SignedEntry, asyncio.Future[int]]]


class Embedded:
    """Writes with the committee's `seed`."""

    network: Driver | None = None

    def __init__(self, folder: Path, seed: bytes, clock: Clock) -> None:
        self._folder, self._seed, self._clock = folder, seed, clock
        self._thread, self._opened = ThreadPoolExecutor(1, "writer"), ExitStack()
        self._queue: asyncio.Queue[tuple[SignedEntry, asyncio.Future[int]]] = asyncio.Queue(MAX_SUBMITTED)
        self._submitted: dict[bytes, asyncio.Future[int]] = {}

    async def start(self) -> None:
        """Opens the ledger. Raises Unavailable when another process writes to it."""
        self._service = await self._write(self._open)

    def _open(self) -> Service:
        opened = open_writer(self._folder, self._seed, self._clock, on_wait=lambda _: None, patience=0)
        service = self._opened.enter_context(opened)
        service.finish()
        return service

    async def stop(self) -> None:
        """Lets the ledger go, once what is being recorded is."""
        await self._write(self._opened.close)
        self._thread.shutdown()

    async def submit(self, root: bytes, entry: SignedEntry) -> int:
        """Records an entry; all that is recorded here is final. Raises Invalid, Unavailable."""
        try:
            if root not in self._submitted:
                done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                self._queue.put_nowait((entry, done))
                self._submitted[root] = done
                done.add_done_callback(lambda _: self._submitted.pop(root))
            return await asyncio.wait_for(asyncio.shield(self._submitted[root]), writer.PATIENCE)
        except asyncio.QueueFull:
            raise Unavailable(
                "The node is busy: too many entries wait.", fix="Send it again later."
            ) from None
        except TimeoutError:
            raise Unavailable(
                f"The entry is not final after {writer.PATIENCE:.0f} s.",
                fix="Send the same entry again: it is never recorded twice.",
            ) from None

    async def keep_manifest(self, root: bytes, data: bytes) -> None:
        """Keeps a published manifest. Durable on return."""
        await self._write(self._service.keep_manifest, root, data)

    async def register(self, identity: bytes) -> int:
        """Registers a publisher. Raises Invalid when it is registered already."""
        recorded = await self._write(self._service.register, identity)
        return recorded.positions[0]

    async def leave(self, wish: SignedVoluntaryExit) -> None:
        """Raises Misuse: there is one operator, who would be left with nobody."""
        raise Misuse(
            f"Validator {wish.message.validator_index} does not leave: one operator keeps this ledger.",
            fix="Stop it, or go on with a network: anchor network --help",
        )

    def judge_health(self, health: Health) -> Health:
        """Nothing else can be wrong."""
        return health

    def measure(self) -> Gauges:
        """How many wait."""
        return {"entries_waiting": ("Entries that wait to be recorded.", len(self._submitted))}

    async def run(self, refresh: Refresh) -> None:
        """Records what waits, for ever."""
        waiting: Waiting = []
        while True:
            waiting = waiting or [await self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            waiting = await self._record(waiting, refresh)

    async def _record(self, waiting: Waiting, refresh: Refresh) -> Waiting:
        """Records what can be; answers for it; returns what is left for the next time."""
        try:
            entries = [entry for entry, _ in waiting]
            positions, refused, left = await self._write(self._record_entries, entries)
            await refresh()
        except AnchorError as error:
            positions, refused, left = {}, dict.fromkeys(range(len(waiting)), error), []
        for place, (_, done) in enumerate(waiting):
            if not done.done() and place in positions:
                done.set_result(positions[place])
            elif not done.done() and place in refused:
                done.set_exception(refused[place])
        return [waiting[place] for place in left]

    def _record_entries(
        self, entries: list[SignedEntry]
    ) -> tuple[dict[int, int], dict[int, AnchorError], list[int]]:
        sifted = sift(self._service.chain, entries)
        positions: tuple[int, ...] = ()
        if sifted.taken:
            positions = self._service.record([entries[place] for place in sifted.taken]).positions
        return dict(zip(sifted.taken, positions, strict=True)), dict(sifted.refused), sifted.left

    async def _write(self, method: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: method(*args, **more))
