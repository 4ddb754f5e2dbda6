"""Whatever is damaged in a store is found, placed and told; nothing is found in one that is whole."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from shutil import copytree

import pytest

from anchor.errors import CorruptedLedger, Unavailable
from anchor.node.checking import Progress, Report, check_folder
from anchor.node.database import Value
from anchor.node.places import FILE, connect, find_store
from anchor.node.records import Batch
from anchor.node.store import Store
from anchor.node.tables import RECORDS
from tests.node.commands import Run
from tests.node.tools import make_manifest, make_original, opened, publish

Made = tuple[Path, bytes]


def _check(folder: Path) -> Report:
    return check_folder(folder, lambda _: nullcontext(lambda _: None))


def _fill(folder: Path, seed: bytes) -> Path:
    """Adds what gives every table a row."""
    with opened(folder, seed) as service:
        publish(service, "2")
    with closing(Store.open(find_store(folder), writable=True)) as store:
        block, waiting = store.find_block_before(99), store.find_entry(3)
        assert block is not None
        assert waiting is not None
        store.commit(Batch(side=(block,), pending=((waiting.root, waiting.ssz),)))
    return folder


@pytest.fixture(scope="module")
def first_full(first_ledger: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a row in every table, that no test writes to."""
    folder = tmp_path_factory.mktemp("full") / "ledger"
    copytree(first_ledger[0], folder)
    make_original(folder)
    return _fill(folder, first_ledger[1])


