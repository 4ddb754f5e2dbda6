"""A node over one ledger: one thread reads, one writes, and the event loop hands out what they find.

    submit ─► queue ─► writer: verify, persist, apply ─► reader: refresh ─► listeners
    read   ─► reader

What a handler knows of a node is here: `read` with a method of `Reader`, `submit_entry`, `keep_manifest`,
`register_publisher`, `status` and `events`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import AnchorError, Misuse, Unavailable
from anchor.node.chain import Chain, Status
from anchor.node.clock import Clock
from anchor.node.events import Bus, describe_changes
from anchor.node.folder import open_writer
from anchor.node.health import Health, judge_health
from anchor.node.intake import sift
from anchor.node.places import find_store
from anchor.node.reading import Reader, entry_root
from anchor.node.service import Service
from anchor.node.store import Store

P = ParamSpec("P")
T = TypeVar("T")
MAX_READS: Final = 64
"""Reads that wait for the one reader; more are refused, so that none waits for long."""
MAX_SUBMITTED: Final = 256
"""Entries that wait to be recorded."""
PATIENCE: Final = 60.0
"""Seconds that who sent an entry waits for it to be final."""
POLL: Final = 1.0
"""Seconds between looks at a ledger that another process writes to."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an entry that was sent in."""

    root: bytes
    position: int
    """In the ledger's list of entries."""
    final: Checkpoint | None
    """A finalised checkpoint whose state holds the entry; None while it is recorded and not final."""


