"""SQLite, as what a node keeps uses it: one file, every transaction synced to it, its errors told as ours."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from anchor.errors import CorruptedLedger, Unavailable
from anchor.files import told_plainly
from anchor.node.database import RESTORE, Value

APPLICATION_ID: Final = 0x616E6368  # "anch"
PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "busy_timeout = 10000",
    "trusted_schema = OFF",
    "cell_size_check = ON",
)


class Sort(NamedTuple):
    """A sort of file, which is not taken for another."""

    application: int
    """What stands in its head."""
    what: str
    """In words."""
    restore: str
    """What to do when it is damaged."""


STORE: Final = Sort(APPLICATION_ID, "a ledger's store", RESTORE)


class Sqlite:
    """A connection to one file."""

    def __init__(self, connection: sqlite3.Connection, path: Path, sort: Sort) -> None:
        self._connection, self._path, self._sort = connection, path, sort

    @classmethod
    def connect(cls, path: Path, mode: str, sort: Sort = STORE) -> Self:
        """The file at `path`; `mode` is SQLite's: ro, rw, rwc."""
        with _told_plainly(path, sort):
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None
            )
            for pragma in PRAGMAS if mode != "ro" else PRAGMAS[2:]:
                connection.execute(f"PRAGMA {pragma}")
        return cls(connection, path, sort)

    @property
    def place(self) -> str:
        """What messages call it."""
        return str(self._path)

    @property
    def home(self) -> str:
        """What tells the file from its copies: its file system, and its number there; it may be moved."""
        with told_plainly(self._path, "read"):
            return f"{os.statvfs(self._path).f_fsid:x}:{self._path.stat().st_ino:x}"

    def close(self) -> None:
        """Lets the file go."""
        self._connection.close()

    def get_version(self) -> int:
        """Of the tables. Raises CorruptedLedger when this is a file of another sort."""
        [(application,)], [(version,)] = self.get("PRAGMA application_id"), self.get("PRAGMA user_version")
        if application != self._sort.application:
            raise CorruptedLedger(f"{self._path} is not {self._sort.what}.", fix=self._sort.restore)
        return int(version)

    def check(self, *, is_quick: bool) -> None:
        """Raises CorruptedLedger where SQLite finds the file damaged."""
        [(first,), *_] = self.get(f"PRAGMA {'quick_check' if is_quick else 'integrity_check'}(1)")
        if first != "ok":
            words = " ".join(str(first).split())
            raise CorruptedLedger(f"{self._path} is damaged: {words}.", fix=RESTORE)

    def migrate(self, statements: Sequence[str], version: int) -> None:
        """Runs `statements` and records that they lead to `version`; in a transaction."""
        for statement in statements:
            self.run(statement)
        self.run(f"PRAGMA application_id = {self._sort.application}")
        self.run(f"PRAGMA user_version = {version}")

    def get(self, sql: str, *values: Value) -> list[tuple[Any, ...]]:
        """All rows that `sql` selects."""
        with _told_plainly(self._path, self._sort):
            return self._connection.execute(sql, values).fetchall()

    def run(self, sql: str, *values: Value) -> int:
        """Changes something; returns how many rows."""
        return self._connection.execute(sql, values).rowcount

    def run_many(self, sql: str, rows: Sequence[tuple[Value, ...]]) -> None:
        """Runs `sql` once a row."""
        self._connection.executemany(sql, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """The body's changes: all of them, durable when it ends, or none."""
        with _told_plainly(self._path, self._sort):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:  # it failed, or was interrupted
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def one_view(self) -> Iterator[None]:
        """In the body, all reads see the same moment, whatever another process commits meanwhile."""
        with _told_plainly(self._path, self._sort):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")


@contextmanager
def _told_plainly(path: Path, sort: Sort) -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:  # no such table, say
            raise CorruptedLedger(f"{path} is damaged: {error}.", fix=RESTORE) from None
        raise Unavailable(
            f"{path} cannot be used now: {error}.", fix="Check the disk's space and the file's owner."
        ) from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where a message quotes damage
        raise CorruptedLedger(f"{path} is damaged: {error}.", fix=sort.restore) from None
