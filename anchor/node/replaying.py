"""Blocks and manifests that are brought back from a backup: judged one by one, and stored in runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.duties import MAX_TIMESTAMP_SKEW
from anchor.consensus.forks.ledger import Ledger
from anchor.errors import InvalidTransition, MalformedSSZ
from anchor.ml.manifest import decode_manifest, manifest_root
from anchor.node.backup_file import BLOCK, MANIFEST, broken, decode_record
from anchor.node.batches import Made, make_batch
from anchor.node.records import Batch
from anchor.node.store import Store

RUN: Final = 64
"""Blocks that are committed together."""


class Replay:
    """Fills a store that is at its genesis."""

    def __init__(self, store: Store, ledger: Ledger, state: Any, path: Path, now: int) -> None:
        self._store, self._ledger, self._path, self._now = store, ledger, path, now
        self.state = state
        """After the newest block."""
        self.missing: set[bytes] = set()
        """Roots of the published manifests that have not come yet, once all blocks have."""
        self._run: list[Made] = []
        self._is_done = False

    def take(self, kind: bytes, data: bytes) -> bool:
        """Takes a record; False where it is neither a block nor a manifest, or out of its place.

        Raises MalformedFile for what cannot be read, or belongs to nothing; Invalid for what breaks a rule.
        """
        if kind == BLOCK and not self._is_done:
            self._take_block(data)
        elif kind == MANIFEST:
            self.finish()
            self._take_manifest(data)
        else:
            return False
        return True

    def finish(self) -> None:
        """No block comes any more."""
        if not self._is_done:
            self._commit_run()
            self.missing = {version.manifest_root for version in self.state.versions}
            self._is_done = True

    def _take_block(self, data: bytes) -> None:
        schema = self._ledger.scope.schema(SignedBeaconBlock)
        block: SignedBeaconBlock = decode_record(schema, data, self._path)
        timestamp = block.message.body.timestamp  # type: ignore[attr-defined]
        if timestamp > self._now + MAX_TIMESTAMP_SKEW:
            raise InvalidTransition(
                f"The block of slot {block.message.slot} was made {timestamp - self._now} seconds from now.",
                fix="Set this machine's clock, if it is behind.",
            )
        self.state = self._ledger.state_transition(self.state, block)
        self._run.append(Made(self._ledger.hash_tree_root(block.message), block, self.state))
        if len(self._run) == RUN:
            self._commit_run()

    def _commit_run(self) -> None:
        if self._run:
            kept = self._store.get_newest_kept_slot()
            self._store.commit(make_batch(self._ledger, self._run, None, kept))
            self._run = []

    def _take_manifest(self, data: bytes) -> None:
        try:
            root = manifest_root(decode_manifest(data))
        except MalformedSSZ as error:
            raise broken(self._path, f"holds a manifest that cannot be read ({error.what})") from None
        if root not in self.missing:
            raise broken(self._path, f"holds manifest 0x{root.hex()}, which no block publishes")
        self.missing.discard(root)
        self._store.commit(Batch(manifests=((root, data),)))
