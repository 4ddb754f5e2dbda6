"""A node over one ledger: one thread reads, one writes, and the event loop hands out what they find.

    submit ─► writer: verify, persist, apply ─► reader: refresh ─► listeners
    read   ─► reader

What a handler knows of a node is here: `read` with a method of `Reader`, `submit_entry`, `keep_manifest`,
`submit_exit`, `register_publisher`, `status` and `events`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint, SignedVoluntaryExit
from anchor.errors import Misuse, NoSuchRecord, Unavailable
from anchor.node.beacon import BeaconView
from anchor.node.chain import Chain
from anchor.node.clock import Clock
from anchor.node.events import Bus, describe_changes
from anchor.node.health import Health, judge_health
from anchor.node.places import find_store
from anchor.node.presence import Presence
from anchor.node.reading import Reader, entry_root
from anchor.node.status import Status
from anchor.node.store import Store
from anchor.node.writer import Gauges, Writer

if TYPE_CHECKING:
    from anchor.node.network.driver import Driver

P = ParamSpec("P")
T = TypeVar("T")
MAX_READS: Final = 64
"""Reads that wait for the one reader; more are refused, so that none waits for long."""
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
    """Opens a ledger, with a `writer`, or without to serve what another process writes."""

    def __init__(self, folder: Path, writer: Writer | None, clock: Clock) -> None:
        self._folder, self._writer, self.clock = folder, writer, clock
        self.events = Bus()
        self.generation = 0
        """Grows whenever answers may change."""
        self._readers, self._reading = ThreadPoolExecutor(1, "reader"), ExitStack()
        self.reads = 0
        """Questions that wait for the reader."""
        self._tasks: list[asyncio.Task[None]] = []

    # Its life

    async def start(self) -> None:
        """Opens the ledger. Raises Unavailable when it cannot be had, or another process writes to it,
        CorruptedLedger where its store is damaged, InvalidCheckpoint when its chain conflicts with a
        checkpoint in the code.
        """
        await self.compute(self._check_store)
        if self._writer is not None:
            await self._writer.start()
        self._store, self._reader = await self.compute(self._open_reader)
        work = self._poll() if self._writer is None else self._writer.run(self.refresh)
        self._tasks = [asyncio.create_task(work), asyncio.create_task(Presence(self._folder).watch())]

    async def watch(self) -> None:
        """Raises what ends the node's own work, if anything ever does."""
        await asyncio.gather(*self._tasks)

    def hang_up(self) -> None:
        """Ends what would otherwise last as long as whoever listens: events, and links to peers."""
        self.events.close()
        if self._writer is not None and self._writer.network is not None:
            self._writer.network.hang_up()

    async def stop(self) -> None:
        """Ends what is being done, and lets the ledger go. What was acknowledged stands."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.hang_up()
        if self._writer is not None:
            await self._writer.stop()
        await self.compute(self._reading.close)
        self._readers.shutdown()

    def _check_store(self) -> None:
        """What nobody reads for a month is found to be damaged now, while others have it."""
        with closing(Store.open(find_store(self._folder), writable=False)) as store:
            store.check_itself(is_quick=True)

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
        return self._writer is not None and self.status.may_sign

    @property
    def network(self) -> Driver:
        """The node's peers. Raises NoSuchRecord where it has none, because one node keeps the ledger."""
        network = None if self._writer is None else self._writer.network
        if network is None:
            raise NoSuchRecord(
                "This node has no peers.", fix="Ask one that is started with: anchor node --peer"
            )
        return network

    def judge_health(self) -> Health:
        """Whether the ledger is as it should be now."""
        health = judge_health(self.status, self._reader.chain.genesis, self.clock.now())
        return health if self._writer is None else self._writer.judge_health(health)

    def count(self) -> Iterable[str]:
        """Lines of the counters of what peers send."""
        network = None if self._writer is None else self._writer.network
        return () if network is None else network.company.counter.format()

    def measure(self) -> Gauges:
        """What metrics show of the writer."""
        return {} if self._writer is None else self._writer.measure()

    async def compute(self, method: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """What a function of values gives, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, lambda: method(*args, **more))

    async def read(self, method: Callable[Concatenate[Reader, P], T], *args: P.args, **more: P.kwargs) -> T:
        """What a method of `Reader` answers. Raises Unavailable when too many wait already."""
        if self.reads >= MAX_READS:
            raise Unavailable("The node is busy: too many questions wait.", fix="Try again in a second.")
        self.reads += 1
        try:
            return await self.compute(self._read, method, args, more)
        finally:
            self.reads -= 1

    def _read(self, method: Callable[..., T], args: tuple[Any, ...], more: dict[str, Any]) -> T:
        with self._store.one_view():
            return method(self._reader, *args, **more)

    async def show(self, question: Callable[[BeaconView], T]) -> T:
        """What a question about the ledger as a beacon chain is answered with. Raises as `read` does."""
        return await self.read(lambda reader: question(reader.as_beacon))

    async def refresh(self) -> None:
        """Looks at the ledger again, and tells what changed."""
        old = self._reader
        new, told = await self.compute(self._look)
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
        if found is None:
            position = await self._require_writer().submit(root, entry)
        else:
            position = found.stored.position
        return self._write_receipt(root, position)

    async def keep_manifest(self, root: bytes, data: bytes) -> bool:
        """Keeps a published manifest; False when it was here. Raises as `Reader.verify_manifest` does."""
        writer = self._require_writer()
        is_new = await self.read(Reader.verify_manifest, root, data)
        if is_new:
            await writer.keep_manifest(root, data)
            self.generation += 1
        return is_new

    async def submit_exit(self, wish: SignedVoluntaryExit) -> None:
        """Passes on that a validator wants to leave. Raises Invalid or Misuse when it may not."""
        await self._require_writer().leave(wish)

    async def register_publisher(self, identity: bytes) -> Receipt:
        """Registers a publisher, as the administrator. Raises Invalid when it is registered already."""
        position = await self._require_writer().register(identity)
        await self.refresh()
        found = await self.read(Reader.get_entry, position)
        return self._write_receipt(found.stored.root, position)

    def _write_receipt(self, root: bytes, position: int) -> Receipt:
        is_final = position < self.status.final_entries
        return Receipt(root, position, self.status.finalized if is_final else None)

    def _require_writer(self) -> Writer:
        if self._writer is None or not self.takes_entries:
            raise Misuse("This node only reads its ledger.", fix="Ask its operator which node writes.")
        return self._writer
