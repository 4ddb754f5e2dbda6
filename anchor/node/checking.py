"""Whether a store still holds what was written to it: every root is derived anew from what is stored.

    1  the database finds nothing wrong with itself
    2  the genesis leads to the first state
    3  every block is what its roots say, and follows the one before it
    4  replayed from the oldest state that is kept, every block leads to the state that it names
    5  the kept states are those
    6  the entries are those of the blocks, at their positions, and no others
    7  manifests, blocks beside the chain and waiting entries are what their roots say
    8  what is noted about the ledger agrees with its chain

Signatures were checked when blocks and entries were taken; here their bytes are held to their roots. What no
root covers, a store's notes and the ledger's name, can be damaged unseen as far as 8 does not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.errors import CorruptedLedger, Invalid, MalformedSSZ, NoSuchRecord
from anchor.node.batches import make_entries
from anchor.node.chain import Chain, compute_block_root
from anchor.node.database import RESTORE
from anchor.node.places import find_store
from anchor.node.records import FOREVER, StoredEntry
from anchor.node.store import Store
from anchor.params import LOGICAL_CLOCK

Progress = Callable[[int], None]
"""Told how many bytes were looked at since the last call."""


class Damage(NamedTuple):
    """The first thing that is wrong."""

    place: str
    """Which table, and how far in it all was well."""
    what: str
    fix: str


class Report(NamedTuple):
    """What was looked at, and what is wrong with it."""

    blocks: int
    states: int
    entries: int
    manifests: int
    missing: int
    """Manifests of versions that are not kept here."""
    damage: Damage | None


def check_folder(folder: Path, progressing: Callable[[int], AbstractContextManager[Progress]]) -> Report:
    """Checks the store of the ledger in `folder`, as it is at this moment, whoever writes to it.

    `progressing` is told how many bytes there are to look at. Raises Unavailable when there is no ledger, or
    its store cannot be had now.
    """
    try:
        with (
            closing(Store.open(find_store(folder), writable=False)) as store,
            store.one_view(),
            progressing(store.measure()) as progress,
        ):
            return check_store(store, progress)
    except CorruptedLedger as error:
        return Report(0, 0, 0, 0, 0, Damage("the database", error.what, error.fix))


def check_store(store: Store, progress: Progress = lambda _: None) -> Report:
    """Derives every root in a store anew; call it in one view. Raises Unavailable when it cannot be read."""
    check = _Check(store, progress)
    damage = None
    try:
        check.look_at_all()
    except CorruptedLedger as error:
        damage = Damage(check.place, error.what, error.fix)
    except (Invalid, MalformedSSZ, NoSuchRecord) as error:
        damage = Damage(check.place, error.what, RESTORE)
    return Report(check.blocks, check.states, check.entries, check.manifests, check.missing, damage)


class _Check:
    """Goes through a store; `place` says how far. Raises from the tree of errors at the first damage."""

    def __init__(self, store: Store, progress: Progress) -> None:
        self._store, self._progress = store, progress
        self._chain = Chain(store)
        self._state: Any = None
        """After the newest block that was looked at, where a kept state leads there."""
        self._snapshots: set[int] = set()
        """Slots of the kept states that were not looked at."""
        self.place = "the database"
        self.blocks = self.states = self.entries = self.manifests = self.missing = 0

    def look_at_all(self) -> None:
        self._store.check_itself()  # 1
        self._look_at_genesis()
        self._look_at_blocks()
        self._look_at_entries()
        self._look_at_manifests()
        self._look_at_what_waits()
        self._look_at_notes()

    def _look_at_genesis(self) -> None:  # 2
        self.place = "the genesis"
        root = self._store.get_genesis_root()
        rules = self._chain.ledger
        if compute_block_root(rules, rules.initialize_ledger_state(self._chain.genesis)) != root:
            raise _differs("The genesis does not lead to the first state")
        state = self._chain.get_state(root)
        if self._store.find_missing_root() is None:
            self._state = state
        self._snapshots = set(self._store.get_snapshot_slots()) - {0}

    def _look_at_blocks(self) -> None:
        self.place = "blocks, from the first on"
        parent = self._store.find_missing_root() or self._store.get_genesis_root()
        for stored in self._store.get_blocks(0, FOREVER):
            block = self._chain.decode_block(stored)  # 3
            if block.message.parent_root != parent:
                raise _differs(f"The block of slot {stored.slot} does not follow the one before it")
            parent = stored.root
            self._follow(stored.root, block)
            self.blocks += 1
            self._progress(len(stored.ssz))
            self.place = f"blocks, after slot {stored.slot}"
        if self._snapshots:
            raise _differs(f"There is a state of slot {min(self._snapshots)}, where no block is")
        if self._state is None:
            raise _differs("There is no state from which the blocks could be replayed")

    def _follow(self, root: bytes, block: SignedBeaconBlock) -> None:
        slot = int(block.message.slot)
        if self._state is not None:
            self._state = self._chain.trusting_ledger.state_transition(self._state, block)  # 4
            count = len(self._state.entries)
            expected = list(make_entries([block], count))
            if list(self._store.get_entries(count - len(expected), count)) != expected:  # 6
                raise _differs(f"The entries of the block of slot {slot} are not the stored ones")
        if slot in self._snapshots:
            self._snapshots.discard(slot)
            self._look_at_state(slot, root)

    def _look_at_state(self, slot: int, root: bytes) -> None:  # 5
        snapshot = self._store.get_snapshot_before(slot)
        state = self._chain.decode_snapshot(snapshot)
        if snapshot.root != root:
            raise _differs(f"The state of slot {slot} is another block's")
        self._state = state if self._state is None else self._state
        self.states += 1
        self._progress(len(snapshot.ssz))

    def _look_at_entries(self) -> None:  # 6
        self.place, known = "entries, from the first on", self._state.entries
        stop = None
        for stored in self._store.get_entries(0, FOREVER):
            self._chain.decode_entry(stored)
            is_next = stored.position == (stored.position if stop is None else stop)
            if not is_next or stored.position >= len(known) or known[stored.position] != stored.root:
                raise _differs(f"Entry {stored.position} is not the one that the newest state names")
            stop = stored.position + 1
            self.entries += 1
            self._progress(len(stored.ssz))
            self.place = f"entries, after position {stored.position}"
        is_whole = self._store.find_missing_root() is None
        if (stop or 0) != len(known) and (is_whole or stop is not None):
            raise _differs(f"Entry {stop or 0} is missing")
        if is_whole and self.entries != len(known):
            raise _differs("The first entries are missing")

    def _look_at_manifests(self) -> None:  # 7
        self.place = "manifests, from the first on"
        roots = self._store.get_manifest_roots()
        for root in roots:
            self._progress(len(self._chain.get_manifest(root)))
            self.manifests += 1
            self.place = f"manifests, after 0x{root.hex()}"
        self.missing = len({version.manifest_root for version in self._state.versions} - {*roots})

    def _look_at_what_waits(self) -> None:  # 7
        self.place = "side_blocks"
        for stored in self._store.get_side_blocks():
            self._chain.decode_block(stored)
        self.place = "pending"
        for number, (root, ssz) in enumerate(self._store.get_pending_entries()):
            self._chain.decode_entry(StoredEntry(number, root, 0, 0, ssz))

    def _look_at_notes(self) -> None:  # 8
        self.place = "ledger"
        final = self._store.get_final_slot()
        stored = self._store.find_block_before(final)
        if final and (stored is None or stored.slot != final):
            raise _differs(f"There is no block of slot {final}, which is noted to be final")
        epoch = self._chain.ledger.get_current_epoch(self._state)
        if self._chain.genesis.clock == LOGICAL_CLOCK and self._store.get_reserved() < epoch:
            raise _differs(f"There are blocks of epoch {epoch}, in which nothing is noted to be signed")


def _differs(what: str) -> CorruptedLedger:
    return CorruptedLedger(f"{what}.", fix=RESTORE)