class Node:
    """Opens a ledger, with its committee's `seed` to write to it, or without to serve what another writes."""

    def __init__(self, folder: Path, seed: bytes | None, clock: Clock) -> None:
        self._folder, self._seed, self.clock = folder, seed, clock
        self.events = Bus()
        self.generation = 0
        """Grows whenever answers may change."""
        self._readers, self._writers = ThreadPoolExecutor(1, "reader"), ThreadPoolExecutor(1, "writer")
        self._reading, self._writing = ExitStack(), ExitStack()
        self.reads = 0
        """Questions that wait for the reader."""
        self._queue: asyncio.Queue[tuple[SignedEntry, asyncio.Future[int]]] = asyncio.Queue(MAX_SUBMITTED)
        self._submitted: dict[bytes, asyncio.Future[int]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    # Its life

    async def start(self) -> None:
        """Opens the ledger. Raises Unavailable when it cannot be had, or another process writes to it,
        InvalidCheckpoint when its chain conflicts with a checkpoint in the code.
        """
        if self._seed is not None:
            self._service: Service = await self._write(self._open_writer, self._seed)
        self._store, self._reader = await self._in(self._readers, self._open_reader)
        task = self._poll() if self._seed is None else self._record_forever()
        self._tasks = [asyncio.create_task(task)]

    async def watch(self) -> None:
        """Raises what ends the node's own work, if anything ever does."""
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """Ends what is being done, and lets the ledger go. What was acknowledged stands."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.events.close()
        await self._in(self._writers, self._writing.close)
        await self._in(self._readers, self._reading.close)
        self._writers.shutdown()
        self._readers.shutdown()

    def _open_writer(self, seed: bytes) -> Service:
        writer = open_writer(self._folder, seed, self.clock, on_wait=lambda _: None, patience=0)
        service = self._writing.enter_context(writer)
        service.finish()
        return service

    def _open_reader(self) -> tuple[Store, Reader]:
        store = self._reading.enter_context(closing(Store.open(find_store(self._folder), writable=False)))
        with store.one_view():
            chain = Chain(store)
            chain.verify_hardcoded()
            _ = chain.genesis  # read once, here: it is asked for on the event loop
            return store, Reader(chain)

    # Reading

    @property
    def status(self) -> Status:
        """How the ledger stood when it was last looked at."""
        return self._reader.status

    @property
    def takes_entries(self) -> bool:
        """Whether this node writes to its ledger."""
        return self._seed is not None and self.status.may_sign

    @property
    def waiting(self) -> int:
        """Entries that wait to be recorded."""
        return len(self._submitted)

    def judge_health(self) -> Health:
        """Whether the ledger is as it should be now."""
        return judge_health(self.status, self._reader.chain.genesis, self.clock.now())

    async def compute(self, method: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """What a function of values gives, off the event loop."""
        return await self._in(self._readers, method, *args, **more)

    async def read(self, method: Callable[Concatenate[Reader, P], T], *args: P.args, **more: P.kwargs) -> T:
        """What a method of `Reader` answers. Raises Unavailable when too many wait already."""
        if self.reads >= MAX_READS:
            raise Unavailable("The node is busy: too many questions wait.", fix="Try again in a second.")
        self.reads += 1
        try:
            return await self._in(self._readers, self._read, method, args, more)
        finally:
            self.reads -= 1

    def _read(self, method: Callable[..., T], args: tuple[Any, ...], more: dict[str, Any]) -> T:
        with self._store.one_view():
            return method(self._reader, *args, **more)

    async def refresh(self) -> None:
        """Looks at the ledger again, and tells what changed."""
        old = self._reader
        new, told = await self._in(self._readers, self._look)
        if new is not old:
            self._reader, self.generation = new, self.generation + 1
            for topic, data in told:
                self.events.publish(topic, data)

    def _look(self) -> tuple[Reader, list[tuple[str, dict[str, Any]]]]:
        with self._store.one_view():
            new = self._reader.refresh()
            return new, [] if new is self._reader else describe_changes(self._reader, new)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL)
            try:
                await self.refresh()
            except Unavailable:
                continue  # a store that is in use now can be read in a second

    # Writing

    async def submit_entry(self, entry: SignedEntry) -> Receipt:
        """Records an entry; the same entry again is answered as the first time.

        Raises Invalid when the ledger refuses it, Misuse when this node takes none, Unavailable when it is
        busy, or cannot write.
        """
        root = entry_root(entry)
        found = await self.read(Reader.find_entry, root)
        position = await self._enqueue(root, entry) if found is None else found.stored.position
        final = self.status.finalized if position < self.status.final_entries else None
        return Receipt(root, position, final)

    async def _enqueue(self, root: bytes, entry: SignedEntry) -> int:
        self._require_writer()
        try:
            if root not in self._submitted:
                done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                self._queue.put_nowait((entry, done))
                self._submitted[root] = done
                done.add_done_callback(lambda _: self._submitted.pop(root))
            return await asyncio.wait_for(asyncio.shield(self._submitted[root]), PATIENCE)
        except asyncio.QueueFull:
            raise Unavailable(
                "The node is busy: too many entries wait.", fix="Send it again later."
            ) from None
        except TimeoutError:
            raise Unavailable(
                f"The entry is not final after {PATIENCE:.0f} s.",
                fix="Send the same entry again: it is never recorded twice.",
            ) from None

    async def keep_manifest(self, root: bytes, data: bytes) -> bool:
        """Keeps a published manifest; False when it was here. Raises as `Reader.verify_manifest` does."""
        self._require_writer()
        is_new = await self.read(Reader.verify_manifest, root, data)
        if is_new:
            await self._write(self._service.keep_manifest, root, data)
            self.generation += 1
        return is_new

    async def register_publisher(self, identity: bytes) -> Receipt:
        """Registers a publisher, as the administrator. Raises Invalid when it is registered already."""
        self._require_writer()
        recorded = await self._write(self._service.register, identity)
        await self.refresh()
        found = await self.read(Reader.get_entry, recorded.positions[0])
        return Receipt(found.stored.root, found.stored.position, self.status.finalized)

    def _require_writer(self) -> None:
        if not self.takes_entries:
            raise Misuse("This node only reads its ledger.", fix="Ask its operator which node writes.")

    async def _record_forever(self) -> None:
        waiting: list[tuple[SignedEntry, asyncio.Future[int]]] = []
        while True:
            waiting = waiting or [await self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            waiting = await self._record(waiting)

    async def _record(
        self, waiting: list[tuple[SignedEntry, asyncio.Future[int]]]
    ) -> list[tuple[SignedEntry, asyncio.Future[int]]]:
        """Records what can be; answers for it; returns what is left for the next time."""
        try:
            entries = [entry for entry, _ in waiting]
            positions, refused, left = await self._write(self._record_entries, entries)
            await self.refresh()
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
        return await self._in(self._writers, method, *args, **more)

    async def _in(
        self, pool: ThreadPoolExecutor, method: Callable[P, T], *args: P.args, **more: P.kwargs
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: method(*args, **more))
