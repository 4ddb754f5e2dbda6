"""The embedded ledger: verify, reserve, sign, commit. One writer, one operator, blocks on demand.

Before anything is signed in an epoch, that epoch is reserved on disk, and all before it is committed. After a
crash nothing is ever signed in a reserved epoch again: no restart votes twice for a target. Nor does a vote
surround another: an epoch that was lost took its source from blocks that were committed, all later votes
build on those, and along one chain the source never goes back.

Whoever was told that an entry is final finds it final. Whoever was told nothing may find it recorded, and
makes it final by recording anything, or nothing, after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from anchor.consensus.containers.entries import Publish, RegisterPublisher, SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.duties import MAX_TIMESTAMP_SKEW, Keyring
from anchor.consensus.schemes import SigningKey
from anchor.errors import Unavailable
from anchor.node.batches import Made, make_batch
from anchor.node.chain import Chain, Head
from anchor.node.clock import Clock
from anchor.node.entries import Pen
from anchor.node.production import FINALISED, JUSTIFIED, Producer, Step, Watch
from anchor.node.publishing import Author, find_pending, write_publication
from anchor.node.records import Batch
from anchor.node.store import Store

MAX_EPOCHS: Final = 4
"""Epochs within which an entry must be final; two are enough where everybody votes."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Entries that are final."""

    checkpoint: Checkpoint
    """The finalised checkpoint: its block holds the entries, or follows one that does."""
    positions: tuple[int, ...]
    """Of the entries in the ledger's list."""


def ignore(_: Any) -> None:
    """Watches nothing."""


class Service:
    """Writes to a ledger. Whoever makes one holds the ledger's lock."""

    def __init__(self, store: Store, keys: Keyring, administrator: SigningKey, clock: Clock) -> None:
        self._store, self._keys, self._administrator, self._clock = store, keys, administrator, clock
        self.chain = Chain(store)

    def publish(
        self, author: Author, publication: Publish, manifest: bytes, watch: Watch = ignore
    ) -> Recorded:
        """Records a publication, with all that it needs, and its manifest's encoding.

        One that was interrupted before it was final is brought to its end. Raises as `record` does.
        """
        pending = find_pending(self.chain, publication)
        if pending is not None and pending.manifest_root == publication.manifest_root:
            return self.record([], watch=watch)
        entries = write_publication(self.chain, author, self._administrator, publication)
        return self.record(entries, [(publication.manifest_root, manifest)], watch)

    def finish(self, watch: Watch = ignore) -> None:
        """Makes final what an interrupted writer recorded: a refusal after it speaks of what is final."""
        status = self.chain.get_status()
        if status.may_sign and status.entries > status.final_entries:
            self.record([], watch=watch)

    def record(
        self,
        entries: Sequence[SignedEntry],
        manifests: Sequence[tuple[bytes, bytes]] = (),
        watch: Watch = ignore,
    ) -> Recorded:
        """Records entries, and keeps manifests (root, encoding). They are final and durable on return.

        Raises Misuse in a copy that only reads, Invalid for entries that the ledger refuses, Unavailable when
        the clock is wrong: then nothing is recorded. Unavailable too when the store cannot be written.
        """
        self.chain.verify_entries(entries)
        head, first = self.chain.get_head(), self.chain.get_next_epoch()
        timestamp = self._get_timestamp(head)
        producer = Producer(self.chain, self._keys, watch)
        starts: dict[bytes, Made] = {}
        for epoch in range(first, first + MAX_EPOCHS):
            fresh = epoch == first
            self._store.reserve(epoch)
            made = list(producer.make_epoch(epoch, entries if fresh else (), timestamp))
            starts[made[0].root] = made[0]
            justified, final = self.chain.get_finality(producer.state)
            self._commit(made, starts.get(final.root), manifests if fresh else ())
            watch(self._to_step(JUSTIFIED, justified))
            if final.epoch >= first:
                watch(self._to_step(FINALISED, final))
                count = len(head.state.entries)
                return Recorded(final, tuple(range(count, count + len(entries))))
        raise Unavailable(f"The entries are recorded, and {MAX_EPOCHS} epochs did not make them final.")

    def register(self, identity: bytes, watch: Watch = ignore) -> Recorded:
        """Registers the publisher with this root key, as the administrator. Raises as `record` does."""
        pen = Pen(self.chain.get_head().state, self.chain.get_next_epoch())
        author = self._administrator.public.public_key
        entry = pen.write(author, RegisterPublisher(root_key=identity), (self._administrator,))
        return self.record([entry], watch=watch)

    def keep_manifest(self, root: bytes, manifest: bytes) -> None:
        """Keeps the encoding of a published manifest, which the caller has checked. Durable on return."""
        self._store.commit(Batch(manifests=((root, manifest),)))

    def _commit(
        self, made: Sequence[Made], finalized: Made | None, manifests: Sequence[tuple[bytes, bytes]]
    ) -> None:
        kept = self._store.get_newest_kept_slot()
        self._store.commit(make_batch(self.chain.ledger, made, finalized, kept, manifests))

    def _to_step(self, kind: str, checkpoint: Checkpoint) -> Step:
        slot = self.chain.ledger.compute_start_slot_at_epoch(checkpoint.epoch)
        return Step(kind, slot, checkpoint.epoch, checkpoint.root)

    def _get_timestamp(self, head: Head) -> int:
        """Now, but never before the newest block (rule 18). Raises Unavailable when the clock went back."""
        now, newest = self._clock.now(), int(head.state.timestamp)
        if newest - now > MAX_TIMESTAMP_SKEW:
            raise Unavailable(
                f"The newest block was made {newest - now} seconds after the time of this machine's clock.",
                fix="Set the clock.",
            )
        return max(now, newest)
