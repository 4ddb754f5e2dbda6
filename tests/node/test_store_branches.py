"""The store of a chain whose newest blocks may give way to others, and whose oldest may come later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from anchor.errors import CorruptedLedger, InvalidTransition, NoSuchRecord, Unavailable
from anchor.node.places import Place
from anchor.node.records import Batch, Block, Snapshot, StoredEntry
from anchor.node.store import Store


def _root(name: str) -> bytes:
    return name.encode().ljust(32, b"\0")


def _block(name: str) -> Block:
    """`9b` is the block of slot 9 on branch b."""
    slot = int(name.rstrip("abc"))
    return Block(slot=slot, root=_root(name), signed_root=_root(f"signed {name}"), ssz=name.encode())


def _snapshot(name: str, *, kept: bool = False) -> Snapshot:
    return Snapshot(slot=_block(name).slot, root=_root(name), ssz=b"state", kept=kept)


def _entry(position: int, name: str) -> StoredEntry:
    return StoredEntry(position, _root(f"entry {position} {name}"), _block(name).slot, 77, b"entry")


def _batch(after: str, *names: str, first_entry: int) -> Batch:
    """Blocks with one entry each, and the state of the last."""
    return Batch(
        blocks=tuple(map(_block, names)),
        parent=_root(after),
        snapshots=(_snapshot(names[-1], kept=names[-1].startswith("9")),),
        entries=tuple(_entry(first_entry + i, name) for i, name in enumerate(names)),
    )


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    """Genesis, then 8a ◄ 9a ◄ 10a."""
    store = Store.create(place, "lab", b"genesis", reserved=0, may_sign=True)
    store.commit(Batch(snapshots=(_snapshot("0", kept=True),)))
    store.commit(_batch("0", "8a", "9a", first_entry=0))
    store.commit(_batch("9a", "10a", first_entry=2))
    yield store
    store.close()


def _names(blocks: Iterator[Block] | list[Block]) -> list[str]:
    return [block.ssz.decode() for block in blocks]


def _see(store: Store) -> tuple[object, ...]:
    """All that a reader can see of the chain and beside it."""
    snapshots = [store.get_snapshot_before(slot).root for slot in range(12)]
    entries, sides = list(store.get_entries(0, 99)), store.get_side_blocks()
    return list(store.get_blocks(0, 99)), sides, snapshots, entries, store.get_pending_entries()


def test_a_branch_replaces_the_newest_blocks(store: Store) -> None:
    lost = list(store.get_entries(1, 3))
    branch = _batch("8a", "9b", "11b", first_entry=1)
    waiting = tuple((entry.root, entry.ssz) for entry in lost)
    store.commit(replace(branch, replaces=True, pending=waiting))
    assert _names(store.get_blocks(0, 99)) == ["8a", "9b", "11b"]
    assert _names(store.get_side_blocks()) == ["9a", "10a"]
    assert store.find_block(_root("10a")) is None
    assert store.find_side_block(_root("10a")) == _block("10a")
    assert store.find_side_block(_root("9b")) is None
    assert [entry.root for entry in store.get_entries(0, 9)] == [
        _root("entry 0 8a"), _root("entry 1 9b"), _root("entry 2 11b")
    ]  # fmt: skip
    assert store.get_snapshot_before(99) == _snapshot("11b")
    assert store.get_snapshot_before(10) == _snapshot("0", kept=True)  # 9a's, though kept, has gone with it
    assert store.get_pending_entries() == list(waiting)
    assert store.get_newest_root() == _root("11b")


def test_the_chain_comes_back(store: Store) -> None:
    before = _see(store)
    store.commit(replace(_batch("0", "7b", first_entry=0), replaces=True))
    assert _names(store.get_side_blocks()) == ["8a", "9a", "10a"]
    again = _batch("0", "8a", "9a", "10a", first_entry=0)
    kept = (_snapshot("9a", kept=True), _snapshot("10a"))
    store.commit(replace(again, replaces=True, snapshots=kept))
    assert _names(store.get_side_blocks()) == ["7b"]
    store.commit(Batch(final=8))
    assert _see(store) == before


def test_the_head_may_go_back(store: Store) -> None:
    store.commit(Batch(parent=_root("9a"), replaces=True))
    assert store.get_newest_root() == _root("9a")
    assert _names(store.get_side_blocks()) == ["10a"]
    store.commit(Batch(parent=_root("0"), replaces=True))
    assert store.get_newest_root() == _root("0")


def test_a_branch_is_all_or_nothing(store: Store) -> None:
    before = _see(store)
    branch = replace(_batch("8a", "9b", first_entry=1), replaces=True)
    clash = replace(branch, entries=(_entry(0, "9b"),))
    with pytest.raises(CorruptedLedger):
        store.commit(clash)
    assert _see(store) == before


def test_who_does_not_say_so_replaces_nothing(store: Store) -> None:
    before = _see(store)
    for after in ("8a", "9b", "0"):
        with pytest.raises(Unavailable, match="Another process"):
            store.commit(_batch(after, "11b", first_entry=3))
    with pytest.raises(Unavailable, match="Another process"):
        store.commit(replace(_batch("9b", "11b", first_entry=3), replaces=True))
    assert _see(store) == before


def test_what_is_final_is_never_replaced(store: Store) -> None:
    store.commit(Batch(final=9))
    before = _see(store)
    for after in ("8a", "0"):
        with pytest.raises(InvalidTransition, match="slot 9 is final"):
            store.commit(replace(_batch(after, "11b", first_entry=0), replaces=True))
    assert _see(store) == before
    store.commit(replace(_batch("9a", "11b", first_entry=2), replaces=True))
    assert _names(store.get_blocks(0, 99)) == ["8a", "9a", "11b"]
    assert _names(store.get_side_blocks()) == ["10a"]


def test_finality_only_grows_and_takes_old_side_blocks_with_it(store: Store) -> None:
    store.commit(Batch(side=(_block("8b"), _block("9b"), _block("10b")), final=8))
    assert _names(store.get_side_blocks()) == ["9b", "10b"]
    store.commit(Batch(side=(_block("9b"),), final=7))  # the same again changes nothing
    assert (store.get_final_slot(), _names(store.get_side_blocks())) == (8, ["9b", "10b"])
    store.commit(Batch(final=10))
    assert (store.get_final_slot(), store.get_side_blocks()) == (10, [])


def test_a_side_block_that_comes_onto_the_chain_is_beside_it_no_longer(store: Store) -> None:
    store.commit(Batch(side=(_block("11a"), _block("11b"))))
    store.commit(_batch("10a", "11a", first_entry=3))
    assert _names(store.get_side_blocks()) == ["11b"]


def test_pending_entries_stay_in_order_until_they_are_settled(store: Store) -> None:
    first, second, third = [(_root(f"p{i}"), b"entry %d" % i) for i in range(3)]
    store.commit(Batch(pending=(second, first)))
    store.commit(Batch(pending=(first, third)))
    assert store.get_pending_entries() == [second, first, third]
    store.commit(Batch(settled=(second[0], _root("unknown"))))
    assert store.get_pending_entries() == [first, third]


@pytest.fixture
def joined(place: Place) -> Iterator[Store]:
    """A store that begins with block 9a and its state."""
    store = Store.create(place, "lab", b"genesis", reserved=0, may_sign=True)
    store.commit(Batch(snapshots=(_snapshot("0", kept=True),)))
    store.start_from(_block("9a"), _snapshot("9a", kept=True), _root("8a"))
    yield store
    store.close()


def test_a_store_begins_in_the_middle(joined: Store) -> None:
    assert (joined.get_oldest_slot(), joined.get_final_slot()) == (9, 9)
    assert joined.find_missing_root() == _root("8a")
    assert joined.get_newest_root() == _root("9a")
    joined.commit(_batch("9a", "10a", "11a", first_entry=2))
    assert joined.get_snapshot_before(10) == _snapshot("9a", kept=True)
    assert joined.get_snapshot_before(0) == _snapshot("0", kept=True)
    for slot in (1, 8):  # genesis does not lead there: the blocks between are not here
        with pytest.raises(NoSuchRecord, match="keeps no blocks from before slot 9"):
            joined.get_snapshot_before(slot)
    with pytest.raises(Unavailable, match="Another process"):
        joined.start_from(_block("12a"), _snapshot("12a"), _root("11a"))


def test_what_came_before_is_filled_in(joined: Store) -> None:
    joined.prepend((_block("7a"), _block("8a")), (_entry(1, "8a"),), _root("5a"))
    assert (joined.get_oldest_slot(), joined.find_missing_root()) == (7, _root("5a"))
    for run, parent in (((), "4a"), ((_block("4a"),), "0"), ((_block("5a"), _block("6a")), "4a")):
        with pytest.raises(InvalidTransition, match="do not lead to the oldest"):
            joined.prepend(run, (), _root(parent))
    joined.prepend((_block("4a"), _block("5a")), (_entry(0, "4a"),), _root("0"))
    assert (joined.get_oldest_slot(), joined.find_missing_root()) == (0, None)
    assert _names(joined.get_blocks(0, 99)) == ["4a", "5a", "7a", "8a", "9a"]
    assert [entry.position for entry in joined.get_entries(0, 9)] == [0, 1]
    assert joined.get_snapshot_before(8) == _snapshot("0", kept=True)
    with pytest.raises(InvalidTransition):
        joined.prepend((_block("3a"),), (), _root("0"))


def test_a_reader_sees_one_branch_at_a_time(place: Place, store: Store) -> None:
    reader = Store.open(place, writable=False)
    with reader.one_view():
        before = _see(reader)
        store.commit(replace(_batch("8a", "9b", first_entry=1), replaces=True))
        assert _see(reader) == before
    assert _see(reader) == _see(store) != before
    reader.close()


def test_long_lists_are_read_in_pages(store: Store) -> None:
    names = [f"{slot}a" for slot in range(11, 300)]
    store.commit(_batch("10a", *names, first_entry=3))
    assert _names(store.get_blocks(8, 299)) == ["8a", "9a", "10a", *names[:-1]]
    assert [entry.position for entry in store.get_entries(1, 280)] == list(range(1, 280))


def test_old_blocks_are_let_go_of(store: Store) -> None:
    store.commit(_batch("10a", "11a", "12a", first_entry=3))
    assert store.prune(8) == 0
    assert store.prune(9) == 1
    assert (store.get_oldest_slot(), store.find_missing_root()) == (9, _root("8a"))
    assert _names(store.get_blocks(0, 99)) == ["9a", "10a", "11a", "12a"]
    assert len(list(store.get_entries(0, 99))) == 5
    assert store.get_snapshot_before(10) == _snapshot("9a", kept=True)
    assert store.get_snapshot_before(0) == _snapshot("0", kept=True)
    with pytest.raises(NoSuchRecord, match="keeps no blocks from before slot 9"):
        store.get_snapshot_before(8)
    store.prepend((_block("8a"),), (), _root("0"))
    assert store.get_oldest_slot() == 0
