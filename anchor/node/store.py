"""What a ledger keeps: a few tables, every change one durable transaction. It holds bytes, not meanings.

The rest of the node reaches its data through `Store` alone; nothing else knows SQL.

    blocks        the chain up to its head, by slot; those that are not final may be replaced
    side_blocks   verified blocks beside it
    snapshots     states on the chain; the newest is the head's
    entries       the chain's, by position; `pending` are not on it yet
    manifests     by root
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final, Self

from anchor.errors import CorruptedLedger, InvalidTransition, Misuse, NoSuchRecord, Unavailable
from anchor.node import tables
from anchor.node.database import ELSEWHERE, RESTORE, Database, Value
from anchor.node.places import Place, connect
from anchor.node.records import BLOCK, ENTRY, FOREVER, SNAPSHOT, Batch, Block, Snapshot, StoredEntry

PAGE: Final = 64
"""Rows that are read at once."""

Kinds = tuple[type, ...]


class Store:
    """The tables of one ledger. Every method that changes them is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def create(cls, place: Place, name: str, genesis: bytes, *, reserved: int, may_sign: bool) -> Self:
        """A new, empty store. Raises Unavailable when it cannot be written, Misuse when one is there."""
        database = connect(place, writable=True, is_new=True)
        with ExitStack() as refused:
            refused.callback(database.close)
            with database.transaction():
                database.migrate(tables.get_statements(0), tables.VERSION)
                database.run(tables.BEGIN, name, genesis, reserved, int(may_sign), database.home)
            refused.pop_all()
        return cls(database)

    def erase(self) -> None:
        """Takes back what `create` did, with all that came after."""
        with self._database.transaction():
            for table in tables.TABLES:
                self._database.run(f"DROP TABLE IF EXISTS {table}")

    @classmethod
    def open(cls, place: Place, *, writable: bool) -> Self:
        """The store at `place`, its tables brought up to date.

        Raises Unavailable when there is none, CorruptedLedger when it cannot be read, Misuse when a newer
        program wrote it.
        """
        database = connect(place, writable=writable)
        with ExitStack() as refused:
            refused.callback(database.close)
            version = database.get_version()
            if version > tables.VERSION:
                fix = "Use that version, or a newer one."
                raise Misuse(f"{place} was written by a newer anchor.", fix=fix)
            if version < tables.VERSION and writable:
                _bring_up_to_date(database)
            refused.pop_all()
        if version < tables.VERSION and not writable:  # only a writer can
            cls.open(place, writable=True).close()
        return cls(database)

    def close(self) -> None:
        """Lets it go."""
        self._database.close()

    # What changes it.

    def reserve(self, epoch: int) -> None:
        """Records that something may be signed in `epoch` from now on, and never again after a restart.

        Raises Unavailable when it was reserved already: whoever did that signs in it.
        """
        sql = "UPDATE ledger SET reserved = ? WHERE reserved < ?"
        with self._database.transaction():
            if not self._database.run(sql, epoch, epoch):
                raise self._is_shared()

    def commit(self, batch: Batch) -> None:
        """Adds a batch: all of it, or nothing.

        Raises Unavailable when its parent is not where it must be: another process has written. Raises
        InvalidTransition for a branch that leaves the chain before its newest final block.
        """
        with self._database.transaction():
            if batch.blocks or batch.replaces:
                self._make_place(batch)
            self._add_blocks(batch)
            self._add_what_they_bring(batch)
            if batch.final is not None:
                self._database.run("UPDATE ledger SET final = ? WHERE final < ?", batch.final, batch.final)
                self._database.run("DELETE FROM side_blocks WHERE slot <= ?", batch.final)

    def _make_place(self, batch: Batch) -> None:
        """Sees that the batch's parent is the newest block, where need be by cutting off what follows it."""
        if batch.parent == self.get_newest_root():
            return
        slot = self._find_slot(batch.parent)
        if slot is None or not batch.replaces:
            raise self._is_shared()
        if slot < (final := self.get_final_slot()):
            raise InvalidTransition(f"A branch leaves the chain at slot {slot}, and slot {final} is final.")
        for statement in tables.CUT:
            self._database.run(statement, slot)

    def _add_blocks(self, batch: Batch) -> None:
        run = self._database.run_many
        run("INSERT INTO blocks VALUES (?, ?, ?, ?)", [_to_row(block) for block in batch.blocks])
        run("DELETE FROM side_blocks WHERE root = ?", [(block.root,) for block in batch.blocks])
        run(
            "INSERT INTO side_blocks VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [_to_row(block) for block in batch.side],
        )

    def _add_what_they_bring(self, batch: Batch) -> None:
        run = self._database.run_many
        if batch.snapshots:
            self._database.run("DELETE FROM snapshots WHERE kept = 0")
        run(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",  # one that is kept stays
            [(s.slot, s.root, int(s.kept), s.ssz) for s in batch.snapshots],
        )
        self._add_entries(batch.entries)
        run("INSERT INTO manifests VALUES (?, ?) ON CONFLICT DO NOTHING", batch.manifests)
        run(tables.ADD_PENDING, batch.pending)
        run("DELETE FROM pending WHERE root = ?", [(root,) for root in batch.settled])

    def _add_entries(self, entries: Sequence[StoredEntry]) -> None:
        self._database.run_many(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
            [(e.position, e.root, e.slot, e.timestamp, e.ssz) for e in entries],
        )

    def start_from(self, block: Block, snapshot: Snapshot, parent: bytes) -> None:
        """Makes a final block, with its state, the oldest of a store that has none.

        `parent` is the root of its parent. Raises Unavailable when there are blocks already.
        """
        with self._database.transaction():
            if self.get_newest_root() != self.get_genesis_root():
                raise self._is_shared()
            self._add_what_they_bring(Batch(snapshots=(snapshot,)))
            self._database.run("UPDATE ledger SET final = ?", block.slot)
            self._add_before((block,), parent)

    def prepend(self, blocks: Sequence[Block], entries: Sequence[StoredEntry], parent: bytes) -> None:
        """Adds a run of blocks, ascending, of which the last is the parent of the oldest one that is here.

        `parent` is the root of the first one's parent. That they follow each other is the caller's to verify.
        Raises InvalidTransition when they lead to another block.
        """
        with self._database.transaction():
            missing = self.find_missing_root()
            if not blocks or blocks[-1].root != missing:
                raise InvalidTransition("The blocks do not lead to the oldest one that is here.")
            self._add_entries(entries)
            self._add_before(blocks, parent)

    def prune(self, slot: int) -> int:
        """Lets go of blocks and states from before `slot`, where a state is kept; returns how many blocks.

        The genesis state, entries and manifests stay.
        """
        with self._database.transaction():
            row = next(self._rows((bytes,), tables.NEWEST_BEFORE, slot), None)
            if row is None:
                return 0
            self._database.run("UPDATE ledger SET missing = ?", row[0])
            self._database.run("DELETE FROM snapshots WHERE slot > 0 AND slot < ?", slot)
            return self._database.run("DELETE FROM blocks WHERE slot < ?", slot)

    def _add_before(self, blocks: Sequence[Block], parent: bytes) -> None:
        rows = [_to_row(block) for block in blocks]
        self._database.run_many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
        missing = None if parent == self.get_genesis_root() else parent
        self._database.run("UPDATE ledger SET missing = ?", missing)

    def _find_slot(self, root: bytes | None) -> int | None:
        """The slot of a block on the chain."""
        if root == self.get_genesis_root():
            return 0
        block = None if root is None else self.find_block(root)
        return None if block is None else block.slot

    def _is_shared(self) -> Unavailable:
        """The lock keeps other writers out; this stops what gets past it (a lock that was deleted, say)."""
        return Unavailable(
            f"Another process has written to {self._database.place} meanwhile.", fix="Try again."
        )

    # What reads it.

    def one_view(self) -> AbstractContextManager[None]:
        """In the body, all reads see the same moment, whatever another process commits meanwhile."""
        return self._database.one_view()

    def get_name(self) -> str:
        """What its operator calls the ledger."""
        return str(self._value(str, "SELECT name FROM ledger"))

    def get_genesis(self) -> bytes:
        """The encoding of the network's genesis."""
        return bytes(self._value(bytes, "SELECT genesis FROM ledger"))

    def get_genesis_root(self) -> bytes:
        """The root of the genesis block; its state is always kept."""
        return bytes(self._value(bytes, "SELECT root FROM snapshots WHERE slot = 0"))

    def get_newest_root(self) -> bytes:
        """The root of the newest block on the chain."""
        row = next(self._rows((bytes,), "SELECT root FROM blocks ORDER BY slot DESC LIMIT 1"), None)
        return self.get_genesis_root() if row is None else row[0]

    def get_reserved(self) -> int:
        """The last epoch in which anything may have been signed."""
        return int(self._value(int, "SELECT reserved FROM ledger"))

    def may_sign(self) -> bool:
        """False in a copy whose original may still be in use."""
        return bool(self._value(int, "SELECT may_sign FROM ledger")) and not self.is_copied()

    def is_copied(self) -> bool:
        """Whether this is another file than the ledger began in, here or on another disk."""
        return bool(self._value(str, "SELECT home FROM ledger") != self._database.home)

    def require_original(self) -> None:
        """Raises Misuse in a copy that only reads."""
        if self.is_copied():
            raise Misuse(
                "This ledger's folder is a copy, or moved to another disk, and only reads: its original may "
                "still be signing.",
                fix="Go on in the original. When it is gone for good, bring the ledger back from this copy: "
                "anchor export -o FILE, then anchor import FILE FOLDER --take-over.",
            )
        if not self.may_sign():
            raise Misuse(
                "This copy of the ledger only reads: its original may still be signing.",
                fix="When the original is gone for good, import its backup again with --take-over.",
            )

    def get_final_slot(self) -> int:
        """The slot of the newest final block that a commit told of: blocks up to it are never replaced."""
        return int(self._value(int, "SELECT final FROM ledger"))

    def find_missing_root(self) -> bytes | None:
        """The root of the block that comes before the oldest one here; None when nothing is missing."""
        row = next(self._rows((bytes,), "SELECT missing FROM ledger WHERE missing IS NOT NULL"), None)
        return None if row is None else row[0]

    def get_oldest_slot(self) -> int:
        """The slot from which on every block, and the state that it leads to, can be had: 0 for all."""
        if self.find_missing_root() is None:
            return 0
        return int(self._value(int, "SELECT slot FROM blocks ORDER BY slot LIMIT 1"))

    def find_block(self, root: bytes) -> Block | None:
        """The block with this root, on the chain."""
        return self._find_block("SELECT * FROM blocks WHERE root = ?", root)

    def find_side_block(self, root: bytes) -> Block | None:
        """The block with this root, beside the chain."""
        return self._find_block("SELECT * FROM side_blocks WHERE root = ?", root)

    def get_side_blocks(self, start: int = 0, stop: int = FOREVER) -> list[Block]:
        """Blocks beside the chain, of slots start … stop - 1, ascending."""
        sql = "SELECT * FROM side_blocks WHERE slot >= ? AND slot < ? ORDER BY slot, root"
        return [Block(*row) for row in self._rows(BLOCK, sql, start, stop)]

    def get_pending_entries(self) -> list[tuple[bytes, bytes]]:
        """Root and encoding of the entries that wait to be on the chain, as they came."""
        rows = self._rows((bytes, bytes), "SELECT root, ssz FROM pending ORDER BY arrival")
        return [(root, ssz) for root, ssz in rows]

    def find_block_by_state(self, state_root: bytes) -> Block | None:
        """The block on the chain that leads to the state with this root."""
        return self._find_block("SELECT * FROM blocks WHERE substr(ssz, 149, 32) = ?", state_root)

    def find_block_before(self, slot: int) -> Block | None:
        """The newest block at or before `slot`."""
        return self._find_block("SELECT * FROM blocks WHERE slot <= ? ORDER BY slot DESC LIMIT 1", slot)

    def get_blocks(self, start: int, stop: int) -> Iterator[Block]:
        """Blocks of slots start … stop - 1, ascending."""
        sql = "SELECT * FROM blocks WHERE slot >= ? AND slot < ? ORDER BY slot"
        return (Block(*row) for row in self._pages(BLOCK, sql, start, stop))

    def _find_block(self, sql: str, *values: Value) -> Block | None:
        row = next(self._rows(BLOCK, sql, *values), None)
        return None if row is None else Block(*row)

    def get_snapshot_before(self, slot: int) -> Snapshot:
        """The newest snapshot at or before `slot` from which blocks lead there.

        Raises NoSuchRecord when those blocks are not kept, CorruptedLedger when there is none at all.
        """
        oldest = 0 if slot == 0 else self.get_oldest_slot()
        sql = "SELECT * FROM snapshots WHERE slot <= ? AND slot >= ? ORDER BY slot DESC LIMIT 1"
        row = next(self._rows(SNAPSHOT, sql, slot, oldest), None)
        if row is None:
            raise self._has_no_state(slot, oldest)
        slot, root, kept, ssz = row
        return Snapshot(slot=slot, root=root, ssz=ssz, kept=bool(kept))

    def _has_no_state(self, slot: int, oldest: int) -> Unavailable:
        place = self._database.place
        if oldest:
            return NoSuchRecord(f"{place} keeps no blocks from before slot {oldest}.", fix=ELSEWHERE)
        return CorruptedLedger(f"{place} holds no state from before slot {slot}.", fix=RESTORE)

    def get_snapshot_slots(self) -> list[int]:
        """Slots of all states that are kept, ascending."""
        return [slot for (slot,) in self._rows((int,), "SELECT slot FROM snapshots ORDER BY slot")]

    def measure(self) -> int:
        """Bytes of all records."""
        return sum([int(self._value(int, tables.LENGTH + table)) for table in tables.RECORDS])

    def check_itself(self, *, is_quick: bool = False) -> None:
        """Raises CorruptedLedger where the database finds itself damaged; a quick look takes a few s/GiB."""
        self._database.check(is_quick=is_quick)

    def get_newest_kept_slot(self) -> int:
        """Slot of the newest snapshot that stays."""
        return int(self._value(int, "SELECT coalesce(max(slot), -1) FROM snapshots WHERE kept = 1"))

    def find_entry(self, position: int) -> StoredEntry | None:
        """The entry at `position` of the ledger's list."""
        return next(self.get_entries(position, position + 1), None)

    def find_entry_by_root(self, root: bytes) -> StoredEntry | None:
        """The entry with this root."""
        row = next(self._rows(ENTRY, "SELECT * FROM entries WHERE root = ?", root), None)
        return None if row is None else StoredEntry(*row)

    def get_entries(self, start: int, stop: int) -> Iterator[StoredEntry]:
        """Entries at positions start … stop - 1, ascending."""
        sql = "SELECT * FROM entries WHERE position >= ? AND position < ? ORDER BY position"
        return (StoredEntry(*row) for row in self._pages(ENTRY, sql, start, stop))

    def find_manifest(self, root: bytes) -> bytes | None:
        """The encoding of the manifest with this root."""
        row = next(self._rows((bytes,), "SELECT ssz FROM manifests WHERE root = ?", root), None)
        return None if row is None else row[0]

    def get_manifest_roots(self) -> list[bytes]:
        """Roots of all manifests, in their own order."""
        return [root for (root,) in self._rows((bytes,), "SELECT root FROM manifests ORDER BY root")]

    def _pages(self, kinds: Kinds, sql: str, start: int, stop: int) -> Iterator[tuple[Any, ...]]:
        """Rows whose first column is start … stop - 1, PAGE at a time: no more is ever held."""
        while rows := list(self._rows(kinds, f"{sql} LIMIT {PAGE}", start, stop)):
            yield from rows
            if len(rows) < PAGE:
                return
            start = rows[-1][0] + 1

    def _rows(self, kinds: Kinds, sql: str, *values: Value) -> Iterator[tuple[Any, ...]]:
        """Rows whose columns have these types: in a damaged store they may have others."""
        for row in self._database.get(sql, *values):
            if tuple(map(type, row)) != kinds:
                place = self._database.place
                raise CorruptedLedger(f"{place} is damaged: a row is not as written.", fix=RESTORE)
            yield row

    def _value(self, kind: type, sql: str) -> Any:
        """The one value that `sql` selects."""
        row = next(self._rows((kind,), sql), None)
        if row is None:
            raise CorruptedLedger(f"{self._database.place} is damaged: a row is missing.", fix=RESTORE)
        return row[0]


def _to_row(block: Block) -> tuple[Value, ...]:
    return block.slot, block.root, block.signed_root, block.ssz


def _bring_up_to_date(database: Database) -> None:
    with database.transaction():
        statements = tables.get_statements(
            database.get_version()
        )  # another process may have done it meanwhile
        if statements:
            database.migrate(statements, tables.VERSION)
            database.run("UPDATE ledger SET home = ? WHERE home = ''", database.home)
