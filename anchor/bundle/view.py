"""What a bundle is cut from: a ledger as its maker sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.ledger import BeaconState
from anchor.consensus.containers.phase0 import (
    BeaconBlockHeader,
    Checkpoint,
    IndexedAttestation,
    SignedBeaconBlock,
)


class LedgerView(Protocol):
    """A ledger's finalised chain, and the votes that made it final. Every method raises Unavailable for what
    is not there.
    """

    def get_finalized_checkpoint(self) -> Checkpoint:
        """The newest."""

    def get_checkpoint(self, epoch: int) -> Checkpoint:
        """The finalised chain's checkpoint of `epoch`: the newest block up to its first slot."""

    def get_header(self, root: bytes) -> BeaconBlockHeader:
        """The header of the block with this root."""

    def get_state(self, root: bytes) -> BeaconState:
        """The state after the block with this root; not to be written to."""

    def get_attestations(self, epoch: int) -> Sequence[IndexedAttestation]:
        """All known votes with a target of `epoch`, those in blocks that are not final included."""

    def get_blocks_between(self, start: int, stop: int) -> Sequence[SignedBeaconBlock]:
        """The blocks of slots start … stop - 1 on the newest one's branch, ascending."""

    def get_signed_entry(self, position: int) -> SignedEntry:
        """The entry at this position of the ledger's list."""

    def get_manifest(self, root: bytes) -> bytes:
        """The encoding of the manifest with this root."""
