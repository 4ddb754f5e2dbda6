"""A pruned ledger: what nobody's trust needs is gone, and says so; all else goes on."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from anchor.bundle.build import build_bundle
from anchor.bundle.verify import Expectations, verify_bundle
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.weak_subjectivity import compute_expiry
from anchor.errors import NoSuchRecord
from anchor.node import batches
from anchor.node.backup import export_ledger
from anchor.node.checking import check_folder
from anchor.node.clock import ManualClock
from anchor.node.folder import open_reader
from anchor.node.places import find_store
from anchor.node.pruning import find_prunable_slot, prune_store
from anchor.node.reading import Reader
from anchor.node.store import Store
from tests.node.tools import ALICE, NOW, opened, publish

Made = tuple[Path, bytes]
APART = 13_000_000
"""Seconds between two publications; a checkpoint is trusted for three times as long."""


@pytest.fixture
def old(any_ledger: Made, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A ledger whose first half is too old to be trusted."""
    monkeypatch.setattr(batches, "SNAPSHOT_SLOTS", 16)
    clock = ManualClock(NOW)
    with opened(*any_ledger, clock) as service:
        for version in range(2, 9):
            clock.advance(APART)
            publish(service, str(version))
    return any_ledger


def _prune(folder: Path) -> int:
    with closing(Store.open(find_store(folder), writable=True)) as store:
        slot = find_prunable_slot(store)
        assert slot is not None
        assert prune_store(store) > 0
        assert prune_store(store) == 0
        assert store.get_oldest_slot() == slot
    return slot


def _build(folder: Path, trusted: Checkpoint, version: str) -> bytes:
    with open_reader(folder) as chain:
        return build_bundle(chain, "acme/tiny", version, trusted)


def test_bundles_for_whoever_is_still_trusted_go_on(old: Made) -> None:
    folder, _ = old
    with open_reader(folder) as chain:
        checkpoints = [
            chain.get_checkpoint(epoch) for epoch in range(chain.get_finalized_checkpoint().epoch + 1)
        ]
        expiry = [compute_expiry(chain.get_state(checkpoint.root), 8) for checkpoint in checkpoints]
        now = int(chain.get_state(chain.get_finalized_checkpoint().root).timestamp)
        before = Reader(chain)
    slot = _prune(folder)
    made = refused = 0
    for checkpoint, expires in zip(checkpoints[2:], expiry[2:], strict=True):
        if expires > now:
            for version in ("1", "8"):
                expected = Expectations("acme/tiny", version, ALICE.identity)
                bundle = _build(folder, checkpoint, version)
                assert verify_bundle(bundle, checkpoint, expected, now=now).newest.epoch >= checkpoint.epoch
            made += 1
        elif checkpoint.epoch * 8 < slot:
            with pytest.raises(NoSuchRecord, match=rf"keeps none from before slot {slot}\."):
                _build(folder, checkpoint, "8")
            refused += 1
    assert made > 2
    assert refused > 2
    with open_reader(folder) as chain:
        after = Reader(chain)
        assert after.list_versions("acme/tiny", 0, 9) == before_versions(before, after)
        assert after.status == before.status
        assert len(list(chain.get_entries(0, 99))) == after.status.entries


def before_versions(before: Reader, after: Reader) -> object:
    """What was said of all versions; `before` reads no more."""
    before.chain = after.chain
    return before.list_versions("acme/tiny", 0, 9)


def test_what_was_let_go_of_is_told_plainly(old: Made, tmp_path: Path) -> None:
    folder, _ = old
    with open_reader(folder) as chain:
        gone = chain.get_checkpoint(3)
    slot = _prune(folder)
    with open_reader(folder) as chain:
        reader = Reader(chain)
        for ask in (
            lambda: reader.list_votes(3),
            lambda: chain.get_checkpoint(3),
            lambda: chain.get_blocks_between(0, 99),
        ):
            with pytest.raises(NoSuchRecord, match=f"keeps no blocks from before slot {slot}"):
                ask()
        for ask_by_root in (chain.get_state, chain.get_header, reader.get_block):
            with pytest.raises(NoSuchRecord, match=rf"has no block .* keeps none from before slot {slot}\."):
                ask_by_root(gone.root)
        assert reader.list_blocks(0, 1).items[0].slot == slot
        assert chain.get_checkpoint(0).epoch == 0
    with pytest.raises(NoSuchRecord, match="keeps no blocks from before"):
        export_ledger(folder, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_pruned_ledger_is_sound_and_goes_on(old: Made) -> None:
    folder, seed = old
    _prune(folder)
    with opened(folder, seed, ManualClock(NOW + 20 * APART)) as service:
        publish(service, "9")
    report = check_folder(folder, lambda _: nullcontext(lambda _: None))
    assert report.damage is None
    assert report.entries == 12
    _prune(folder)  # what was trusted then is not any more
