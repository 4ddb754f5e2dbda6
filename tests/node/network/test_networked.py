"""A network's node behind its HTTP routes: peers, faults, health; entries until they are final; who joins."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from anchor.cli.main import main
from anchor.consensus.containers.entries import RegisterPublisher, SignedEntry
from anchor.errors import InvalidCheckpoint, Misuse, StaleTrust, Unavailable, WrongNetwork
from anchor.merkle.scope import schema_of
from anchor.node import batches, pruning, writer
from anchor.node.app import build_app, build_front
from anchor.node.checking import check_folder
from anchor.node.entries import Pen
from anchor.node.folder import open_reader
from anchor.node.founding import draw_draft, found_network, start_folder
from anchor.node.keys import derive_administrator_key
from anchor.node.network import branches, networked
from anchor.node.network.company import Settings
from anchor.node.network.engine import Engine
from anchor.node.network.joining import join_network
from anchor.node.network.networked import Keystores, Networked
from anchor.node.network.probing import probe_peer
from anchor.node.node import Node
from anchor.node.operators import Operators
from anchor.node.places import find_store
from anchor.node.reading import Reader
from anchor.node.server import serving
from anchor.node.store import Store
from anchor.node.validators import keystores
from anchor.node.validators.deposits import make_deposits
from anchor.node.validators.folder import make_validators, open_validators
from tests.consensus.ledgers import GENESIS_TIME
from tests.node.http.conftest import TOKEN
from tests.node.network.drivers import Clock
from tests.node.network.test_links import until
from tests.node.network.tools import SLOT
from tests.node.tools import ALICE, Random

ADMINISTRATOR = derive_administrator_key(b"admin".ljust(32, b"\0"))
OLD = 56
"""Slots of a node's life before it is told to prune."""
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's folder, with all 16 validators."""
    monkeypatch.setattr(keystores, "SCRYPT_N", 1 << 4)
    random, keys = Random(), tmp_path / "keys"
    keys.mkdir()
    draft = draw_draft("net", [ADMINISTRATOR.public.public_key], SLOT, random)
    keyring = make_validators(keys, 16, "password", random)
    founded = found_network(draft, [make_deposits("op", draft.fork_version, keyring)], GENESIS_TIME)
    start_folder(tmp_path / "node", founded)
    keys.rename(tmp_path / "node" / "validators")
    return tmp_path / "node"


@dataclass
class Site:
    """A node that serves."""

    node: Node
    clock: Clock
    url: str
    client: aiohttp.ClientSession

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, object]]:
        """Status and document."""
        async with self.client.get(path, headers=headers) as answer:
            return answer.status, json.loads(await answer.text())


@asynccontextmanager
async def open_site(
    folder: Path, clock: Clock, *, listed: tuple[str, ...] = (), faults: bool = True, prunes: bool = False
) -> AsyncIterator[Site]:
    """Serves a network's node."""
    validators, settings = folder / "validators", Settings(listed=listed, has_faults=faults, prunes=prunes)
    keys = Keystores(validators, "password") if validators.exists() else None
    node = Node(folder, Networked(folder, keys, settings, clock), clock)
    await node.start()
    try:
        front = build_front(node, Operators(frozenset([TOKEN])), rate=0)
        async with serving(front, build_app(front), "127.0.0.1", 0) as port:
            url = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession(url) as client:
                yield Site(node, clock, url, client)
    finally:
        await node.stop()


@contextmanager
def passing(clock: Clock) -> Iterator[None]:
    """Lets time pass in the body: as fast as a busy machine can follow."""

    async def run() -> None:
        while True:
            await asyncio.sleep(0.15)
            clock.slot += 0.34

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()


