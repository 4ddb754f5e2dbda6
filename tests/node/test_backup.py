"""A ledger in one file, there and back."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from anchor.errors import (
    AnchorError,
    InvalidTransition,
    Malformed,
    MalformedFile,
    Misuse,
)
from anchor.node.backup import export_ledger, import_ledger
from anchor.node.backup_file import END, END_BYTES, MAGIC
from anchor.node.folder import KEYS, NETWORK, open_reader, unlock_seed
from anchor.node.places import find_store
from anchor.node.store import Store
from tests.node.postgres import Server
from tests.node.tools import NOW, PHRASE, opened, publish, published

Made = tuple[Path, bytes]
Record = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def backup(first_ledger: Made, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The backup of the first ledger."""
    path = tmp_path_factory.mktemp("backup") / "backup"
    exported = export_ledger(first_ledger[0], path)
    data = path.read_bytes()
    assert exported == (len(data), True)
    return data


def _import(data: bytes, tmp_path: Path, *, take_over: bool = False, now: int = NOW) -> Path:
    (tmp_path / "backup").write_bytes(data)
    import_ledger(tmp_path / "backup", tmp_path / "copy", take_over=take_over, now=now)
    return tmp_path / "copy"


def _split(data: bytes) -> list[Record]:
    records, place = [], len(MAGIC)
    while place < len(data):
        length = int.from_bytes(data[place + 1 : place + 9], "little")
        records.append((data[place : place + 1], data[place + 9 : place + 9 + length]))
        place += 9 + length
    return records


def _join(records: list[Record]) -> bytes:
    """A backup of these records, with the digest that belongs to it."""
    data = MAGIC
    for kind, part in [record for record in records if record[0] != b"e"]:
        data += kind + len(part).to_bytes(8, "little") + part
    return data + b"e" + (32).to_bytes(8, "little") + sha256(data).digest()


