"""The embedded ledger: verify, reserve, sign, commit. One writer, one operator, blocks on demand.

What is recorded is either committed together with the blocks that make it final, or not at all. Before
anything is signed in an epoch, that epoch is reserved on disk; after a crash nothing is ever signed in it
again. So no restart votes twice for a target. Nor does a vote surround another: along one chain the source
never goes back, and epochs that were lost leave the chain as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.duties import MAX_TIMESTAMP_SKEW, Keyring
from anchor.errors import Misuse, Unavailable
from anchor.node.batches import Made, make_batch
from anchor.node.chain import Chain, Head
from anchor.node.clock import Clock
from anchor.node.production import FINALISED, JUSTIFIED, Producer, Step, Watch
from anchor.node.store import Store

MAX_EPOCHS: Final = 4
"""Epochs within which an entry must be final; two are enough where everybody votes."""
FIRST_EPOCH: Final = 2
"""No checkpoint of an earlier epoch can be justified by its own votes (phase0, justification)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Entries that are final."""

    checkpoint: Checkpoint
    """The finalised checkpoint; its block holds the entries."""
    positions: tuple[int, ...]
    """Of the entries in the ledger's list."""
    timestamp: int


def ignore(_: Any) -> None:
    """Watches nothing."""


class Service:
    """Writes to a ledger. Whoever makes one holds the ledger's lock."""

    def __init__(self, store: Store, keys: Keyring, clock: Clock) -> None:
        self._store, self._keys, self._clock = store, keys, clock
        self.chain = Chain(store)

    def verify(self, entries: Sequence[SignedEntry]) -> None:
        """Raises Invalid unless the ledger would take these entries next, in this order. Changes nothing."""
        self._verify(self.chain.get_head(), self._next_epoch(), entries)

    def record(
        self,
        entries: Sequence[SignedEntry],
        manifests: Sequence[tuple[bytes, bytes]] = (),
        watch: Watch = ignore,
    ) -> Recorded:
        """Records entries, and keeps manifests (root, encoding). They are final and durable on return.

        Raises Misuse in a copy that may not sign, Invalid for entries that the ledger refuses, Unavailable
        when the clock is wrong or the store cannot be written; then nothing is recorded.
        """
        self._require_signing()
        head, first = self.chain.get_head(), self._next_epoch()
        timestamp = self._get_timestamp(head)
        self._verify(head, first, entries)
        producer = Producer(self.chain.ledger, self._keys, head.state, watch)
        made: list[Made] = []
        for epoch in range(first, first + MAX_EPOCHS):
            self._store.reserve(epoch)
            made += producer.make_epoch(epoch, entries if epoch == first else (), timestamp)
            justified, final = self.chain.get_finality(producer.state)
            watch(self._to_step(JUSTIFIED, justified))
            if final.epoch >= first:
                break
        else:
            raise Unavailable(f"{MAX_EPOCHS} epochs were not enough to make epoch {first} final.")
        kept = self._store.get_newest_kept_slot()
        batch = make_batch(self.chain.ledger, made, final.root, kept, manifests)
        self._store.commit(batch)
        watch(self._to_step(FINALISED, final))
        return Recorded(final, tuple([entry.position for entry in batch.entries]), timestamp)

    def _to_step(self, kind: str, checkpoint: Checkpoint) -> Step:
        slot = self.chain.ledger.compute_start_slot_at_epoch(checkpoint.epoch)
        return Step(kind, slot, checkpoint.epoch, checkpoint.root)

    def _next_epoch(self) -> int:
        """The first epoch in which nothing can have been signed."""
        return max(self._store.get_reserved() + 1, FIRST_EPOCH)

    def _require_signing(self) -> None:
        if not self._store.may_sign():
            raise Misuse(
                "This copy of the ledger only reads: its original may still be signing.",
                fix="When the original is gone for good, import its backup again with --take-over.",
            )

    def _get_timestamp(self, head: Head) -> int:
        """Now, but never before the newest block (rule 18). Raises Unavailable when the clock went back."""
        now, newest = self._clock.now(), int(head.state.timestamp)
        if newest - now > MAX_TIMESTAMP_SKEW:
            raise Unavailable(
                f"The newest block was made {newest - now} seconds after the time of this machine's clock.",
                fix="Set the clock.",
            )
        return max(now, newest)

    def _verify(self, head: Head, epoch: int, entries: Sequence[SignedEntry]) -> None:
        ledger, ahead = self.chain.ledger, head.state.copy()
        ledger.process_slots(ahead, ledger.compute_start_slot_at_epoch(epoch))
        for entry in entries:
            ledger.verify_entry(ahead, entry)
            ledger.apply_entry(ahead, entry)
