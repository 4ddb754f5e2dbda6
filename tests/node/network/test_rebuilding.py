"""A network's store that is damaged is told, and made anew from another node; nothing else is touched."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import closing, nullcontext
from pathlib import Path
from shutil import copytree

import pytest

from anchor.consensus.bls import Bls
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import InvalidCheckpoint, Misuse, StaleTrust, Unavailable, WrongNetwork
from anchor.lock import hold_folder
from anchor.node.chain import Chain
from anchor.node.checking import Report, check_folder
from anchor.node.folder import open_reader, write_description
from anchor.node.network.engine import Engine
from anchor.node.network.rebuilding import find_own_checkpoint, rebuild_store
from anchor.node.places import FILE, POINTER, find_store
from anchor.node.store import Store
from tests.consensus.ledgers import GENESIS_TIME
from tests.node.http.conftest import Site, open_site
from tests.node.network.tools import SLOT, make_hands, make_network_genesis, make_store
from tests.node.postgres import Server
from tests.node.tools import make_original

SLOTS = 41
NOW = GENESIS_TIME + SLOTS * SLOT


@pytest.fixture(scope="module")
def first_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node that made blocks until some were final, with all signatures."""
    folder = tmp_path_factory.mktemp("network") / "node"
    make_store(folder, make_network_genesis(16))
    with closing(Store.open(find_store(folder), writable=True)) as store:
        engine = Engine(store, make_hands(Bls(), range(16)))
        for slot in range(1, SLOTS):
            for part in (0.0, 0.4, 0.8):
                engine.on_tick(int((GENESIS_TIME + (slot + part) * SLOT) * 1000))
        write_description(folder, Chain(store))
    (folder / "validators").mkdir()
    (folder / "validators" / "protection.sqlite").write_bytes(b"what was signed")
    return folder


@pytest.fixture
async def site(first_node: Path, tmp_path: Path) -> AsyncIterator[Site]:
    """The node, which others ask."""
    copytree(first_node, tmp_path / "served")
    async with open_site(tmp_path / "served", b"", writes=False) as opened:
        yield opened


@pytest.fixture
def folder(first_node: Path, tmp_path: Path) -> Path:
    """Another node of the network, as far as the first."""
    copytree(first_node, tmp_path / "node")
    make_original(tmp_path / "node")
    return tmp_path / "node"


def _check(folder: Path) -> Report:
    return check_folder(folder, lambda _: nullcontext(lambda _: None))


def _damage(path: Path) -> None:
    """Overwrites the pages that the newest blocks are in."""
    whole = path.read_bytes()
    with closing(Store.open(path, writable=False)) as store:
        block = store.find_block_before(SLOTS)
        assert block is not None
        place = whole.rindex(block.ssz)
    path.write_bytes(whole[:place] + random.Random(1).randbytes(200) + whole[place + 200 :])


async def test_a_damaged_store_is_made_anew_from_another_node(site: Site, folder: Path) -> None:
    trusted = find_own_checkpoint(folder)
    assert trusted is not None
    assert trusted.epoch >= 2
    _damage(folder / FILE)
    assert _check(folder).damage is not None
    others = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(FILE)]
    kept = {path: path.read_bytes() for path in others}
    damaged = (folder / FILE).read_bytes()
    rebuilt = await rebuild_store(folder, site.url, None, NOW, None)
    assert rebuilt.trusted == trusted
    assert Path(rebuilt.aside).read_bytes() == damaged
    assert all(path.read_bytes() == data for path, data in kept.items())
    report = _check(folder)
    assert (report.damage, report.blocks, report.states) == (None, 1, 1)
    with closing(Store.open(find_store(folder), writable=True)) as store:
        engine = Engine(store, make_hands(Bls(), range(16)))
        assert store.may_sign()
        assert store.get_newest_root() == trusted.root
        engine.on_tick(int((NOW + 0.4 * SLOT) * 1000))
        assert store.find_missing_root() is not None
    with pytest.raises(Misuse, match=r"ledger\.sqlite\.damaged is there already"):
        await rebuild_store(folder, site.url, None, NOW, None)


async def test_what_tells_of_no_checkpoint_needs_one(site: Site, folder: Path) -> None:
    trusted = find_own_checkpoint(folder)
    for remains in (bytes(100_000), b"", None):
        (folder / FILE).unlink()
        if remains is not None:
            (folder / FILE).write_bytes(remains)
        with pytest.raises(Misuse, match="no longer tells which checkpoint was final"):
            await rebuild_store(folder, site.url, None, NOW, None)
        (folder / FILE).touch()
    rebuilt = await rebuild_store(folder, site.url, trusted, NOW, None)
    assert rebuilt.trusted == trusted
    assert _check(folder).damage is None


async def test_what_is_refused_changes_nothing(site: Site, folder: Path, tmp_path: Path) -> None:
    trusted = find_own_checkpoint(folder)
    assert trusted is not None
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    late = NOW + 1000 * 8 * SLOT
    other = trusted.replace(root=bytes(32))
    for error, checkpoint, now in (
        (StaleTrust, None, late),
        (Unavailable, other, NOW),
        (InvalidCheckpoint, trusted.replace(epoch=trusted.epoch - 1), NOW),
    ):
        with pytest.raises(error):
            await rebuild_store(folder, site.url, checkpoint, now, None)
    with (
        hold_folder(folder, patience=0, on_wait=pytest.fail),
        pytest.raises(Unavailable, match="still in use"),
    ):
        await rebuild_store(folder, site.url, None, NOW, None)
    text = (folder / "network.json").read_text()
    with open_reader(folder) as chain:
        network_id = chain.get_status().network_id.hex()
    (folder / "network.json").write_text(text.replace(network_id, "00" * 32))
    with pytest.raises(WrongNetwork):
        await rebuild_store(folder, site.url, None, NOW, None)
    (folder / "network.json").write_text(text)
    (folder / "lock").unlink(missing_ok=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


async def test_a_ledger_of_one_operator_comes_back_from_its_backup(ledger: tuple[Path, bytes]) -> None:
    with pytest.raises(Misuse, match="one operator") as caught:
        await rebuild_store(ledger[0], "http://127.0.0.1:1", None, NOW, None)
    assert "anchor import" in caught.value.fix


async def test_a_store_in_a_database_is_made_anew_in_another(
    site: Site, folder: Path, postgres: Server
) -> None:
    trusted = find_own_checkpoint(folder)
    old, new = postgres.make_schema(), postgres.make_schema()
    with pytest.raises(Misuse, match="is a file"):
        await rebuild_store(folder, site.url, trusted, NOW, new)
    (folder / FILE).unlink()
    (folder / POINTER).write_text(old.text)
    with pytest.raises(Misuse, match="is in a database"):
        await rebuild_store(folder, site.url, trusted, NOW, None)
    rebuilt = await rebuild_store(folder, site.url, trusted, NOW, new)
    assert rebuilt.aside == str(old)
    assert find_store(folder) == new
    assert _check(folder).damage is None


def test_a_store_where_nothing_is_final_begins_at_its_genesis(tmp_path: Path) -> None:
    make_store(tmp_path / "node", make_network_genesis(16))
    with open_reader(tmp_path / "node") as chain:
        assert (
            find_own_checkpoint(tmp_path / "node")
            == chain.get_checkpoint(0)
            == Checkpoint(epoch=0, root=chain.get_head().root)
        )