async def write_entry(site: Site) -> SignedEntry:
    """An entry of the administrator."""

    def write(reader: Reader) -> SignedEntry:
        head = reader.chain.get_head().state
        body = RegisterPublisher(root_key=ALICE.identity)
        return Pen(head, head.slot // 8).write(ADMINISTRATOR.public.public_key, body, (ADMINISTRATOR,))

    return await site.node.read(write)


async def test_peers_are_shown_and_their_addresses_to_operators(folder: Path, tmp_path: Path) -> None:
    async with open_site(folder, Clock(0.5)) as site:
        assert await site.get("/anchor/v1/peers") == (200, {"data": []})
        assert (await site.get("/anchor/v1/admin/peers"))[0] == 401
        start_like(folder, tmp_path / "other")
        async with open_site(tmp_path / "other", site.clock, listed=(site.url,)) as other:
            await until(lambda: len(site.node.network.company.statuses) == 1)
            (peer,) = (await site.get("/anchor/v1/peers"))[1]["data"]  # type: ignore[misc]
            assert peer.keys() == {"peer", "direction", "head_slot"}
            (peer,) = (await other.get("/anchor/v1/admin/peers", **BEARER))[1]["data"]  # type: ignore[misc]
            assert (peer["url"], peer["direction"]) == (site.url, "out")
            async with site.client.get("/metrics") as answer:
                text = await answer.text()
            assert "\nanchor_peers 1\n" in text
            assert 'anchor_peer_messages_total{kind="status",verdict="new"} ' in text
            assert "Peers: 1." in str((await site.get("/health"))[1]["words"])


def start_like(folder: Path, other: Path) -> None:
    """Another node's folder of the same network, without validators."""
    from anchor.consensus.bls import Bls
    from anchor.consensus.forks.ledger import Ledger
    from anchor.consensus.forks.ledger.genesis import compute_config
    from anchor.consensus.presets import LEDGER
    from anchor.node.founding import Founded

    with open_reader(folder) as chain:
        genesis = chain.genesis
    ledger = Ledger(LEDGER, compute_config(genesis), Bls())
    start_folder(
        other, Founded("net", (("op", 16),), genesis, ledger, ledger.initialize_ledger_state(genesis))
    )


def test_a_doctor_looks_before_the_first_start(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: GENESIS_TIME + 100_000)
    main(["doctor", "--ledger", str(folder), "--port", "0", "--json"])
    findings = json.loads(capsys.readouterr().out)["result"]["findings"]
    (keys,) = [one for one in findings if one["about"] == "keys"]
    assert (keys["is_good"], keys["what"].split(":")[0]) == (True, "none yet")
    assert not (folder / "identity").exists()
    main(["doctor", "--ledger", str(folder), "--port", "0"])
    table, notes = capsys.readouterr().out.split("\n\n")
    assert max(map(len, table.splitlines())) == 80
    assert notes.startswith("finality: ") and "See that two thirds of stake are up." in notes


async def test_a_doctor_meets_peers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_site(folder, Clock(0.5)) as site:
        with open_reader(folder) as chain:
            met = await probe_peer(site.url, chain, site.clock, os.urandom)
            assert (met.peer, met.offset_ms) == (site.node.network.company.links.own.public, 0)
            with pytest.raises(Unavailable, match="cannot be reached"):
                await probe_peer("http://127.0.0.1:1", chain, site.clock, os.urandom)
        options = ["--ledger", str(folder), "--port", "0", "--peer", site.url, "--peer", "x", "--json"]
        assert await asyncio.to_thread(main, ["doctor", *options]) == 1
    findings = json.loads(capsys.readouterr().out)["result"]["findings"]
    keys, near, wrong = [one for one in findings if one["about"] in ("keys", "peer")]
    assert (keys["is_good"], keys["what"].split(":")[0]) == (True, "node ed25519")
    assert (near["is_good"], near["fix"]) == (False, "Set the clock, here or there.")  # the test's own clock
    assert "no node's address" in wrong["what"]


async def test_what_is_no_websocket_is_told_so(folder: Path) -> None:
    async with open_site(folder, Clock(0.5)) as site:
        status, document = await site.get("/anchor/v1/peer")
        assert (status, document["kind"]) == (400, "Misuse")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"unheard": "http://a:1,ed25519:00", "skew_ms": "-3000"}, 200),
        ({"unheard": "", "skew_ms": "x"}, 400),
        ({"unheard": "", "skew_ms": "99999999999"}, 400),
        ({"skew_ms": "1"}, 400),
    ],
)
async def test_faults_are_injected_by_operators(folder: Path, body: dict[str, str], status: int) -> None:
    async with open_site(folder, Clock(0.5)) as site:
        async with site.client.put("/anchor/v1/admin/faults", json=body) as answer:
            assert answer.status == 401
        async with site.client.put("/anchor/v1/admin/faults", json=body, headers=BEARER) as answer:
            assert answer.status == status
            if status == 200:
                assert (await answer.json())["data"]["skew_ms"] == "-3000"
                assert site.node.network.now_ms() == site.clock.now_ms() - 3000


