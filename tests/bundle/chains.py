"""A ledger's chain as the makers of bundles see it, kept in memory: every block, every state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint, IndexedAttestation
from anchor.errors import Unavailable
from anchor.ml.manifest import Manifest, encode_manifest, manifest_root
from tests.consensus.ledgers import Chain


class ViewedChain(Chain):
    """A `LedgerView`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.states: dict[bytes, Any] = {}
        self.headers: dict[bytes, BeaconBlockHeader] = {}
        self.manifests: dict[bytes, bytes] = {}
        self.entries: list[SignedEntry] = []
        self._keep()

    def add_block(self, *entries: SignedEntry, timestamp: int | None = None) -> None:
        super().add_block(*entries, timestamp=timestamp)
        self.entries.extend(entries)
        self._keep()

    def add_epochs(self, count: int) -> None:
        """Blocks up to the first slot of an epoch, `count` epochs on."""
        goal = (self.state.slot // 8 + count) * 8
        while self.state.slot < goal:
            self.add_block()

    def add_manifest(self, manifest: Manifest) -> bytes:
        root = manifest_root(manifest)
        self.manifests[root] = encode_manifest(manifest)
        return root

    def _keep(self) -> None:
        header = self.state.latest_block_header
        header = header.replace(state_root=self.ledger.hash_tree_root(self.state))
        root = self.ledger.hash_tree_root(header)
        self.headers[root], self.states[root] = header, self.state

    def get_finalized_checkpoint(self) -> Checkpoint:
        checkpoint: Checkpoint = self.state.finalized_checkpoint
        return checkpoint if checkpoint.epoch else self.get_checkpoint(0)

    def get_checkpoint(self, epoch: int) -> Checkpoint:
        header = max((h for h in self.headers.values() if h.slot <= 8 * epoch), key=lambda h: h.slot)
        return Checkpoint(epoch=epoch, root=self.ledger.hash_tree_root(header))

    def get_header(self, root: bytes) -> BeaconBlockHeader:
        if root not in self.headers:
            raise Unavailable("There is no such block.")
        return self.headers[root]

    def get_state(self, root: bytes) -> Any:
        return self.states[root]

    def get_attestations(self, epoch: int) -> Sequence[IndexedAttestation]:
        return [
            self.ledger.get_indexed_attestation(self.state, vote)
            for block in self.blocks
            for vote in block.message.body.attestations
            if vote.data.target.epoch == epoch
        ]

    def get_signed_entry(self, position: int) -> SignedEntry:
        return self.entries[position]

    def get_manifest(self, root: bytes) -> bytes:
        return self.manifests[root]
