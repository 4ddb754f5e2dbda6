"""What a store keeps and gives back, in bytes and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLOCK: Final = (int, bytes, bytes, bytes)
SNAPSHOT: Final = (int, bytes, int, bytes)
ENTRY: Final = (int, bytes, int, int, bytes)
"""Types of the tables' columns."""
FOREVER: Final = (1 << 63) - 1
"""Beyond every slot that a store holds."""


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
    """Root of the block that they follow: the newest one."""
    replaces: bool = False
    """The parent may be an earlier block: those after it leave the chain, and are beside it from then on."""
    side: tuple[Block, ...] = ()
    """Verified blocks that are not on the chain."""
    final: int | None = None
    """Slot of the newest final block; it only grows. Blocks beside the chain up to it go."""
    snapshots: tuple[Snapshot, ...] = ()
    """Where there are any, they replace those that are not kept."""
    entries: tuple[StoredEntry, ...] = ()
    manifests: tuple[tuple[bytes, bytes], ...] = ()
    """Root and encoding of each."""
    pending: tuple[tuple[bytes, bytes], ...] = ()
    """Root and encoding of entries that wait to be on the chain."""
    settled: tuple[bytes, ...] = ()
    """Roots of those that wait no longer."""
