"""The writer of a ledger that several nodes keep: an engine, its validators, and its peers."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import SignedVoluntaryExit
from anchor.consensus.presets import LEDGER
from anchor.consensus.weak_subjectivity import compute_expiry
from anchor.errors import Misuse, Unavailable
from anchor.lock import hold_folder
from anchor.node import writer
from anchor.node.chain import Chain
from anchor.node.clock import Clock
from anchor.node.health import Health
from anchor.node.logs import warn
from anchor.node.network.backfill import Backfill, get_first_position
from anchor.node.network.company import Company, Settings
from anchor.node.network.driver import Driver, run_all
from anchor.node.network.engine import Engine
from anchor.node.network.faults import Faults
from anchor.node.network.handshake import Identity
from anchor.node.network.identity import load_identity
from anchor.node.network.manifests import Fetcher
from anchor.node.network.messages import Kind, Message
from anchor.node.network.runner import Runner
from anchor.node.places import find_store
from anchor.node.pruning import prune_store
from anchor.node.records import Batch
from anchor.node.store import Store
from anchor.node.validators.folder import open_validators
from anchor.node.writer import Gauges, Refresh

MAX_SUBMITTED: Final = 512
"""Entries that senders wait for at once."""
GRACE_SECONDS: Final = 15.0
"""After the start, in which nobody need be connected."""
PRUNE_SECONDS: Final = 600.0
"""Between two times that old blocks are let go of."""
PROGRESS_SECONDS: Final = 5.0
"""Between two looks at how the network goes on."""


class Keystores(NamedTuple):
    """Validators to sign with."""

    folder: Path
    password: str


class Networked:
    """Writes what the network agrees on; takes part in that with validators, if it has any."""

    network: Driver | None = None

    def __init__(self, folder: Path, keystores: Keystores | None, settings: Settings, clock: Clock) -> None:
        self._folder, self._keystores, self._settings, self._clock = folder, keystores, settings, clock
        self._thread, self._opened = ThreadPoolExecutor(1, "engine"), ExitStack()
        self._submitted: dict[bytes, asyncio.Future[int]] = {}

    # Its life

    async def start(self) -> None:
        """Opens ledger and validators. Raises Unavailable when another process has one of them."""
        own = await asyncio.get_running_loop().run_in_executor(self._thread, self._open)
        engine, settings = self._runner.engine, self._settings
        company = Company(self._folder, own, settings, engine.ledger.scope, os.urandom)
        faults = Faults(company, engine, self._keys, are_allowed=settings.has_faults)
        self._driver = Driver(self._runner, self._backfill, company, faults, settings, self._clock)
        self.network = self._driver
        self._lonely_from = asyncio.get_running_loop().time() + GRACE_SECONDS

    def _open(self) -> Identity:
        with ExitStack() as opened:
            opened.enter_context(hold_folder(self._folder, patience=0, on_wait=lambda _: None))
            self._store = opened.enter_context(closing(Store.open(find_store(self._folder), writable=True)))
            chain, validators = Chain(self._store), None
            network_id = chain.get_head().state.genesis_validators_root
            _warn_of_age(chain, self._clock.now())
            if self._keystores is not None:
                validators = opened.enter_context(open_validators(*self._keystores, network_id))
            self._keys = None if validators is None else validators.keyring
            engine = Engine(self._store, validators)
            self._runner = Runner(engine, self._store, self._thread)
            self._progress = engine.get_progress()
            is_done = self._settings.prunes and get_first_position(self._store, chain) == 0
            missing = None if is_done else self._store.find_missing_root()
            self._backfill = Backfill(missing, self._store.get_oldest_slot())
            key = load_identity(self._folder, os.urandom)
            self._opened = opened.pop_all()
        settings = self._settings
        return Identity(key, network_id, chain.genesis.fork_version, settings.url, settings.certificate)

    async def stop(self) -> None:
        """Lets ledger and validators go."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._opened.close)
        self._thread.shutdown()

    async def run(self, refresh: Refresh) -> None:
        """Takes part in the network, for ever."""
        fetcher = Fetcher(self._find_missing, self._get_urls, self.keep_manifest)
        await run_all(self._driver.run(), self._follow(refresh), self._look(), fetcher.run(), self._prune())

    async def _follow(self, refresh: Refresh) -> None:
        """Shows readers the chain whenever it has moved."""
        shown = None
        while True:
            await self._driver.changed.wait()
            self._driver.changed.clear()
            stand = self._runner.stand
            if stand != shown:
                try:
                    await refresh()
                    await self._settle()
                except Unavailable as error:
                    self._runner.note(error)
                else:
                    shown = stand

    async def _prune(self) -> None:
        """Lets go of old blocks, once none is asked for any more: the entries in them are wanted."""
        while self._settings.prunes:
            try:
                if self._backfill.missing is None:
                    await self._runner.run(prune_store, self._store)
            except Unavailable as error:
                self._runner.note(error)
            await asyncio.sleep(PRUNE_SECONDS)

    async def _look(self) -> None:
        while True:
            self._progress = await self._runner.run(self._runner.engine.get_progress)
            await asyncio.sleep(PROGRESS_SECONDS)

    # Entries

    async def submit(self, root: bytes, entry: SignedEntry) -> int:
        """Gives an entry to the network; its position once it is final, or recorded and a while has passed.

        Raises Invalid when the ledger refuses it, Unavailable when too many wait, or it is not recorded yet.
        """
        if root not in self._submitted and len(self._submitted) >= MAX_SUBMITTED:
            raise Unavailable("The node is busy: too many entries wait.", fix="Send it again later.")
        sends = await self._runner.run(self._runner.engine.submit, entry, self._driver.now_ms())
        self._driver.emit(sends)
        if root not in self._submitted:
            self._submitted[root] = asyncio.get_running_loop().create_future()
            self._submitted[root].add_done_callback(lambda _: self._submitted.pop(root))
        try:
            return await asyncio.wait_for(asyncio.shield(self._submitted[root]), writer.PATIENCE)
        except TimeoutError:
            return await self._runner.run(self._require_recorded, root)

    def _require_recorded(self, root: bytes) -> int:
        stored = self._store.find_entry_by_root(root)
        if stored is None:
            raise Unavailable(
                f"The entry is kept, and no block has it after {writer.PATIENCE:.0f} s.",
                fix="Send the same entry again: it is never recorded twice.",
            )
        return stored.position

    async def _settle(self) -> None:
        """Answers for entries that have become final."""
        if not self._submitted:
            return
        found = await self._runner.run(self._find_final, list(self._submitted))
        for root, position in found.items():
            if not self._submitted[root].done():
                self._submitted[root].set_result(position)

    def _find_final(self, roots: list[bytes]) -> dict[bytes, int]:
        stored = [self._store.find_entry_by_root(root) for root in roots]
        final = self._runner.engine.final_slot
        return {one.root: one.position for one in stored if one is not None and one.slot <= final}

    async def register(self, identity: bytes) -> int:
        """Raises Misuse: the administrator's key of a network is on no node."""
        raise Misuse(
            "This node has no administrator's key: several operators keep this ledger.",
            fix="Let an administrator sign the entry, and send it in.",
        )

    async def leave(self, wish: SignedVoluntaryExit) -> None:
        """Passes on that a validator wants to leave. Raises InvalidTransition when it may not."""
        engine, message = self._runner.engine, Message(Kind.EXIT, wish)
        self._driver.emit(await self._runner.run(engine.on_message, message, b"", self._driver.now_ms()))

    # Manifests

    async def keep_manifest(self, root: bytes, data: bytes) -> None:
        """Keeps a published manifest. Durable on return."""
        await self._runner.run(self._store.commit, Batch(manifests=((root, data),)))

    async def _find_missing(self) -> list[bytes]:
        return await self._runner.run(self._list_missing)

    def _list_missing(self) -> list[bytes]:
        named = [leaf.manifest_root for leaf in Chain(self._store).get_head().state.versions]
        return sorted({*named} - {*self._store.get_manifest_roots()})

    def _get_urls(self) -> list[str]:
        return [link.url for link in self._driver.company.links.all.values() if link.url]

    # How it goes

    def judge_health(self, health: Health) -> Health:
        """A verdict on finality, and what is wrong with store, clock, votes or peers, or this node lacks."""
        company, progress = self._driver.company, self._progress
        count, behind = len(company.links.all), self._driver.catching_up.words
        wrong = [self._runner.trouble, company.clocks.get_words()]
        if behind and not health.is_good:
            wrong.append(behind)  # whether the network goes on is not known here yet
        elif not health.is_good or not progress.is_final:
            wrong.append(health.words if progress.is_final else progress.words)
        if not count and self._settings.listed and asyncio.get_running_loop().time() > self._lonely_from:
            wrong.append("No peer is connected. See that their nodes are up, and can be reached.")
        words = " ".join(filter(None, wrong))
        if words:
            return replace(health, is_good=False, words=words)
        return replace(health, words=f"{health.words} Peers: {count}.")

    def measure(self) -> Gauges:
        """Peers, queues, votes."""
        company, progress = self._driver.company, self._progress
        share = progress.voting / progress.stake if progress.stake else 0.0
        return {
            "entries_waiting": ("Entries that senders wait for.", len(self._submitted)),
            "peers": ("Peers that are connected.", len(company.links.all)),
            "peer_addresses": ("Addresses of nodes that are known.", len(company.book)),
            "peer_frames_waiting": ("Frames from peers that wait to be judged.", len(self._driver.inbox)),
            "peer_frames_unsent": (
                "Frames that wait to be sent to peers.",
                sum([link.frames.qsize() for link in company.links.all.values()]),
            ),
            "clock_offset_ms": ("By how much most peers' clocks are ahead.", company.clocks.get_offset()),
            "voting_stake_ratio": ("The share of stake that votes.", share),
            "slots_since_block": ("Slots since the newest block.", progress.slots_since_block),
        }


def _warn_of_age(chain: Chain, now: int) -> None:
    """A network that was down for long goes on; but whoever was away alone should know (rule 21)."""
    final = chain.get_finalized_checkpoint()
    if now >= compute_expiry(chain.get_state(final.root), LEDGER.SLOTS_PER_EPOCH):
        warn(
            f"What is final here, epoch {final.epoch}, is older than its weak-subjectivity period: "
            "validators who have left since could show this node another history. If the others went on "
            "without it, compare a new checkpoint with somebody whom you trust, or join them anew.",
            epoch=int(final.epoch),
        )
