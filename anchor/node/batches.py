"""What a run of verified blocks leaves in the store: blocks, entries, and the states worth keeping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.forks.ledger import Ledger
from anchor.merkle.scope import hash_tree_root, schema_of
from anchor.node.records import Batch, Block, Snapshot, StoredEntry

SNAPSHOT_SLOTS: Final = 256
"""Slots between states that are kept for good; those between are made anew from at most as many blocks."""


@dataclass(frozen=True, slots=True)
class Made:
    """A block that was verified, and the state after it."""

    root: bytes
    block: SignedBeaconBlock
    state: Any
    """The ledger's BeaconState."""

    @property
    def slot(self) -> int:
        """The block's."""
        return int(self.block.message.slot)


def make_batch(
    ledger: Ledger,
    made: Sequence[Made],
    finalized: Made | None,
    newest_kept: int,
    manifests: Iterable[tuple[bytes, bytes]] = (),
) -> Batch:
    """The batch of a run of blocks, upon a chain whose newest kept state is of slot `newest_kept`.

    `finalized` is the newest final block, in this run or an earlier one, where its state is at hand.
    """
    return Batch(
        blocks=tuple([make_block(ledger, item.root, item.block) for item in made]),
        parent=bytes(made[0].block.message.parent_root),
        snapshots=tuple(_make_snapshots(ledger, made, finalized, newest_kept)),
        entries=tuple(make_entries([item.block for item in made], len(made[-1].state.entries))),
        manifests=tuple(manifests),
    )


def make_block(ledger: Ledger, root: bytes, signed: SignedBeaconBlock) -> Block:
    """A signed block, as stored."""
    return Block(signed.message.slot, root, ledger.hash_tree_root(signed), ledger.scope.encode(signed))


def make_snapshot(ledger: Ledger, root: bytes, state: Any, *, kept: bool) -> Snapshot:
    """The state after block `root`, as stored."""
    return Snapshot(slot=int(state.slot), root=root, ssz=ledger.scope.encode(state), kept=kept)


def _make_snapshots(
    ledger: Ledger, made: Sequence[Made], finalized: Made | None, newest_kept: int
) -> Iterator[Snapshot]:
    """One every SNAPSHOT_SLOTS, to be kept; those of the newest block and the final one, until the next."""
    kept = set()
    for item in made:
        if item.slot >= newest_kept + SNAPSHOT_SLOTS:
            newest_kept = item.slot
            kept.add(item.root)
            yield make_snapshot(ledger, item.root, item.state, kept=True)
    passing = {item.root: item for item in (finalized, made[-1]) if item is not None}
    for root in passing.keys() - kept:
        yield make_snapshot(ledger, root, passing[root].state, kept=False)


def make_entries(blocks: Sequence[SignedBeaconBlock], count: int) -> Iterator[StoredEntry]:
    """The entries that a run of blocks brings, as stored; `count` are recorded once it has."""
    bodies: list[tuple[int, Any]] = [(signed.message.slot, signed.message.body) for signed in blocks]
    brought = [(slot, body.timestamp, entry) for slot, body in bodies for entry in body.entries]
    for position, (slot, timestamp, entry) in enumerate(brought, count - len(brought)):
        yield StoredEntry(
            position=position,
            root=hash_tree_root(entry),
            slot=slot,
            timestamp=timestamp,
            ssz=schema_of(SignedEntry).encode(entry),
        )
