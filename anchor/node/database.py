"""What a store asks of a database. Its statements are written once, with `?` where a value goes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

Value = bytes | int | str | None
RESTORE: Final = (
    "Bring a ledger of one operator back from its backup (anchor import), a network's from another node "
    "(anchor db rebuild)."
)
ELSEWHERE: Final = "Ask a node that keeps them all."


class Database(Protocol):
    """One connection. Raises Unavailable for what may pass, CorruptedLedger for what does not."""

    @property
    def place(self) -> str:
        """What messages call it."""

    @property
    def home(self) -> str:
        """What tells it from its copies."""

    def close(self) -> None:
        """Lets it go."""

    def get_version(self) -> int:
        """Of the tables. Raises CorruptedLedger when this is no ledger's store."""

    def check(self, *, is_quick: bool) -> None:
        """Raises CorruptedLedger where the database finds itself damaged; a quick look compares no index."""

    def migrate(self, statements: Sequence[str], version: int) -> None:
        """Runs `statements` and records that they lead to `version`; in a transaction."""

    def get(self, sql: str, *values: Value) -> list[tuple[Any, ...]]:
        """All rows that `sql` selects."""

    def run(self, sql: str, *values: Value) -> int:
        """Changes something, in a transaction; returns how many rows."""

    def run_many(self, sql: str, rows: Sequence[tuple[Value, ...]]) -> None:
        """Runs `sql` once a row, in a transaction."""

    def transaction(self) -> AbstractContextManager[None]:
        """The body's changes: all of them, durable when it ends, or none."""

    def one_view(self) -> AbstractContextManager[None]:
        """In the body, all reads see the same moment, whatever another process commits meanwhile."""
