"""Slashing protection: what this node's validators signed, on disk before it is signed (EIP-3076).

Every validator has a floor: at or before it nothing is signed any more, and what was signed before it need
not be known. Above its floor every block and every vote is kept for a while, so that what conflicts with none
of them may still be signed; then the floor rises. A validator that is not in the file signs nothing: a file
that was lost cannot be taken for one of keys that never signed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from anchor.errors import CorruptedLedger, Misuse, Unavailable, WrongNetwork
from anchor.files import PRIVATE, write_new
from anchor.node.validators.interchange import (
    MAX_NUMBER,
    History,
    decode_interchange,
    encode_interchange,
)

FILE: Final = "protection.sqlite"
KEPT_EPOCHS: Final = 256
"""Epochs of votes that are kept one by one."""
KEPT_SLOTS: Final = 8 * KEPT_EPOCHS
"""Slots of blocks, likewise."""
NOTHING: Final = -1
"""A floor below everything: the validator never signed."""
APPLICATION_ID: Final = 0x616E7370  # "ansp"
VERSION: Final = 1
TABLES: Final = """
    CREATE TABLE network (id INTEGER PRIMARY KEY CHECK (id = 0), network_id BLOB NOT NULL) STRICT;
    CREATE TABLE validators (
        number INTEGER PRIMARY KEY,
        pubkey BLOB NOT NULL UNIQUE,
        slot INTEGER NOT NULL,    -- the floor: blocks are of later slots,
        source INTEGER NOT NULL,  -- votes have this source or a later one,
        target INTEGER NOT NULL   -- and a later target
    ) STRICT;
    CREATE TABLE blocks (
        validator INTEGER NOT NULL, slot INTEGER NOT NULL,
        root BLOB NOT NULL,       -- signing root, empty where it is not known
        PRIMARY KEY (validator, slot, root)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE votes (
        validator INTEGER NOT NULL, target INTEGER NOT NULL, source INTEGER NOT NULL,
        root BLOB NOT NULL,
        PRIMARY KEY (validator, target, source, root)
    ) WITHOUT ROWID, STRICT;
"""
PRAGMAS: Final = ("journal_mode = WAL", "synchronous = FULL", "busy_timeout = 10000", "trusted_schema = OFF")


@dataclass(frozen=True, slots=True)
class _Validator:
    number: int
    slot: int
    source: int
    target: int


class Protection:
    """One file of records. What a method allows is durable in it when the method returns."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new file, of no validators. Raises Misuse when there is one, Unavailable."""
        write_new(path, b"", mode=PRIVATE)
        protection = cls._connect(path)
        with protection._transaction() as run:
            for statement in TABLES.split(";"):
                run(statement)
            run(f"PRAGMA application_id = {APPLICATION_ID}")
            run(f"PRAGMA user_version = {VERSION}")
        return protection

    @classmethod
    def open(cls, path: Path) -> Self:
        """The file at `path`. Raises Unavailable when there is none, CorruptedLedger when it is damaged."""
        if not path.is_file():
            raise Unavailable(
                f"There is no {path}, which tells what these keys have signed.",
                fix="Bring it back, or import what they signed with: anchor validator protection import",
            )
        protection = cls._connect(path)
        with ExitStack() as refused:
            refused.callback(protection.close)
            protection._require_sound()
            refused.pop_all()
        return protection

    @classmethod
    def _connect(cls, path: Path) -> Self:
        with _told_plainly(path):
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
            )
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
        return cls(connection, path)

    def _require_sound(self) -> None:
        """A record that is lost is a second signature: a damaged file is not used at all."""
        expected = {"application_id": APPLICATION_ID, "user_version": VERSION, "integrity_check": "ok"}
        if any(next(self._rows(f"PRAGMA {what}")) != (value,) for what, value in expected.items()):
            raise _is_damaged(self._path, "it does not hold what was written to it")

    def close(self) -> None:
        """Lets the file go."""
        self._connection.close()

    # Whose records these are

    def bind(self, network_id: bytes) -> None:
        """Says once and for all which network the records are of. Raises WrongNetwork for another one."""
        with self._transaction():
            self._bind(network_id)

    def _bind(self, network_id: bytes) -> None:
        self._connection.execute("INSERT OR IGNORE INTO network VALUES (0, ?)", (network_id,))
        known = self.find_network_id()
        if known != network_id:
            raise WrongNetwork(
                f"{self._path} is about network 0x{(known or b'').hex()}, not about 0x{network_id.hex()}.",
                fix="A network has keys of its own; make some with: anchor validator keygen",
            )

    def find_network_id(self) -> bytes | None:
        """The network that the records are of; None before they are of any."""
        row = next(self._rows("SELECT network_id FROM network"), None)
        return None if row is None else row[0]

    def register(
        self, pubkeys: Sequence[bytes], slot: int = NOTHING, source: int = NOTHING, target: int = NOTHING
    ) -> None:
        """Lets validators sign after this slot, from this source on, after this target: NOTHING, for all.

        Those that are registered keep what they have.
        """
        rows = [(pubkey, slot, source, target) for pubkey in pubkeys]
        with self._transaction():
            self._connection.executemany(
                "INSERT OR IGNORE INTO validators (pubkey, slot, source, target) VALUES (?, ?, ?, ?)", rows
            )

    def get_pubkeys(self) -> list[bytes]:
        """All validators that are registered."""
        return [row[0] for row in self._rows("SELECT pubkey FROM validators ORDER BY number")]

    # What may be signed

    def allow_block(self, pubkey: bytes, slot: int, signing_root: bytes) -> bool:
        """Whether the validator may sign this block: recorded, when it may. The same one may be signed again.

        Raises Unavailable when that cannot be recorded: nothing may be signed then.
        """
        with self._transaction() as run:
            validator = self._find_validator(pubkey)
            if validator is None or not self._may_propose(validator, slot, signing_root):
                return False
            run("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", (validator.number, slot, signing_root))
            self._prune_blocks(validator.number, slot - KEPT_SLOTS)
        return True

    def allow_attestation(
        self, pubkeys: Sequence[bytes], source: int, target: int, signing_root: bytes
    ) -> list[bytes]:
        """Those of the validators who may sign this vote, all recorded at once. Raises as `allow_block`."""
        allowed = []
        with self._transaction() as run:
            for pubkey in dict.fromkeys(pubkeys):
                validator = self._find_validator(pubkey)
                if validator is None or not self._may_vote(validator, source, target, signing_root):
                    continue
                row = (validator.number, target, source, signing_root)
                run("INSERT OR IGNORE INTO votes VALUES (?, ?, ?, ?)", row)
                self._prune_votes(validator.number, target - KEPT_EPOCHS)
                allowed.append(pubkey)
        return allowed

    def _may_propose(self, validator: _Validator, slot: int, root: bytes) -> bool:
        """EIP-3076, conditions 1 and 2."""
        if slot > MAX_NUMBER:
            return False
        sql = "SELECT root FROM blocks WHERE validator = ? AND slot = ?"
        signed = [row[0] for row in self._rows(sql, validator.number, slot)]
        return signed == [root] if signed else slot > validator.slot

    def _may_vote(self, validator: _Validator, source: int, target: int, root: bytes) -> bool:
        """EIP-3076, conditions 3 to 5: no double vote, none too old, none that surrounds or is surrounded."""
        if not source <= target <= MAX_NUMBER:
            return False
        sql = "SELECT source, root FROM votes WHERE validator = ? AND target = ?"
        signed = list(self._rows(sql, validator.number, target))
        is_new = source >= validator.source and target > validator.target
        if signed != [(source, root)] if signed else not is_new:
            return False
        sql = """
            SELECT count(*) FROM votes WHERE validator = ?
            AND ((target > ? AND source < ?) OR (target < ? AND source > ?))
        """
        conflicts = next(self._rows(sql, validator.number, target, source, target, source))
        return conflicts == (0,)

    def _prune_blocks(self, number: int, before: int) -> None:
        (newest,) = next(
            self._rows("SELECT max(slot) FROM blocks WHERE validator = ? AND slot < ?", number, before)
        )
        if newest is not None:
            run = self._connection.execute
            run("UPDATE validators SET slot = max(slot, ?) WHERE number = ?", (newest, number))
            run("DELETE FROM blocks WHERE validator = ? AND slot < ?", (number, before))

    def _prune_votes(self, number: int, before: int) -> None:
        """The floor is at the latest of those that go: no later vote surrounds one, or is surrounded."""
        sql = "SELECT max(source), max(target) FROM votes WHERE validator = ? AND target < ?"
        source, target = next(self._rows(sql, number, before))
        if target is not None:
            run = self._connection.execute
            sql = "UPDATE validators SET source = max(source, ?), target = max(target, ?) WHERE number = ?"
            run(sql, (source, target, number))
            run("DELETE FROM votes WHERE validator = ? AND target < ?", (number, before))

    # Handing over

    def export_interchange(self) -> bytes:
        """All records, as an interchange file. Raises Misuse while they are of no network."""
        with self._transaction():
            network_id, pubkeys = self.find_network_id(), self.get_pubkeys()
            if network_id is None:
                raise Misuse(f"The keys of {self._path.parent} have signed on no network yet.")
            return encode_interchange(network_id, map(self._get_history, pubkeys))

    def _get_history(self, pubkey: bytes) -> History:
        """A validator's records. A floor whose own record is gone stands among them as if it were one."""
        sql = "SELECT number, slot, source, target FROM validators WHERE pubkey = ?"
        number, slot, source, target = next(self._rows(sql, pubkey))
        blocks = list(self._rows("SELECT slot, root FROM blocks WHERE validator = ?", number))
        votes = list(self._rows("SELECT source, target, root FROM votes WHERE validator = ?", number))
        if slot != NOTHING and all(block[0] != slot for block in blocks):
            blocks.insert(0, (slot, b""))
        if target != NOTHING and all(vote[:2] != (source, target) for vote in votes):
            votes.insert(0, (source, target, b""))
        return History(pubkey, tuple(blocks), tuple(votes))

    def import_interchange(self, data: bytes, where: str) -> int:
        """Takes over the records in `data`, read from `where`; returns of how many validators.

        What is known already stays. Raises MalformedFile, and WrongNetwork for records of another network.
        """
        network_id, histories = decode_interchange(data, where)
        with self._transaction():
            self._bind(network_id)
            for history in histories:
                self._merge(history)
        return len({history.pubkey for history in histories})

    def _merge(self, history: History) -> None:
        """Who exports tells all from the oldest record on: nothing before that is signed any more."""
        run = self._connection.executemany
        run(
            "INSERT OR IGNORE INTO validators (pubkey, slot, source, target) VALUES (?, -1, -1, -1)",
            [(history.pubkey,)],
        )
        sql = """
            UPDATE validators SET slot = max(slot, ?), source = max(source, ?), target = max(target, ?)
            WHERE pubkey = ? RETURNING number
        """
        slot = min([slot for slot, _ in history.blocks], default=NOTHING)
        source = min([source for source, _, _ in history.votes], default=NOTHING)
        target = min([target for _, target, _ in history.votes], default=NOTHING)
        ((number,),) = self._rows(sql, slot, source, target, history.pubkey)
        run("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", [(number, *row) for row in history.blocks])
        votes = [(number, target, source, root) for source, target, root in history.votes]
        run("INSERT OR IGNORE INTO votes VALUES (?, ?, ?, ?)", votes)

    # The file

    def _find_validator(self, pubkey: bytes) -> _Validator | None:
        sql = "SELECT number, slot, source, target FROM validators WHERE pubkey = ?"
        row = next(self._rows(sql, pubkey), None)
        return None if row is None else _Validator(*row)

    def _rows(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        with _told_plainly(self._path):
            yield from self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with _told_plainly(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:  # it failed, or was interrupted
                    self._connection.execute("ROLLBACK")


@contextmanager
def _told_plainly(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(
            f"{path} cannot be used now: {error}.", fix="Check the disk's space and the file's owner."
        ) from None
    except sqlite3.DatabaseError as error:
        raise _is_damaged(path, str(error)) from None


def _is_damaged(path: Path, how: str) -> CorruptedLedger:
    return CorruptedLedger(
        f"{path} is damaged: {how}.",
        fix="Move it away, and import your last export of it; until then its keys sign nothing.",
    )
