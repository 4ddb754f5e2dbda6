"""Checkpoints in the code, as Bitcoin shipped them: what no evidence may pass by (rule 22)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anchor.consensus.containers.phase0 import Checkpoint

Table = Mapping[bytes, tuple[Checkpoint, ...]]
"""By a network's identity (its state's `genesis_validators_root`): finalised checkpoints, ascending."""

HARDCODED: Final[Table] = {}
"""No ledger network is public yet. An entry, once here, is never taken out."""


def get_newest(table: Table, network_id: bytes, epoch: int) -> Checkpoint | None:
    """The network's newest hardcoded checkpoint at or before `epoch`; None where there is none."""
    passed = [checkpoint for checkpoint in table.get(network_id, ()) if checkpoint.epoch <= epoch]
    return passed[-1] if passed else None
