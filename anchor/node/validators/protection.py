"""Slashing protection: what this node's validators signed, on disk before it is signed (EIP-3076).

Every validator has a floor: at or before it nothing is signed any more, and what was signed before it need
not be known. Above its floor every block and every vote is kept for a while, so that what conflicts with none
of them may still be signed; then the floor rises. A validator that is not in the file signs nothing: a file
that was lost cannot be taken for one of keys that never signed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from anchor.errors import CorruptedLedger, Misuse, Unavailable, WrongNetwork
from anchor.files import PRIVATE, write_new
from anchor.node.sqlite import Sort, Sqlite
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
VERSION: Final = 1
TABLES: Final = """
    CREATE TABLE origin (
        id INTEGER PRIMARY KEY CHECK (id = 0),
        home TEXT NOT NULL,       -- the file that goes on, and no copy of it
        network_id BLOB
    ) STRICT;
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
RESUME: Final = "anchor validator resume"
SORT: Final = Sort(
    application=0x616E7370,  # "ansp"
    what="a record of what validators signed",
    restore=f"Until it is replaced, its keys sign nothing. Move it away, and run: {RESUME}",
)


@dataclass(frozen=True, slots=True)
class _Validator:
    number: int
    slot: int
    source: int
    target: int


class Protection:
    """One file of records. What a method allows is durable in it when the method returns."""

    def __init__(self, database: Sqlite, path: Path) -> None:
        self._database, self._path = database, path

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new file, of no validators. Raises Misuse when there is one, Unavailable."""
        write_new(path, b"", mode=PRIVATE)
        database = Sqlite.connect(path, "rw", SORT)
        with database.transaction():
            database.migrate(TABLES.split(";"), VERSION)
            database.run("INSERT INTO origin VALUES (0, ?, NULL)", database.home)
        return cls(database, path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The file at `path`.

        Raises Unavailable when there is none, Misuse when it is a copy, CorruptedLedger when it is damaged.
        """
        with cls._open(path) as protection:
            if protection._database.get("SELECT home FROM origin") != [(protection._database.home,)]:
                raise Misuse(
                    f"{path} is a copy, or was moved to another disk: what its original signs is not in it.",
                    fix=f"Go on with the original. When that signs no more, run: {RESUME}",
                )
            return protection

    @classmethod
    def resume(cls, path: Path, pubkeys: Sequence[bytes], slot: int, source: int, target: int) -> None:
        """Makes the file at `path`, a copy or a new one, the one that goes on.

        Nobody signs a block of `slot` or before, a vote for `target` or before, or from before `source`: what
        was signed up to there need not be known.
        """
        if not path.exists():
            cls.create(path).close()
        with cls._open(path) as protection, closing(protection), protection._database.transaction():
            protection._register(pubkeys, NOTHING, NOTHING, NOTHING)
            sql = (
                "UPDATE validators SET slot = max(slot, ?), source = max(source, ?), target = max(target, ?)"
            )
            protection._database.run(sql, slot, source, target)
            protection._database.run("UPDATE origin SET home = ?", protection._database.home)

    @classmethod
    @contextmanager
    def _open(cls, path: Path) -> Iterator[Self]:
        """A file that is sound, closed again when the body raises."""
        if not path.is_file():
            raise Unavailable(
                f"There is no {path}, which tells what these keys have signed.",
                fix=f"Bring it back. When it is lost for good, run: {RESUME}",
            )
        protection = cls(Sqlite.connect(path, "rw", SORT), path)
        with ExitStack() as refused:
            refused.callback(protection.close)
            protection._require_sound()
            yield protection
            refused.pop_all()

    def _require_sound(self) -> None:
        """A record that is lost is a second signature: a damaged file is not used at all."""
        version, found = self._database.get_version(), self._database.get("PRAGMA integrity_check")
        if version != VERSION or found != [("ok",)]:
            raise CorruptedLedger(f"{self._path} does not hold what was written to it.", fix=SORT.restore)

    def close(self) -> None:
        """Lets the file go."""
        self._database.close()

    # Whose records these are

    def bind(self, network_id: bytes) -> None:
        """Says once and for all which network the records are of. Raises WrongNetwork for another one."""
        with self._database.transaction():
            self._bind(network_id)

    def _bind(self, network_id: bytes) -> None:
        sql = "UPDATE origin SET network_id = ? WHERE network_id IS NULL"
        self._database.run(sql, network_id)
        known = self.find_network_id()
        if known != network_id:
            raise WrongNetwork(
                f"{self._path} is about network 0x{(known or b'').hex()}, not about 0x{network_id.hex()}.",
                fix="A network has keys of its own; make some with: anchor validator keygen",
            )

    def find_network_id(self) -> bytes | None:
        """The network that the records are of; None before they are of any."""
        [(found,)] = self._database.get("SELECT network_id FROM origin")
        return None if found is None else bytes(found)

    def register(
        self, pubkeys: Sequence[bytes], slot: int = NOTHING, source: int = NOTHING, target: int = NOTHING
    ) -> None:
        """Lets validators sign after this slot, from this source on, after this target: NOTHING, for all.

        Those that are registered keep what they have.
        """
        with self._database.transaction():
            self._register(pubkeys, slot, source, target)

    def _register(self, pubkeys: Sequence[bytes], slot: int, source: int, target: int) -> None:
        rows = [(pubkey, slot, source, target) for pubkey in pubkeys]
        sql = "INSERT OR IGNORE INTO validators (pubkey, slot, source, target) VALUES (?, ?, ?, ?)"
        self._database.run_many(sql, rows)

    def get_pubkeys(self) -> list[bytes]:
        """All validators that are registered."""
        return [row[0] for row in self._database.get("SELECT pubkey FROM validators ORDER BY number")]

    # What may be signed

    def allow_block(self, pubkey: bytes, slot: int, signing_root: bytes) -> bool:
        """Whether the validator may sign this block: recorded, when it may. The same one may be signed again.

        Raises Unavailable when that cannot be recorded: nothing may be signed then.
        """
        with self._database.transaction():
            validator = self._find_validator(pubkey)
            if validator is None or not self._may_propose(validator, slot, signing_root):
                return False
            sql = "INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)"
            self._database.run(sql, validator.number, slot, signing_root)
            self._prune_blocks(validator.number, slot - KEPT_SLOTS)
        return True

    def allow_attestation(
        self, pubkeys: Sequence[bytes], source: int, target: int, signing_root: bytes
    ) -> list[bytes]:
        """Those of the validators who may sign this vote, all recorded at once. Raises as `allow_block`."""
        allowed = []
        with self._database.transaction():
            for pubkey in dict.fromkeys(pubkeys):
                validator = self._find_validator(pubkey)
                if validator is None or not self._may_vote(validator, source, target, signing_root):
                    continue
                sql = "INSERT OR IGNORE INTO votes VALUES (?, ?, ?, ?)"
                self._database.run(sql, validator.number, target, source, signing_root)
                self._prune_votes(validator.number, target - KEPT_EPOCHS)
                allowed.append(pubkey)
        return allowed

    def _may_propose(self, validator: _Validator, slot: int, root: bytes) -> bool:
        """EIP-3076, conditions 1 and 2."""
        if slot > MAX_NUMBER:
            return False
        sql = "SELECT root FROM blocks WHERE validator = ? AND slot = ?"
        signed = self._database.get(sql, validator.number, slot)
        return signed == [(root,)] if signed else slot > validator.slot

    def _may_vote(self, validator: _Validator, source: int, target: int, root: bytes) -> bool:
        """EIP-3076, conditions 3 to 5: no double vote, none too old, none that surrounds or is surrounded."""
        if not source <= target <= MAX_NUMBER:
            return False
        sql = "SELECT source, root FROM votes WHERE validator = ? AND target = ?"
        signed = self._database.get(sql, validator.number, target)
        is_new = source >= validator.source and target > validator.target
        if signed != [(source, root)] if signed else not is_new:
            return False
        sql = """
            SELECT count(*) FROM votes WHERE validator = ?
            AND ((target > ? AND source < ?) OR (target < ? AND source > ?))
        """
        return self._database.get(sql, validator.number, target, source, target, source) == [(0,)]

    def _prune_blocks(self, number: int, before: int) -> None:
        sql = "SELECT max(slot) FROM blocks WHERE validator = ? AND slot < ?"
        [(newest,)] = self._database.get(sql, number, before)
        if newest is not None:
            run = self._database.run
            run("UPDATE validators SET slot = max(slot, ?) WHERE number = ?", newest, number)
            run("DELETE FROM blocks WHERE validator = ? AND slot < ?", number, before)

    def _prune_votes(self, number: int, before: int) -> None:
        """The floor is at the latest of those that go: no later vote surrounds one, or is surrounded."""
        sql = "SELECT max(source), max(target) FROM votes WHERE validator = ? AND target < ?"
        [(source, target)] = self._database.get(sql, number, before)
        if target is not None:
            run = self._database.run
            sql = "UPDATE validators SET source = max(source, ?), target = max(target, ?) WHERE number = ?"
            run(sql, source, target, number)
            run("DELETE FROM votes WHERE validator = ? AND target < ?", number, before)

    # Handing over

    def export_interchange(self) -> bytes:
        """All records, as an interchange file. Raises Misuse while they are of no network."""
        with self._database.transaction():
            network_id, pubkeys = self.find_network_id(), self.get_pubkeys()
            if network_id is None:
                raise Misuse(f"The keys of {self._path.parent} have signed on no network yet.")
            return encode_interchange(network_id, map(self._get_history, pubkeys))

    def _get_history(self, pubkey: bytes) -> History:
        """A validator's records. A floor whose own record is gone stands among them as if it were one."""
        sql = "SELECT number, slot, source, target FROM validators WHERE pubkey = ?"
        get = self._database.get
        [(number, slot, source, target)] = get(sql, pubkey)
        blocks = get("SELECT slot, root FROM blocks WHERE validator = ?", number)
        votes = get("SELECT source, target, root FROM votes WHERE validator = ?", number)
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
        with self._database.transaction():
            self._bind(network_id)
            for history in histories:
                self._merge(history)
        return len({history.pubkey for history in histories})

    def _merge(self, history: History) -> None:
        """Who exports tells all from the oldest record on: nothing before that is signed any more."""
        self._register([history.pubkey], NOTHING, NOTHING, NOTHING)
        sql = """
            UPDATE validators SET slot = max(slot, ?), source = max(source, ?), target = max(target, ?)
            WHERE pubkey = ? RETURNING number
        """
        slot = min([slot for slot, _ in history.blocks], default=NOTHING)
        source = min([source for source, _, _ in history.votes], default=NOTHING)
        target = min([target for _, target, _ in history.votes], default=NOTHING)
        [(number,)] = self._database.get(sql, slot, source, target, history.pubkey)
        run = self._database.run_many
        run("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", [(number, *row) for row in history.blocks])
        votes = [(number, target, source, root) for source, target, root in history.votes]
        run("INSERT OR IGNORE INTO votes VALUES (?, ?, ?, ?)", votes)

    def _find_validator(self, pubkey: bytes) -> _Validator | None:
        rows = self._database.get(
            "SELECT number, slot, source, target FROM validators WHERE pubkey = ?", pubkey
        )
        return _Validator(*rows[0]) if rows else None
