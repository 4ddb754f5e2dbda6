"""The tables of a ledger's store, one version after another, in SQLite's words."""

from __future__ import annotations

from typing import Final

VERSION: Final = 3
"""Of the tables; an older store is brought up to it by MIGRATIONS, a newer one is refused."""
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
    ALTER TABLE ledger ADD COLUMN final INTEGER NOT NULL DEFAULT 0;  -- newest final slot
    ALTER TABLE ledger ADD COLUMN missing BLOB;  -- parent of the oldest block, if not genesis
    ALTER TABLE ledger ADD COLUMN home TEXT NOT NULL DEFAULT '';  -- what may sign, and no copy of it
    CREATE TABLE side_blocks (  -- verified, and not on the chain
        slot INTEGER NOT NULL,
        root BLOB PRIMARY KEY,
        signed_root BLOB NOT NULL,
        ssz BLOB NOT NULL
    );
    CREATE INDEX side_blocks_by_slot ON side_blocks (slot);
    CREATE TABLE pending (arrival INTEGER PRIMARY KEY, root BLOB NOT NULL UNIQUE, ssz BLOB NOT NULL);
    CREATE INDEX entries_by_slot ON entries (slot);
    """,
    """
    CREATE INDEX blocks_by_state ON blocks (substr(ssz, 149, 32));  -- root of the state that it leads to
    """,
)
"""MIGRATIONS[v] brings tables of version v to v + 1."""
RECORDS: Final = ("blocks", "snapshots", "entries", "manifests", "side_blocks", "pending")
"""The tables whose rows have an encoding."""
TABLES: Final = ("ledger", *RECORDS)
CUT: Final = (
    "INSERT INTO side_blocks SELECT * FROM blocks WHERE slot > ? ON CONFLICT DO NOTHING",
    "DELETE FROM blocks WHERE slot > ?",
    "DELETE FROM snapshots WHERE slot > ?",
    "DELETE FROM entries WHERE slot > ?",
)
"""What takes the blocks after a slot off the chain, with all that they brought."""
BEGIN: Final = "INSERT INTO ledger (id, name, genesis, reserved, may_sign, home) VALUES (0, ?, ?, ?, ?, ?)"
NEWEST_BEFORE: Final = "SELECT root FROM blocks WHERE slot < ? ORDER BY slot DESC LIMIT 1"
LENGTH: Final = "SELECT coalesce(sum(length(ssz)), 0) FROM "
ADD_PENDING: Final = """
    INSERT INTO pending SELECT coalesce(max(arrival), 0) + 1, ?, ? FROM pending WHERE true
    ON CONFLICT DO NOTHING
"""


def get_statements(version: int) -> list[str]:
    """What brings tables of `version` up to VERSION; version 0 has none."""
    text = "\n".join(MIGRATIONS[version:])
    return [statement for statement in text.split(";") if statement.strip()]