def test_there_and_back(first_ledger: Made, backup: bytes, tmp_path: Path) -> None:
    copy = _import(backup, tmp_path)
    for name in (KEYS, NETWORK):
        assert (copy / name).read_bytes() == (first_ledger[0] / name).read_bytes()
    with open_reader(first_ledger[0]) as original, open_reader(copy) as restored:
        assert list(restored.get_blocks()) == list(original.get_blocks())
        assert list(restored.get_entries(0, 99)) == list(original.get_entries(0, 99))
        assert restored.get_manifest_roots() == original.get_manifest_roots()
        assert restored.get_head().root == original.get_head().root
        assert restored.get_next_epoch() == original.get_next_epoch()
    assert unlock_seed(copy, PHRASE) == first_ledger[1]
    export_ledger(copy, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == backup


def test_a_copy_only_reads(first_ledger: Made, backup: bytes, tmp_path: Path) -> None:
    copy = _import(backup, tmp_path)
    with opened(copy, first_ledger[1]) as service:
        with pytest.raises(Misuse, match="only reads"):
            publish(service, "2")
        assert not service.chain.get_status().may_sign


def test_a_successor_goes_on(first_ledger: Made, backup: bytes, tmp_path: Path) -> None:
    copy = _import(backup, tmp_path, take_over=True)
    with opened(copy, first_ledger[1]) as service:
        publish(service, "2")
        assert published(service.chain) == ["1", "2"]


def test_from_one_kind_of_store_to_the_other(postgres: Server, backup: bytes, tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(backup)
    url = postgres.make_schema()
    import_ledger(tmp_path / "backup", tmp_path / "copy", take_over=True, now=NOW, url=url)
    assert find_store(tmp_path / "copy") == url
    export_ledger(tmp_path / "copy", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == backup


def test_a_backup_that_is_refused_leaves_no_tables(postgres: Server, backup: bytes, tmp_path: Path) -> None:
    records, url = _split(backup), postgres.make_schema()
    (tmp_path / "backup").write_bytes(_join([record for record in records if record[0] != b"m"]))
    for _ in range(2):
        with pytest.raises(AnchorError, match="lacks 1 manifests"):
            import_ledger(tmp_path / "backup", tmp_path / "copy", take_over=True, now=NOW, url=url)
        assert not (tmp_path / "copy").exists()


def test_what_was_reserved_stays_so(any_ledger: Made, tmp_path: Path) -> None:
    store = Store.open(find_store(any_ledger[0]), writable=True)
    store.reserve(9)
    store.close()
    export_ledger(any_ledger[0], tmp_path / "backup")
    import_ledger(tmp_path / "backup", tmp_path / "copy", take_over=True, now=NOW)
    with open_reader(tmp_path / "copy") as chain:
        assert chain.get_next_epoch() == 10


def test_a_backup_reserves_what_its_blocks_were_signed_in(backup: bytes, tmp_path: Path) -> None:
    place = len(MAGIC) + 9 + 4  # magic, the record's head, the offset of the name
    reserved = backup[place : place + 8]
    assert int.from_bytes(reserved, "little") == 3
    changed = backup[:place] + (2).to_bytes(8, "little") + backup[place + 8 : -END_BYTES]
    with pytest.raises(MalformedFile, match="nothing was signed"):
        _import(changed + END + sha256(changed).digest(), tmp_path)
    assert not (tmp_path / "copy").exists()


def test_nothing_is_overwritten(first_ledger: Made, backup: bytes, tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"old")
    with pytest.raises(Misuse, match="never overwritten"):
        export_ledger(first_ledger[0], tmp_path / "backup")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_bytes(b"old")
    with pytest.raises(Misuse, match="not an empty folder"):
        _import(backup, tmp_path)
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["file"]


def _places(data: bytes, count: int) -> Iterator[int]:
    return iter(range(0, len(data), max(len(data) // count, 1)))


def test_a_cut_backup_is_refused_everywhere(backup: bytes, tmp_path: Path) -> None:
    ends = [*range(40), *_places(backup, 200), len(backup) - 1]
    for end in ends:
        with pytest.raises(Malformed):
            _import(backup[:end], tmp_path)
        assert not (tmp_path / "copy").exists()


def test_a_flipped_bit_is_refused_everywhere(backup: bytes, tmp_path: Path) -> None:
    for number, place in enumerate([*range(40), *_places(backup, 200), len(backup) - 1]):
        flipped = backup[:place] + bytes([backup[place] ^ 1 << number % 8]) + backup[place + 1 :]
        with pytest.raises(Malformed):
            _import(flipped, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["backup"]


def test_a_longer_backup_is_refused(backup: bytes, tmp_path: Path) -> None:
    with pytest.raises(MalformedFile, match="not as it was written"):
        _import(backup + b"\0", tmp_path)


def test_a_record_does_not_reach_into_the_digest(tmp_path: Path) -> None:
    data = MAGIC + b"h" + (20).to_bytes(8, "little")
    data += b"e" + (32).to_bytes(8, "little") + sha256(data).digest()
    with pytest.raises(MalformedFile, match=r"record b'h' of 20 bytes"):
        _import(data, tmp_path)


def test_an_absurd_length_is_not_read(tmp_path: Path) -> None:
    data = MAGIC + b"h" + b"\xff" * 8
    data += b"e" + (32).to_bytes(8, "little") + sha256(data).digest()
    with pytest.raises(MalformedFile, match=r"record b'h' of 18446744073709551615 bytes"):
        _import(data, tmp_path)


@pytest.mark.parametrize(
    ("forge", "what"),
    [
        (lambda records: records[1:], "does not start with a header"),
        (lambda records: [*records[:3], *records[4:]], "has parent"),
        (lambda records: [records[0], records[2], records[1], *records[3:]], "has parent|cannot advance"),
        (lambda records: [r for r in records if r[0] != b"m"], "lacks 1 manifests"),
        (lambda records: [*records, *[r for r in records if r[0] == b"m"]], "which no block publishes"),
        (lambda records: [*records, records[3]], "where none can stand"),
        (lambda records: [*records, records[0]], "where none can stand"),
        (lambda records: [*records[:-1], (b"E", bytes(32))], "record b'E' of 32 bytes"),
        (lambda records: [*records[:-2], (b"m", b"\0" * 40)], "manifest that cannot be read"),
        (lambda records: [*records[:1], (b"b", records[1][1][:50])], "holds what cannot be read"),
        (lambda records: [(b"x", b""), *records], "does not start with a header"),
        (lambda records: [], "does not start with a header"),
        (lambda records: [(b"h", records[0][1][:-1] + b"x"), *records[1:]], "no key file"),
    ],
)
def test_a_forged_backup_is_refused(backup: bytes, tmp_path: Path, forge: object, what: str) -> None:
    """With the right digest: the records themselves must hold."""
    assert callable(forge)
    with pytest.raises(AnchorError, match=what):
        _import(_join(forge(_split(backup))), tmp_path)
    assert not (tmp_path / "copy").exists()


def test_every_signature_counts(backup: bytes, tmp_path: Path) -> None:
    """The last block's own signature stands in no root that another block names."""
    records = _split(backup)
    last = max(i for i, record in enumerate(records) if record[0] == b"b")
    first_signature, last_signature = records[last - 1][1][4:100], records[last][1][4:100]
    assert first_signature != last_signature
    records[last] = (b"b", records[last][1][:4] + first_signature + records[last][1][100:])
    with pytest.raises(InvalidTransition, match="signature of the block of slot 31"):
        _import(_join(records), tmp_path)


def test_a_block_from_the_future_is_refused(backup: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidTransition, match="was made 1000 seconds from now"):
        _import(backup, tmp_path, now=NOW - 1000)
