"""How a ledger stands."""

from __future__ import annotations

from dataclasses import dataclass

from anchor.consensus.containers.phase0 import Checkpoint


@dataclass(frozen=True, slots=True)
class Status:
    """How a ledger stands."""

    name: str
    network_id: bytes
    genesis: Checkpoint
    head: bytes
    """Root of the newest block."""
    slot: int
    epoch: int
    timestamp: int
    """Of the newest block; Unix time, seconds."""
    justified: Checkpoint
    finalized: Checkpoint
    validators: int
    entries: int
    final_entries: int
    """Of those. The others were recorded when the ledger was interrupted; the next one makes them final."""
    may_sign: bool
    """False for a copy that only reads."""
