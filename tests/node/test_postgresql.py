"""What is PostgreSQL's own: who may connect, who writes, what is shown, and connections that break."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anchor.errors import CorruptedLedger, Misuse, Unavailable
from anchor.node.folder import open_reader
from anchor.node.places import POINTER, find_store
from anchor.node.postgresql import Postgresql, Url
from anchor.node.records import Batch, Block, Snapshot
from anchor.node.store import Store
from tests.node.postgres import PASSWORD, QUOTED, Server, run_server
from tests.node.tools import make_ledger, opened, publish, published

ROOT = bytes(32)


def _create(url: Url) -> Store:
    store = Store.create(url, "lab", b"genesis", reserved=0, may_sign=True)
    store.commit(Batch(snapshots=(Snapshot(slot=0, root=ROOT, ssz=b"state", kept=True),)))
    return store


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server that tests may stop, if they start it again."""
    with run_server() as server:
        yield server


def test_a_second_writer_is_refused_until_the_first_lets_go(postgres: Server) -> None:
    url, other = postgres.make_schema(), postgres.make_schema()
    store = _create(url)
    with pytest.raises(Unavailable, match=r"Another process writes to postgresql://127\.0\.0\.1"):
        Store.open(url, writable=True)
    _create(other).close()  # another ledger in the same database
    Store.open(url, writable=False).close()
    store.close()
    Store.open(url, writable=True).close()


def test_a_database_that_holds_a_ledger_takes_no_other(postgres: Server) -> None:
    url = postgres.make_schema()
    _create(url).close()
    with pytest.raises(Misuse, match="holds a ledger's tables already"):
        _create(url)
    with pytest.raises(CorruptedLedger, match="holds no ledger"):
        Store.open(postgres.make_schema(), writable=True)


def test_a_ledger_that_cannot_be_made_leaves_no_tables(postgres: Server, tmp_path: Path) -> None:
    url = postgres.make_schema()
    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
        patch.setattr("anchor.node.folder.write_description", _interrupt)
        make_ledger(tmp_path / "ledger", url=url)
    assert not (tmp_path / "ledger").exists()
    make_ledger(tmp_path / "ledger", url=url)
    assert find_store(tmp_path / "ledger") == url


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("mysql://host/db", "begins with postgresql://"),
        ("postgresql://host/db\n", "begins with postgresql://"),
        ("postgresql://user:se%zzcret@host/db", "cannot be read"),
        ("postgresql://host/db?secret=1", "cannot be read"),
    ],
)
def test_a_url_that_is_none(text: str, what: str) -> None:
    with pytest.raises(Misuse, match=what) as caught:
        Url(text).parse()
    assert "secret" not in str(caught.value)


def test_a_password_is_never_shown(postgres: Server, tmp_path: Path) -> None:
    wrong = postgres.get_url("postgres", ":sesame")
    with pytest.raises(Unavailable, match="password authentication failed") as caught:
        Store.open(wrong, writable=False)
    for text in (str(caught.value), repr(caught.value), str(wrong), repr(wrong)):
        assert "sesame" not in text
    url = postgres.make_schema()
    make_ledger(tmp_path / "ledger", url=url)
    pointer = tmp_path / "ledger" / POINTER
    assert pointer.stat().st_mode & 0o777 == 0o600
    assert QUOTED not in repr(find_store(tmp_path / "ledger"))


@pytest.mark.parametrize("way", ["variable", "file"])
def test_a_password_from_elsewhere(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    url = postgres.get_url("postgres", "")
    with pytest.raises(Unavailable, match="no password supplied"):
        Postgresql.connect(url, writable=False)
    if way == "variable":
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    else:
        (tmp_path / "pass").write_text(f"127.0.0.1:*:*:*:{PASSWORD}\n")
        (tmp_path / "pass").chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    Postgresql.connect(url, writable=False).close()


def test_a_broken_connection_is_told_and_made_anew(own_server: Server) -> None:
    url = own_server.make_database()
    writer, reader = _create(url), Store.open(url, writable=False)
    block = Block(slot=1, root=b"1" * 32, signed_root=b"2" * 32, ssz=b"block")
    with pytest.raises(Unavailable, match="cannot be used now"), writer._database.transaction():
        writer._database.run("UPDATE ledger SET reserved = 7")
        own_server.stop()
        writer._database.run("UPDATE ledger SET reserved = 8")
    for store in (writer, reader):
        with pytest.raises(Unavailable, match="cannot be used now"):
            store.get_reserved()
    own_server.start()
    assert (writer.get_reserved(), reader.get_reserved()) == (0, 0)
    writer.commit(Batch(blocks=(block,), parent=ROOT))
    with pytest.raises(Unavailable, match="Another process writes"):  # the lock came back with it
        Store.open(url, writable=True)
    with pytest.raises(Unavailable, match="cannot be used now"), reader.one_view():
        assert reader.find_block(block.root) == block
        own_server.stop()
        own_server.start()
        reader.find_block(block.root)  # no other connection can go on with this view
    assert reader.find_block(block.root) == block
    writer.close()
    reader.close()


def test_a_copy_of_a_database_may_not_sign(postgres: Server) -> None:
    url = postgres.make_database()
    _create(url).close()
    copy = postgres.make_database(url.parse()["dbname"])
    for place, may_sign in ((url, True), (copy, False)):
        with closing(Store.open(place, writable=True)) as store:
            assert (store.may_sign(), store.is_copied()) == (may_sign, not may_sign)


def test_who_owns_a_schema_needs_no_more_rights(postgres: Server) -> None:
    postgres.run(f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'")
    postgres.run("CREATE SCHEMA plain AUTHORIZATION plain")
    url = Url(postgres.get_url("postgres").text.replace("//anchor:", "//plain:"))
    store = _create(url)
    assert store.may_sign()
    postgres.run("REVOKE ALL ON plain.ledger FROM plain")
    with pytest.raises(Unavailable, match="cannot be used now: permission denied"):
        store.get_name()
    store.close()


def test_a_server_without_fsync_is_refused(own_server: Server) -> None:
    url = own_server.make_database()
    own_server.run("ALTER SYSTEM SET fsync = off")
    own_server.stop()
    own_server.start()
    with pytest.raises(Misuse, match="runs without fsync"):
        _create(url)
    own_server.run("ALTER SYSTEM RESET fsync")
    own_server.stop()
    own_server.start()


def test_a_ledger_goes_on_when_its_server_comes_back(own_server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    seed = make_ledger(folder, url=own_server.make_database())
    with opened(folder, seed) as service:
        publish(service, "1")
        own_server.stop()
        with pytest.raises(Unavailable, match="cannot be used now"):
            publish(service, "2")
        own_server.start()
        publish(service, "2")
    with open_reader(folder) as chain:
        assert published(chain) == ["1", "2"]


def test_what_the_server_kept_wrong_is_told(postgres: Server) -> None:
    url = postgres.make_schema()
    store = _create(url)
    with store._database.transaction():
        store._database.run("ALTER TABLE blocks ALTER COLUMN slot TYPE TEXT")
        store._database.run("INSERT INTO blocks VALUES ('x', '1', '2', '3')")
    with pytest.raises(CorruptedLedger, match="damaged"):
        list(store.get_blocks(0, 9))
    store.close()