@pytest.fixture
def full(first_full: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copytree(first_full, tmp_path / "ledger")
    return tmp_path / "ledger"


@contextmanager
def _changed(folder: Path, statement: str, *values: Value) -> Iterator[None]:
    with closing(connect(find_store(folder), writable=True)) as database, database.transaction():
        assert database.run(statement, *values) > 0
    yield


def test_a_whole_store_is_sound(any_ledger: Made) -> None:
    full = _fill(*any_ledger)
    total: list[int] = []
    seen: list[int] = []

    def progressing(size: int) -> AbstractContextManager[Progress]:
        total.append(size)
        return nullcontext(seen.append)

    report = check_folder(full, progressing)
    assert report == Report(blocks=32, states=2, entries=5, manifests=2, missing=0, damage=None)
    assert 0 < sum(seen) <= total[0]


@pytest.mark.parametrize(
    ("statement", "place", "what"),
    [
        ("UPDATE ledger SET genesis = x'00'", "the genesis", "cannot be read"),
        ("DELETE FROM blocks WHERE slot = 20", "blocks, after slot 19", "does not follow"),
        ("DELETE FROM blocks WHERE slot = 16", "blocks, from the first on", "does not follow"),
        ("DELETE FROM blocks WHERE slot >= 40", "blocks, after slot 39", "state of slot 47, where no block"),
        ("UPDATE blocks SET slot = 99 WHERE slot = 20", "blocks, after slot 19", "does not follow"),
        ("DELETE FROM snapshots", "the genesis", "row is missing"),
        ("UPDATE snapshots SET slot = 46 WHERE slot = 47", "blocks, after slot 45", "not what was stored"),
        ("DELETE FROM entries WHERE position = 4", "blocks, after slot 31", "not the stored ones"),
        ("UPDATE entries SET slot = 17 WHERE position = 1", "blocks, from the first", "not the stored ones"),
        ("UPDATE entries SET timestamp = 1 WHERE position = 1", "blocks, from the first", "not the stored"),
        ("UPDATE entries SET position = 9 WHERE position = 4", "blocks, after slot 31", "not the stored"),
        ("UPDATE side_blocks SET slot = 46", "side_blocks", "slot 46 is not what was stored"),
        ("UPDATE ledger SET final = 11", "ledger", "no block of slot 11"),
        ("UPDATE ledger SET reserved = 2", "ledger", "There are blocks of epoch 5"),
        ("UPDATE ledger SET missing = genesis", "blocks, from the first on", "does not follow"),
    ],
)
def test_what_is_not_as_it_was_is_found(full: Path, statement: str, place: str, what: str) -> None:
    with _changed(full, statement):
        damage = _check(full).damage
    assert damage is not None
    assert damage.place.startswith(place)
    assert what in damage.what
    assert "anchor import" in damage.fix


def test_a_flipped_bit_in_any_record_is_found(any_ledger: Made) -> None:
    full, number = _fill(*any_ledger), 0
    with closing(connect(find_store(full), writable=True)) as database:
        for table in RECORDS:
            rows = database.get(f"SELECT root, ssz FROM {table}")  # noqa: S608
            for root, ssz in rows[:: max(len(rows) - 1, 1)]:
                number += 1
                place = number * 37 % len(ssz)
                flipped = ssz[:place] + bytes([ssz[place] ^ 1 << number % 8]) + ssz[place + 1 :]
                for stored in (flipped, ssz):
                    with database.transaction():
                        database.run(f"UPDATE {table} SET ssz = ? WHERE root = ?", stored, root)  # noqa: S608
                    if stored is flipped:
                        assert _check(full).damage is not None, (table, place)
    assert _check(full).damage is None


def test_a_page_that_is_lost_is_found_when_a_node_starts(full: Path) -> None:
    """But where nothing was, and in the midst of a record: that is found by whoever reads it, by its root."""
    path, chance, passed = full / FILE, random.Random(1), 0
    whole = path.read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    for place in range(0, len(whole), size):
        for garbage in (bytes(size), chance.randbytes(size)):
            path.write_bytes(whole[:place] + garbage + whole[place + size :])
            try:
                with closing(Store.open(path, writable=False)) as store:
                    store.check_itself(is_quick=True)
            except CorruptedLedger as error:
                assert "anchor db rebuild" in error.fix
                assert "\n" not in error.what
            else:
                passed += 1
                damage = _check(full).damage
                assert damage is None or damage.place != "the database"
    assert passed < len(whole) // size / 2


def test_an_entry_too_many_is_found(full: Path) -> None:
    statement = "INSERT INTO entries SELECT 5, ?, slot, timestamp, ssz FROM entries WHERE position = 4"
    with _changed(full, statement, bytes(32)):
        damage = _check(full).damage
    assert damage is not None
    assert damage.place == "entries, after position 4"


def test_a_manifest_that_is_not_kept_is_counted(full: Path) -> None:
    with _changed(full, "DELETE FROM manifests WHERE root = ?", make_manifest("2")[0]):
        assert _check(full)[-2:] == (1, None)


def _find_pages(path: Path) -> dict[str, list[int]]:
    """Numbers of the pages that each table and index takes."""
    with closing(sqlite3.connect(path)) as database:
        try:
            rows = database.execute("SELECT name, pageno FROM dbstat").fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite cannot tell where a table's pages are")
    pages: dict[str, list[int]] = {}
    for name, number in rows:
        pages.setdefault(name, []).append(number)
    return pages


def test_a_corrupted_page_of_any_table_is_found(ledger: Made) -> None:
    """Bytes are overwritten in the file itself, as a disk would."""
    folder, seed = ledger
    with opened(folder, seed) as service:
        publish(service, "2")
    path, chance = folder / FILE, random.Random(3)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    for name, numbers in _find_pages(path).items():
        for number in chance.sample(numbers, min(len(numbers), 2)):
            start = 4096 * (number - 1)
            for size in (4096, 64):
                at = start + (0 if size == 4096 else 100 if number == 1 else 0)
                path.write_bytes(whole[:at] + chance.randbytes(size) + whole[at + size :])
                damage = _check(folder).damage
                assert damage is not None, (name, number, size)
                assert "damaged" in damage.what or "not" in damage.what
    path.write_bytes(whole)
    assert _check(folder).damage is None


def test_flipped_bits_anywhere_are_found_or_change_nothing(ledger: Made) -> None:
    folder, _ = ledger
    path, chance = folder / FILE, random.Random(4)
    whole, found = path.read_bytes(), 0
    for _ in range(24):
        place = chance.randrange(len(whole))
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
        try:
            found += _check(folder).damage is not None
        except Unavailable:
            found += 1
    assert found > 8


@pytest.mark.parametrize("size", [0, 100, 5000, 40_000])
def test_a_cut_file_is_found(ledger: Made, size: int) -> None:
    path = ledger[0] / FILE
    path.write_bytes(path.read_bytes()[:size])
    damage = _check(ledger[0]).damage
    assert damage is not None
    assert damage.place == "the database"


def test_a_check_while_another_writes(any_ledger: Made) -> None:
    full = _fill(*any_ledger)
    with opened(*any_ledger) as service:

        def go_on(_: int) -> None:
            if not done:
                done.append(True)
                publish(service, "3")

        done: list[bool] = []
        report = check_folder(full, lambda _: nullcontext(go_on))
    assert done
    assert report.damage is None
    assert report.blocks == 32
    assert _check(full).blocks == 48


def test_the_command(ready: Run, tmp_path: Path) -> None:
    status, out, _ = ready("db", "check", "--ledger", "ledger")
    assert (status, out) == (0, "Sound: 0 blocks, 0 kept states, 0 entries, 0 manifests.\n")
    with closing(sqlite3.connect(tmp_path / "ledger" / FILE)) as database, database:
        database.execute("UPDATE snapshots SET ssz = x'00'")
    status, out, _ = ready("db", "check", "--ledger", "ledger")
    assert (status, out.splitlines()[0]) == (1, "DAMAGED: the genesis")
    status, out, _ = ready("db", "check", "--ledger", "ledger", "--json")
    envelope = json.loads(out)
    assert (status, envelope["status"]) == (1, "failed")
    assert envelope["result"]["damage"]["place"] == "the genesis"
    assert ready("db", "check", "--ledger", "none")[0] == 3
