"""What a ledger keeps: one SQLite file, every change one durable transaction. It holds bytes, not meanings.

The rest of the node reaches its data through `Store` alone; nothing else knows SQL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from anchor.errors import CorruptedLedger, Misuse, Unavailable
from anchor.files import told_plainly

FILE: Final = "ledger.sqlite"
APPLICATION_ID: Final = 0x616E6368  # "anch"
VERSION: Final = 2
"""Of the tables; an older file is brought up to it by MIGRATIONS, a newer one is refused."""
MIGRATIONS: Final = (
    """
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 0),
        name TEXT NOT NULL,
        genesis BLOB NOT NULL,      -- SSZ
        reserved INTEGER NOT NULL,  -- last epoch in which anything may have been signed
        may_sign INTEGER NOT NULL   -- 0 in a copy whose original may still be in use
    );
    CREATE TABLE blocks (
        slot INTEGER PRIMARY KEY,
        root BLOB NOT NULL UNIQUE,
        signed_root BLOB NOT NULL,  -- covers the signature too
        ssz BLOB NOT NULL
    );
    CREATE TABLE snapshots (
        slot INTEGER PRIMARY KEY,
        root BLOB NOT NULL UNIQUE,  -- of the block that led to this state
        kept INTEGER NOT NULL,      -- 0: replaced by the next commit
        ssz BLOB NOT NULL
    );
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, root BLOB NOT NULL UNIQUE, slot INTEGER NOT NULL,
        timestamp INTEGER NOT NULL, ssz BLOB NOT NULL
    );
    CREATE TABLE manifests (root BLOB PRIMARY KEY, ssz BLOB NOT NULL);
    """,
    """
    ALTER TABLE ledger ADD COLUMN home TEXT NOT NULL DEFAULT '';  -- the file that may sign, and no copy of it
    """,
)
"""MIGRATIONS[v] brings tables of version v to v + 1."""
WITH_HOME: Final = 2
"""The first version that knows which file it is."""
PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "busy_timeout = 10000",
    "trusted_schema = OFF",
    "cell_size_check = ON",
)


Kinds = tuple[type, ...]
BLOCK: Final = (int, bytes, bytes, bytes)
SNAPSHOT: Final = (int, bytes, int, bytes)
ENTRY: Final = (int, bytes, int, int, bytes)
"""Types of the tables' columns."""


@dataclass(frozen=True, slots=True)
class Block:
    """A signed block, as stored."""

    slot: int
    root: bytes
    """Of the block."""
    signed_root: bytes
    """Of the block with its signature."""
    ssz: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, under the block that led to it."""

    slot: int
    root: bytes
    ssz: bytes
    kept: bool
    """False: of use only until the next commit."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A signed entry, at its position in the ledger's list."""

    position: int
    root: bytes
    slot: int
    timestamp: int
    """Of its block; Unix time, seconds."""
    ssz: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """What one commit adds."""

    blocks: tuple[Block, ...] = ()
    parent: bytes | None = None
    """Root of the block that they follow."""
    snapshots: tuple[Snapshot, ...] = ()
    """Where there are any, they replace those that are not kept."""
    entries: tuple[StoredEntry, ...] = ()
    manifests: tuple[tuple[bytes, bytes], ...] = ()
    """Root and encoding of each."""