async def test_without_the_option_no_fault_is_injected(folder: Path) -> None:
    async with open_site(folder, Clock(0.5), faults=False) as site:
        body = {"unheard": "", "skew_ms": "1"}
        async with site.client.put("/anchor/v1/admin/faults", json=body, headers=BEARER) as answer:
            assert answer.status == 404
        async with site.client.post("/anchor/v1/admin/equivocations", headers=BEARER) as answer:
            assert answer.status == 404


async def test_an_entry_that_no_block_has_yet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PATIENCE", 0.2)
    async with open_site(folder, Clock(-1)) as site:  # nothing is proposed before the network begins
        body = schema_of(SignedEntry).encode(await write_entry(site))
        headers = {"Content-Type": "application/octet-stream"}
        for _ in range(2):
            async with site.client.post("/anchor/v1/entries", data=body, headers=headers) as answer:
                assert answer.status == 503
                assert "is kept, and no block has it" in (await answer.json())["what"]
        assert "begins in" in str((await site.get("/health"))[1]["words"])


async def test_who_was_away_for_long_is_warned(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start_like(folder, tmp_path / "other")
    for epoch, words in ((200, "asks its peers"), (400, "asks its peers")):
        caplog.clear()
        async with open_site(tmp_path / "other", Clock(8 * epoch)) as site:
            status, document = await site.get("/health")
            assert status == 503
            assert words in str(document["words"])
            assert "Nothing became final" not in str(document["words"])
        assert ("older than its weak-subjectivity period" in caplog.text) == (epoch == 400)


async def test_a_node_that_cannot_start_lets_everything_go(folder: Path) -> None:
    clock = Clock(0.5)
    node = Node(
        folder, Networked(folder, Keystores(folder / "validators", "wrong"), Settings(), clock), clock
    )
    with pytest.raises(Misuse, match="does not open"):
        await node.start()
    async with open_site(folder, clock):
        pass


@pytest.mark.slow
async def test_an_entry_becomes_final_and_a_node_joins_behind_it(folder: Path, tmp_path: Path) -> None:
    clock = Clock(0.5)
    async with open_site(folder, clock) as site:
        with passing(clock):
            entry = await write_entry(site)
            receipt = await asyncio.wait_for(site.node.submit_entry(entry), 120)
        assert receipt.final == site.node.status.finalized
        assert receipt.final is not None
        assert (await site.node.submit_entry(entry)).position == receipt.position
        await check_refusals(site, tmp_path)
        joined = tmp_path / "joined"
        await join_network(joined, site.url, receipt.final, site.node.status.network_id, clock.now())
        async with open_site(joined, clock, listed=(site.url,)) as other:
            await until(lambda: other.node.status.head == site.node.status.head, 30)
            await until(lambda: other.node.network.catching_up.backfill.missing is None, 30)
            for node in (site.node, other.node):
                await node.refresh()
            blocks = [await node.read(Reader.list_blocks, 0, 100) for node in (site.node, other.node)]
            assert [b.root for b in blocks[0].items] == [b.root for b in blocks[1].items]
            found = await other.node.read(Reader.get_entry, receipt.position)
            assert (found.signed, found.is_final) == (entry, True)
    with open_reader(joined) as chain:
        assert chain.get_status().final_entries == 1


@pytest.fixture
def old(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's folder after seven epochs with an entry, of which little more than one is trusted."""
    monkeypatch.setattr(batches, "SNAPSHOT_SLOTS", 8)
    monkeypatch.setattr(branches, "SNAPSHOT_SLOTS", 8)
    monkeypatch.setattr(pruning, "compute_expiry", lambda state, _: int(state.timestamp) + 10 * SLOT)
    monkeypatch.setattr(networked, "PRUNE_SECONDS", 0.1)
    with (
        closing(Store.open(find_store(folder), writable=True)) as store,
        open_reader(folder) as chain,
        open_validators(folder / "validators", "password", chain.get_status().network_id) as validators,
    ):
        engine = Engine(store, validators)
        body = RegisterPublisher(root_key=ALICE.identity)
        pen = Pen(chain.get_head().state, 1)
        engine.submit(pen.write(ADMINISTRATOR.public.public_key, body, (ADMINISTRATOR,)), GENESIS_TIME * 1000)
        for slot in range(1, OLD):
            for part in (0.0, 0.4, 0.8):
                engine.on_tick(int((GENESIS_TIME + (slot + part) * SLOT) * 1000))
    return folder


@pytest.mark.slow
async def test_a_node_prunes_while_it_runs(old: Path) -> None:
    clock = Clock(OLD)
    async with open_site(old, clock, prunes=True) as site:
        first = await until_pruned(site, 0)
        before = site.node.status
        assert before.final_entries == 1
        with passing(clock):
            await until(lambda: site.node.status.finalized.epoch > before.finalized.epoch, 60)
            assert await until_pruned(site, first) <= site.node.status.finalized.epoch * 8
        assert (await site.get("/anchor/v1/entries/0"))[0] == 200
        status, document = await site.get(f"/anchor/v1/blocks?after={first - 2}")
        assert (status, document["data"] != []) == (200, True)
    async with open_site(old, clock) as site:  # without the option it goes on with what is left
        assert site.node.status.final_entries == 1
    assert check_folder(old, lambda _: nullcontext(lambda _: None)).damage is None


async def until_pruned(site: Site, slot: int) -> int:
    """Waits until blocks of `slot` and later are gone; the oldest slot that is left."""

    async def get_oldest() -> int:
        return int(await site.node.read(lambda reader: reader.chain._store.get_oldest_slot()))

    async with asyncio.timeout(60):
        while (oldest := await get_oldest()) <= slot:
            await asyncio.sleep(0.05)
    return oldest


@pytest.mark.slow
async def test_a_node_that_prunes_fetches_old_entries_first(old: Path, tmp_path: Path) -> None:
    clock = Clock(OLD)
    async with open_site(old, clock) as site:
        joined, final = tmp_path / "joined", site.node.status.finalized
        await join_network(joined, site.url, final, None, clock.now())
        async with open_site(joined, clock, listed=(site.url,), prunes=True) as other:
            await until(lambda: other.node.network.catching_up.backfill.missing is None, 30)
            assert (await other.node.read(Reader.get_entry, 0)).is_final
            with passing(clock):
                await until_pruned(other, 0)
            found = await other.node.read(Reader.get_entry, 0)
            assert found.is_final
    assert check_folder(joined, lambda _: nullcontext(lambda _: None)).damage is None


async def check_refusals(site: Site, folder: Path) -> None:
    """A checkpoint that is not this chain's, too old, or of another network."""
    final, network = site.node.status.finalized, site.node.status.network_id
    now = site.clock.now()
    with pytest.raises(WrongNetwork, match="another network"):
        await join_network(folder / "a", site.url, final, bytes(32), now)
    with pytest.raises(InvalidCheckpoint):
        await join_network(folder / "b", site.url, final.replace(epoch=0), network, now)
    with pytest.raises(StaleTrust):
        await join_network(folder / "c", site.url, final, network, now + 10**7)
    (folder / "d").mkdir()
    (folder / "d" / "x").touch()
    with pytest.raises(Misuse, match="not an empty folder"):
        await join_network(folder / "d", site.url, final, network, now)
    assert not any((folder / name).exists() for name in "abc")
