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
from anchor.errors import Unavailable
from anchor.node.batches import Made, make_batch
from anchor.node.chain import Chain, Head
from anchor.node.clock import Clock
from anchor.node.production import FINALISED, JUSTIFIED, Producer, Step, Watch
from anchor.node.store import Store

MAX_EPOCHS: Final = 4
"""Epochs within which an entry must be final; two are enough where everybody votes."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Entries that are final."""

    checkpoint: Checkpoint
    """The finalised checkpoint; its block holds the entries."""
    positions: tuple[int, ...]
    """Of the entries in the ledger's list."""


def ignore(_: Any) -> None:
    """Watches nothing."""


class Service:
    """Writes to a ledger. Whoever makes one holds the ledger's lock."""

    def __init__(self, store: Store, keys: Keyring, clock: Clock) -> None:
        self._store, self._keys, self._clock = store, keys, clock
        self.chain = Chain(store)

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
        self.chain.verify_entries(entries)
        made, final = self._make_final(entries, watch)
        kept = self._store.get_newest_kept_slot()
        batch = make_batch(self.chain.ledger, made, final.root, kept, manifests)
        self._store.commit(batch)
        watch(self._to_step(FINALISED, final))
        return Recorded(final, tuple([entry.position for entry in batch.entries]))

    def _make_final(self, entries: Sequence[SignedEntry], watch: Watch) -> tuple[list[Made], Checkpoint]:
        """Blocks from the first that holds `entries` to the one that makes it final, and its checkpoint."""
        head, first = self.chain.get_head(), self.chain.get_next_epoch()
        timestamp = self._get_timestamp(head)
        producer = Producer(self.chain.ledger, self._keys, head.state, watch)
        made: list[Made] = []
        for epoch in range(first, first + MAX_EPOCHS):
            self._store.reserve(epoch)
            made += producer.make_epoch(epoch, entries if epoch == first else (), timestamp)
            justified, final = self.chain.get_finality(producer.state)
            watch(self._to_step(JUSTIFIED, justified))
            if final.epoch == first:
                return made, final
        raise Unavailable(f"{MAX_EPOCHS} epochs were not enough to make epoch {first} final.")

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