class Store:
    """The tables of one ledger. Every method that changes them is durable when it returns."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path

    @classmethod
    def create(cls, path: Path, name: str, genesis: bytes, *, reserved: int, may_sign: bool) -> Self:
        """A new, empty store. Raises Unavailable when it cannot be written."""
        store = cls._connect(path, "rwc")
        with store._transaction():
            for statement in "".join(MIGRATIONS).split(";"):
                store._connection.execute(statement)
            values = (name, genesis, reserved, may_sign, get_home(path))
            store._connection.execute("INSERT INTO ledger VALUES (0, ?, ?, ?, ?, ?)", values)
            store._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            store._connection.execute(f"PRAGMA user_version = {VERSION}")
        return store

    @classmethod
    def open(cls, path: Path, *, writable: bool) -> Self:
        """The store at `path`, its tables brought up to date when `writable`.

        Raises Unavailable when there is none, CorruptedLedger when it cannot be read, Misuse when a newer
        program wrote it.
        """
        require_store(path)
        store = cls._connect(path, "rw" if writable else "ro")
        with ExitStack() as refused:
            refused.callback(store.close)
            store._require_version(writable)
            refused.pop_all()
        return store

    @classmethod
    def _connect(cls, path: Path, mode: str) -> Self:
        with _told_plainly(path):
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None
            )
            for pragma in PRAGMAS if mode != "ro" else PRAGMAS[2:]:
                connection.execute(f"PRAGMA {pragma}")
        return cls(connection, path)

    def _require_version(self, writable: bool) -> None:
        if self._value(int, "PRAGMA application_id") != APPLICATION_ID:
            raise CorruptedLedger(f"{self._path} is not a ledger's store.")
        version = self._get_version()
        if version > VERSION:
            fix = "Use that version, or a newer one."
            raise Misuse(f"{self._path} was written by a newer anchor.", fix=fix)
        if version < VERSION and writable:
            with self._transaction():
                for statement in "".join(MIGRATIONS[version:]).split(";"):
                    self._connection.execute(statement)
                if version < WITH_HOME:
                    self._connection.execute("UPDATE ledger SET home = ?", (get_home(self._path),))
                self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _get_version(self) -> int:
        return int(self._value(int, "PRAGMA user_version"))

    def close(self) -> None:
        """Lets the file go."""
        self._connection.close()

    # What changes it.

    def reserve(self, epoch: int) -> None:
        """Records that something may be signed in `epoch` from now on, and never again after a restart.

        Raises Unavailable when it was reserved already: whoever did that signs in it.
        """
        sql = "UPDATE ledger SET reserved = ? WHERE reserved < ?"
        with self._transaction():
            if not self._connection.execute(sql, (epoch, epoch)).rowcount:
                raise self._is_shared()

    def commit(self, batch: Batch) -> None:
        """Adds a batch: all of it, or nothing. Raises Unavailable when its parent is not the newest block."""
        with self._transaction():
            if batch.blocks and batch.parent != self._find_newest_root():
                raise self._is_shared()
            run = self._connection.executemany
            run(
                "INSERT INTO blocks VALUES (?, ?, ?, ?)",
                [(b.slot, b.root, b.signed_root, b.ssz) for b in batch.blocks],
            )
            if batch.snapshots:
                self._connection.execute("DELETE FROM snapshots WHERE NOT kept")
            run(
                "INSERT OR IGNORE INTO snapshots VALUES (?, ?, ?, ?)",  # one that is kept stays
                [(s.slot, s.root, s.kept, s.ssz) for s in batch.snapshots],
            )
            run(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
                [(e.position, e.root, e.slot, e.timestamp, e.ssz) for e in batch.entries],
            )
            run("INSERT OR IGNORE INTO manifests VALUES (?, ?)", batch.manifests)

    def _find_newest_root(self) -> bytes | None:
        sql = """
            SELECT root FROM
            (SELECT slot, root FROM snapshots WHERE slot = 0 UNION ALL SELECT slot, root FROM blocks)
            ORDER BY slot DESC LIMIT 1
        """
        row = next(self._rows((bytes,), sql), None)
        return None if row is None else row[0]

    def _is_shared(self) -> Unavailable:
        """The lock keeps other writers out; this stops what gets past it (a lock that was deleted, say)."""
        return Unavailable(f"Another process has written to {self._path} meanwhile.", fix="Try again.")

    # What reads it.

    @contextmanager
    def one_view(self) -> Iterator[None]:
        """In the body, all reads see the same moment, whatever another process commits meanwhile."""
        with _told_plainly(self._path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def get_name(self) -> str:
        """What its operator calls the ledger."""
        return str(self._value(str, "SELECT name FROM ledger"))

    def get_genesis(self) -> bytes:
        """The encoding of the network's genesis."""
        return bytes(self._value(bytes, "SELECT genesis FROM ledger"))

    def get_reserved(self) -> int:
        """The last epoch in which anything may have been signed."""
        return int(self._value(int, "SELECT reserved FROM ledger"))

    def may_sign(self) -> bool:
        """False in a copy whose original may still be in use."""
        return bool(self._value(int, "SELECT may_sign FROM ledger")) and not self.is_copied()

    def is_copied(self) -> bool:
        """Whether this is another file than the ledger began in, here or on another disk."""
        if self._get_version() < WITH_HOME:
            return False  # whoever writes to it first makes this its home
        return bool(self._value(str, "SELECT home FROM ledger") != get_home(self._path))

    def find_block(self, root: bytes) -> Block | None:
        """The block with this root."""
        return self._find_block("SELECT * FROM blocks WHERE root = ?", root)

    def find_block_before(self, slot: int) -> Block | None:
        """The newest block at or before `slot`."""
        return self._find_block("SELECT * FROM blocks WHERE slot <= ? ORDER BY slot DESC LIMIT 1", slot)

    def get_blocks(self, start: int, stop: int) -> Iterator[Block]:
        """Blocks of slots start … stop - 1, ascending."""
        sql = "SELECT * FROM blocks WHERE slot >= ? AND slot < ? ORDER BY slot"
        return (Block(*row) for row in self._rows(BLOCK, sql, start, stop))

    def _find_block(self, sql: str, *values: bytes | int) -> Block | None:
        row = next(self._rows(BLOCK, sql, *values), None)
        return None if row is None else Block(*row)

    def get_snapshot_before(self, slot: int) -> Snapshot:
        """The newest snapshot of a state at or before `slot`. Raises CorruptedLedger when there is none."""
        sql = "SELECT * FROM snapshots WHERE slot <= ? ORDER BY slot DESC LIMIT 1"
        row = next(self._rows(SNAPSHOT, sql, slot), None)
        if row is None:
            raise CorruptedLedger(f"{self._path} holds no state from before slot {slot}.", fix=RESTORE)
        slot, root, kept, ssz = row
        return Snapshot(slot=slot, root=root, ssz=ssz, kept=bool(kept))

    def get_newest_kept_slot(self) -> int:
        """Slot of the newest snapshot that stays."""
        return int(self._value(int, "SELECT coalesce(max(slot), -1) FROM snapshots WHERE kept"))

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
        return (StoredEntry(*row) for row in self._rows(ENTRY, sql, start, stop))

    def find_manifest(self, root: bytes) -> bytes | None:
        """The encoding of the manifest with this root."""
        row = next(self._rows((bytes,), "SELECT ssz FROM manifests WHERE root = ?", root), None)
        return None if row is None else row[0]

    def get_manifest_roots(self) -> list[bytes]:
        """Roots of all manifests, in their own order."""
        return [root for (root,) in self._rows((bytes,), "SELECT root FROM manifests ORDER BY root")]

    def _rows(self, kinds: Kinds, sql: str, *values: bytes | int) -> Iterator[tuple[Any, ...]]:
        """Rows whose columns have these types: in a damaged file they may have others."""
        with _told_plainly(self._path):
            for row in self._connection.execute(sql, values):
                if tuple(map(type, row)) != kinds:
                    raise CorruptedLedger(f"{self._path} is damaged: a row is not as written.", fix=RESTORE)
                yield row

    def _value(self, kind: type, sql: str) -> Any:
        """The one value that `sql` selects."""
        row = next(self._rows((kind,), sql), None)
        if row is None:
            raise CorruptedLedger(f"{self._path} is damaged: a row is missing.", fix=RESTORE)
        return row[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _told_plainly(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:  # it failed, or was interrupted
                    self._connection.execute("ROLLBACK")


def get_home(path: Path) -> str:
    """What tells a file from its copies: its file system and its number there. Both stay when it is moved."""
    with told_plainly(path, "read"):
        return f"{os.statvfs(path).f_fsid:x}:{path.stat().st_ino:x}"


def require_store(path: Path) -> None:
    """Raises Unavailable when there is no store at `path`."""
    if not path.is_file():
        fix = "Name its folder with --ledger, or start one with: anchor init"
        raise Unavailable(f"There is no ledger in {path.parent}.", fix=fix)


RESTORE: Final = "Bring the ledger back from a backup with: anchor import"


@contextmanager
def _told_plainly(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(
            f"{path} cannot be used now: {error}.", fix="Check the disk's space and the file's owner."
        ) from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where a message quotes damage
        raise CorruptedLedger(f"{path} is damaged: {error}.", fix=RESTORE) from None
