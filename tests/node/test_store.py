"""The store: durable, all or nothing, and honest about damage."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple
from pathlib import Path

import pytest

from anchor.errors import CorruptedLedger, Misuse, Unavailable
from anchor.node.places import FILE, Place, find_store
from anchor.node.records import Batch, Block, Snapshot, StoredEntry
from anchor.node.sqlite import APPLICATION_ID
from anchor.node.store import Store
from anchor.node.tables import MIGRATIONS


def _root(number: int) -> bytes:
    return number.to_bytes(32, "little")


def _block(slot: int) -> Block:
    return Block(slot=slot, root=_root(slot), signed_root=_root(500 + slot), ssz=b"block %d" % slot)


def _snapshot(slot: int, *, kept: bool) -> Snapshot:
    return Snapshot(slot=slot, root=_root(slot), ssz=b"state %d" % slot, kept=kept)


def _batch(*slots: int, after: int = 0, kept: bool = False) -> Batch:
    return Batch(
        blocks=tuple(map(_block, slots)),
        parent=_root(after),
        snapshots=(_snapshot(slots[0], kept=kept), _snapshot(slots[-1], kept=False)),
        entries=tuple(StoredEntry(slot, _root(1000 + slot), slot, 77, b"entry %d" % slot) for slot in slots),
        manifests=((_root(7), b"manifest"),),
    )


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    store = Store.create(place, "lab", b"genesis", reserved=0, may_sign=True)
    store.commit(Batch(snapshots=(_snapshot(0, kept=True),)))
    yield store
    store.close()


def test_what_was_committed_is_there_after_reopening(place: Place, store: Store) -> None:
    store.reserve(1)
    store.commit(_batch(8, 9, 10))
    store.close()
    again = Store.open(place, writable=False)
    assert again.get_snapshot_before(99) == _snapshot(10, kept=False)
    assert (again.get_name(), again.get_genesis()) == ("lab", b"genesis")
    assert again.find_block(_root(9)) == _block(9)
    assert again.find_block(_root(11)) is None
    assert again.find_block_before(7) is None
    assert list(again.get_blocks(8, 10)) == [_block(8), _block(9)]
    assert [entry.position for entry in again.get_entries(9, 20)] == [9, 10]
    assert again.find_entry(8) == StoredEntry(8, _root(1008), 8, 77, b"entry 8")
    assert again.find_entry(7) is None
    assert again.find_manifest(_root(7)) == b"manifest"
    assert again.find_manifest(_root(8)) is None
    assert again.get_manifest_roots() == [_root(7)]
    assert again.get_reserved() == 1
    assert again.may_sign()
    again.close()


def test_a_batch_is_all_or_nothing(store: Store) -> None:
    store.commit(_batch(8, 9))
    clash = Batch(blocks=(_block(10), _block(9)), parent=_root(9), snapshots=(_snapshot(10, kept=True),))
    with pytest.raises(CorruptedLedger):
        store.commit(clash)
    assert store.find_block_before(99) == _block(9)
    assert store.get_snapshot_before(99) == _snapshot(9, kept=False)


def test_only_kept_snapshots_outlive_the_next_commit(store: Store) -> None:
    store.commit(_batch(8, 15, kept=True))
    store.commit(_batch(16, 23, after=15))
    store.commit(_batch(24, 31, after=23))
    assert [store.get_snapshot_before(slot).slot for slot in (7, 23, 30, 99)] == [0, 8, 24, 31]
    assert store.get_newest_kept_slot() == 8


def test_a_reservation_never_goes_back(store: Store) -> None:
    store.reserve(5)
    for epoch in (5, 3):  # who reserved it signs in it
        with pytest.raises(Unavailable, match="Another process"):
            store.reserve(epoch)
    assert store.get_reserved() == 5


def test_blocks_follow_the_newest(store: Store) -> None:
    store.commit(_batch(8, 9))
    with pytest.raises(Unavailable, match="Another process"):
        store.commit(_batch(16, 17))
    assert store.find_block_before(99) == _block(9)


def test_a_reader_sees_one_moment(place: Place, store: Store) -> None:
    reader = Store.open(place, writable=False)
    with reader.one_view():
        assert reader.find_block_before(99) is None
        store.commit(_batch(8, 9))
        assert reader.find_block_before(99) is None
    assert reader.find_block_before(99) == _block(9)
    reader.close()


def test_a_reader_cannot_write(place: Place, store: Store) -> None:
    reader = Store.open(place, writable=False)
    with pytest.raises(Unavailable, match=r"cannot be used now: .*read-?only"):
        reader.reserve(9)
    reader.close()


def test_a_store_that_is_missing_or_foreign(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="There is no ledger in"):
        find_store(tmp_path / "none")
    with pytest.raises(Unavailable, match="unable to open"):
        Store.open(tmp_path / "none", writable=True)
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(CorruptedLedger, match="is not a ledger's store"):
        Store.open(tmp_path / "other", writable=True)
    (tmp_path / "text").write_bytes(b"no database, but long enough to be taken for one" * 100)
    with pytest.raises(CorruptedLedger, match="damaged: file is not a database"):
        Store.open(tmp_path / "text", writable=True)


def test_a_store_that_a_newer_program_wrote(place: Place, store: Store) -> None:
    with store._database.transaction():
        store._database.migrate((), 99)
    store.close()
    for writable in (False, True):
        with pytest.raises(Misuse, match="newer anchor"):
            Store.open(place, writable=writable)


def _write_version_1(path: Path) -> None:
    """A store as the first version of the tables had it."""
    old = sqlite3.connect(path, isolation_level=None)
    old.executescript(MIGRATIONS[0])
    old.execute("INSERT INTO ledger VALUES (0, 'lab', x'67', 4, 1)")
    old.execute("INSERT INTO snapshots VALUES (0, ?, 1, x'73')", (_root(0),))
    old.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?)", [astuple(_block(slot)) for slot in (8, 9)])
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute("PRAGMA user_version = 1")
    old.close()


@pytest.mark.parametrize("writable", [False, True])
def test_an_older_store_is_brought_up_to_date(tmp_path: Path, writable: bool) -> None:
    _write_version_1(tmp_path / FILE)
    for _ in range(2):  # the second time there is nothing left to do
        store = Store.open(tmp_path / FILE, writable=writable)
        assert (store.get_name(), store.get_genesis(), store.get_reserved()) == ("lab", b"g", 4)
        assert list(store.get_blocks(0, 99)) == [_block(8), _block(9)]
        assert (store.get_final_slot(), store.get_oldest_slot(), store.get_side_blocks()) == (0, 0, [])
        store.close()
    store = Store.open(tmp_path / FILE, writable=True)
    store.commit(_batch(10, after=9))
    store.close()


def test_a_copy_may_not_sign_and_a_moved_file_may(tmp_path: Path) -> None:
    Store.create(tmp_path / FILE, "lab", b"genesis", reserved=0, may_sign=True).close()
    (tmp_path / "moved").mkdir()
    (tmp_path / FILE).rename(tmp_path / "moved" / FILE)
    for command in (["cp"], ["cp", "-a"]):
        subprocess.run([*command, tmp_path / "moved" / FILE, tmp_path / FILE], check=True)
        for folder, may_sign in ((tmp_path / "moved", True), (tmp_path, False)):
            with closing(Store.open(folder / FILE, writable=True)) as again:
                assert (again.may_sign(), again.is_copied()) == (may_sign, not may_sign)


def test_an_older_store_is_at_home_where_it_is_opened_first(tmp_path: Path) -> None:
    _write_version_1(tmp_path / FILE)
    Store.open(tmp_path / FILE, writable=False).close()
    subprocess.run(["cp", tmp_path / FILE, tmp_path / "copy"], check=True)
    for path, may_sign in ((tmp_path / FILE, True), (tmp_path / "copy", False)):
        with closing(Store.open(path, writable=True)) as store:
            assert store.may_sign() is may_sign


def test_a_row_that_is_missing(store: Store) -> None:
    with store._database.transaction():
        store._database.run("DELETE FROM ledger")
    with pytest.raises(CorruptedLedger, match="is damaged: a row is missing"):
        store.get_reserved()


def test_a_row_that_is_odd(tmp_path: Path) -> None:
    _write_version_1(tmp_path / FILE)
    with sqlite3.connect(tmp_path / FILE) as odd:
        odd.execute("UPDATE ledger SET reserved = 'x'")
    odd.close()
    broken = Store.open(tmp_path / FILE, writable=False)
    with pytest.raises(CorruptedLedger, match="is damaged: a row is not as written"):
        broken.get_reserved()
    broken.close()
