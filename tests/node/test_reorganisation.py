"""Readers of a chain whose newest blocks give way to others: what they say stays true."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from anchor.errors import NoSuchRecord, Unavailable
from anchor.node.chain import Chain
from anchor.node.events import describe_changes
from anchor.node.places import find_store
from anchor.node.reading import Reader
from anchor.node.records import FOREVER, Batch
from anchor.node.store import Store
from tests.node.tools import make_original, opened, publish, published

Made = tuple[Path, bytes]


def _record_only(ledger: Made, version: str) -> None:
    """Publishes, and is stopped before that is final."""

    def stop(self: Store, epoch: int) -> None:
        if self.get_newest_root() != newest:
            raise Unavailable("stopped")
        reserve(self, epoch)

    reserve = Store.reserve
    with opened(*ledger) as service, pytest.MonkeyPatch.context() as patch:
        newest = service.chain.get_head().root
        patch.setattr(Store, "reserve", stop)
        with pytest.raises(Unavailable, match="stopped"):
            publish(service, version)


def _cut_branch(folder: Path, after: int) -> Batch:
    """All that the ledger in `folder` has after slot `after`, to replace what another one has there."""
    with closing(Store.open(find_store(folder), writable=False)) as store:
        parent = store.find_block_before(after)
        assert parent is not None
        return Batch(
            blocks=tuple(store.get_blocks(after + 1, FOREVER)),
            parent=parent.root,
            replaces=True,
            snapshots=(store.get_snapshot_before(FOREVER),),
            entries=tuple([entry for entry in store.get_entries(0, FOREVER) if entry.slot > after]),
        )


def test_a_reader_follows_a_chain_that_is_replaced(ledger: Made, tmp_path: Path) -> None:
    folder, seed = ledger
    other = tmp_path / "other"
    copytree(folder, other)
    make_original(other)
    with closing(Store.open(find_store(folder), writable=False)) as store:
        slot = int(Chain(store).get_head().state.slot)
    _record_only((folder, seed), "lost")
    _record_only((other, seed), "won")
    with (
        closing(Store.open(find_store(folder), writable=True)) as writer,
        closing(Store.open(find_store(folder), writable=False)) as store,
    ):
        with store.one_view():
            old = Reader(Chain(store))
            lost = old.get_entry(old.status.entries - 1)
            assert published(old.chain) == ["1", "lost"]
            writer.commit(replace(_cut_branch(other, slot), pending=((lost.stored.root, lost.stored.ssz),)))
            assert published(old.chain) == ["1", "lost"]  # still the same view
            assert old.refresh() is old
        with store.one_view():
            new = old.refresh()
            assert published(new.chain) == ["1", "won"]
            assert new.find_entry(lost.stored.root) is None
            with pytest.raises(NoSuchRecord):
                new.chain.get_slot(old.status.head)
            assert old.list_entries(0, 9).items[:4] == new.list_entries(0, 9).items[:4]  # what is final
            told = describe_changes(old, new)
        assert [topic for topic, _ in told] == ["head", "entry", "justified"]
        assert told[1][1]["position"] == lost.stored.position
        assert told[1][1]["root"] != f"0x{lost.stored.root.hex()}"
