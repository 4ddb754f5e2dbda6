"""The Beacon API that a node serves: only what was verified, in the form that is asked for."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from anchor.chain.beacon.checkpoint import verify_pair
from anchor.chain.beacon.follow import Follower, advance, read_events
from anchor.chain.beacon.http import Client
from anchor.chain.beacon.sync import Settings, sync_checkpoint
from anchor.errors import Misuse
from anchor.node.api.negotiation import accepts_gzip, choose_media, read_range
from anchor.node.clock import ManualClock
from anchor.node.synced import KEPT, SyncedNode, SyncedView
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import connect  # noqa: F401
from tests.chain.nodes import running, serving_view

SSZ, JSON = "application/octet-stream", "application/json"
STATES, BLOCKS, LIGHT = (
    "/eth/v2/debug/beacon/states/",
    "/eth/v2/beacon/blocks/",
    "/eth/v1/beacon/light_client/",
)
CAPTURE = Capture(ALTAIR, 1)


class Server:
    """A served view, and a way to ask it."""

    def __init__(
        self, session: aiohttp.ClientSession, node: SyncedNode, clock: ManualClock, url: str
    ) -> None:
        self.session, self.node, self.clock, self.url = session, node, clock, url

    async def get(self, path: str, **headers: str) -> tuple[int, Any, bytes]:
        named = {"Accept-Encoding": "identity"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(self.url + path, headers=named) as answer:
            return answer.status, answer.headers, await answer.read()

    async def data(self, path: str) -> Any:
        status, _, body = await self.get(path)
        assert status == 200, body
        return json.loads(body)["data"]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    view, clock = SyncedView([CAPTURE.verified]), ManualClock(int(CAPTURE.now))
    async with (
        serving_view(view, clock) as (node, url),
        aiohttp.ClientSession(auto_decompress=False) as session,
    ):
        yield Server(session, node, clock, url)


@pytest.fixture
async def followed(server: Server, connect: Any) -> Server:  # noqa: F811
    follower = Follower(CAPTURE.network)
    async with running(CAPTURE.answers) as node:
        start = follower.start(CAPTURE.verified)
        found = await advance(connect(node.url), follower, start, CAPTURE.now)
    server.node.publish(server.node.view.with_followed(found))
    return server


async def test_another_anchor_syncs_from_it(followed: Server, connect: Any) -> None:  # noqa: F811
    client: Client = connect(followed.url)
    found = await sync_checkpoint([client], CAPTURE.checkpoint, Settings(), CAPTURE.now)
    assert found.state_bytes == CAPTURE.state
    follower = Follower(found.network)
    after = await advance(client, follower, follower.start(found), CAPTURE.now)
    assert followed.node.view.followed is not None
    assert after.store.optimistic_header == followed.node.view.followed.store.optimistic_header


async def test_what_it_says_is_what_the_recorded_node_said(server: Server) -> None:
    genesis = CAPTURE.data("genesis.json") | {"genesis_fork_version": "0x00000001"}
    assert await server.data("/eth/v1/beacon/genesis") == genesis
    root = f"0x{CAPTURE.checkpoint.root.hex()}"
    for block_id in ("head", "finalized", "32", root):
        assert (
            await server.data(f"{BLOCKS}{block_id}")
            == json.loads(CAPTURE.file("block_finalized.json"))["data"]
        )
        header = json.loads(CAPTURE.file("header_finalized.json"))["data"]
        assert await server.data(f"/eth/v1/beacon/headers/{block_id}") == header
        assert (await server.data(f"/eth/v1/beacon/blocks/{block_id}/root"))["root"] == root
    final = (await server.data("/eth/v1/beacon/states/head/finality_checkpoints"))["finalized"]
    assert final == {"epoch": "4", "root": root}
    state_root = json.loads(CAPTURE.file("state_root_finalized.json"))["data"]["root"]
    assert (await server.data("/eth/v1/beacon/states/finalized/root"))["root"] == state_root
    of_state = await server.data(f"/eth/v1/beacon/states/{state_root}/finality_checkpoints")
    assert int(of_state["finalized"]["epoch"]) < 4
    assert (await server.data("/eth/v1/beacon/states/32/fork"))["current_version"] == "0x01000001"
    bootstrap = json.loads(CAPTURE.file("lc_bootstrap.json"))["data"]
    assert await server.data(f"{LIGHT}bootstrap/{root}") == bootstrap
    spec, told = await server.data("/eth/v1/config/spec"), CAPTURE.data("config_spec.json")
    for name in (
        "PRESET_BASE",
        "SECONDS_PER_SLOT",
        "SLOTS_PER_EPOCH",
        "ALTAIR_FORK_EPOCH",
        "ALTAIR_FORK_VERSION",
    ):
        assert spec[name] == told[name]
    assert (await server.data("/eth/v1/config/fork_schedule"))[1]["current_version"] == "0x01000001"
    assert (await server.data("/eth/v1/node/version"))["version"].startswith("anchor/")


@pytest.mark.parametrize(
    "path",
    [
        f"{STATES}31", f"{STATES}0x{'11' * 32}", f"{STATES}genesis", f"{STATES}justified", f"{BLOCKS}33",
        f"{BLOCKS}0x{'22' * 32}", f"{LIGHT}bootstrap/0x{'33' * 32}", f"{LIGHT}finality_update",
        f"{LIGHT}optimistic_update", "/eth/v1/nothing",
    ],
)  # fmt: skip
async def test_what_was_not_verified_is_not_there(server: Server, path: str) -> None:
    status, headers, body = await server.get(path)
    assert (status, json.loads(body)["code"], headers["Content-Type"].split(";")[0]) == (404, 404, JSON)


@pytest.mark.parametrize(
    "path",
    [
        f"{STATES}notanid", f"{BLOCKS}0x12", f"{LIGHT}bootstrap/x", f"{LIGHT}updates",
        f"{LIGHT}updates?start_period=-1&count=1", "/eth/v1/events?topics=head", "/eth/v1/events",
    ],
)  # fmt: skip
async def test_what_cannot_be_meant(server: Server, path: str) -> None:
    status, _, body = await server.get(path)
    assert (status, json.loads(body)["code"]) == (400, 400)


async def test_other_methods_are_not_allowed(server: Server) -> None:
    async with server.session.post(server.url + BLOCKS + "head", data=b"x") as answer:
        assert answer.status == 405


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/octet-stream", SSZ), ("application/json", JSON), ("*/*", SSZ), ("", SSZ),
        ("application/octet-stream;q=1.0,application/json;q=0.9", SSZ),
        ("application/octet-stream;q=0.5, application/json", JSON), ("application/*", SSZ),
    ],
)  # fmt: skip
async def test_11_the_state_in_the_form_that_is_liked_best(server: Server, accept: str, kind: str) -> None:
    status, headers, body = await server.get(f"{STATES}finalized", Accept=accept)
    assert (status, headers["Content-Type"].split(";")[0], headers["Eth-Consensus-Version"]) == (
        200,
        kind,
        "altair",
    )
    if kind == SSZ:
        assert body == CAPTURE.state
    else:
        recorded = json.loads(CAPTURE.files["state_finalized_accept_q.bin"])["data"]
        assert json.loads(body)["data"] == recorded


@pytest.mark.parametrize("path", [f"{STATES}finalized", f"{BLOCKS}finalized"])
async def test_11_what_is_not_given_is_406(server: Server, path: str) -> None:
    assert (await server.get(path, Accept="text/html"))[0] == 406
    assert (await server.get(path, Accept="application/octet-stream;q=0"))[0] == 406


async def test_large_states_are_ssz_only(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchor.node.api.beacon_forms.MAX_JSON_STATE", 1000)
    assert (await server.get(f"{STATES}finalized", Accept=JSON))[0] == 406
    assert (await server.get(f"{STATES}finalized", Accept=f"{JSON},{SSZ};q=0.1"))[2] == CAPTURE.state


async def test_parts_tags_and_packing(server: Server) -> None:
    path, size = f"{STATES}finalized", len(CAPTURE.state)
    _, headers, _ = await server.get(path)
    tag = headers["ETag"]
    assert (await server.get(path, If_None_Match=tag))[0] == 304
    assert (await server.get(path, If_None_Match='"other"'))[0] == 200
    status, headers, body = await server.get(path, Range="bytes=100-199")
    assert (status, body, headers["Content-Range"]) == (206, CAPTURE.state[100:200], f"bytes 100-199/{size}")
    assert (await server.get(path, Range="bytes=-7"))[2] == CAPTURE.state[-7:]
    assert (await server.get(path, Range=f"bytes={size}-"))[0] == 416
    assert (await server.get(path, Range="bytes=5-9", If_Range='"older"'))[2] == CAPTURE.state
    status, headers, body = await server.get(path, Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip" and headers["ETag"] != tag
    assert gzip.decompress(body) == CAPTURE.state
    assert (await server.get(path, Accept_Encoding="gzip", If_None_Match=headers["ETag"]))[0] == 304
    assert "Content-Encoding" not in (await server.get(path, Accept_Encoding="gzip;q=0"))[1]


async def test_18_health_turns_bad_with_age(server: Server) -> None:
    assert (await server.get("/eth/v1/node/health"))[0] == 200
    assert (await server.data("/eth/v1/node/syncing"))["is_syncing"] is False
    server.clock.advance(10 * 8 * 2)
    assert (await server.get("/eth/v1/node/health"))[0] == 503
    syncing = await server.data("/eth/v1/node/syncing")
    assert syncing["is_syncing"] is True and int(syncing["sync_distance"]) > 80
    assert (await server.get(f"{STATES}finalized"))[2] == CAPTURE.state  # what exists is served


def test_18_another_genesis_is_never_shown() -> None:
    view = SyncedView([CAPTURE.verified])
    other = replace(CAPTURE.verified, network=replace(CAPTURE.network, genesis_validators_root=b"x" * 32))
    with pytest.raises(Misuse, match="one network"):
        view.with_anchor(other)
    assert view.with_anchor(Capture(ALTAIR, 0).verified) is view  # older: nothing changes


def test_only_a_few_states_are_kept() -> None:
    view = SyncedView([CAPTURE.verified])
    for epoch in range(5, 20):
        later = CAPTURE.checkpoint.replace(epoch=epoch)
        view = view.with_anchor(replace(CAPTURE.verified, checkpoint=later))
    assert [known.checkpoint.epoch for known in view.anchors] == [16, 17, 18, 19]
    assert len(view.anchors) == KEPT


async def test_light_client_records_in_both_forms(followed: Server) -> None:
    for name in ("finality_update", "optimistic_update"):
        status, headers, body = await followed.get(LIGHT + name)
        assert (status, json.loads(body)["version"], headers["Eth-Consensus-Version"]) == (
            200,
            "altair",
            "altair",
        )
        recorded = json.loads(CAPTURE.file(f"lc_{name}.json"))["data"]
        if name == "finality_update":
            assert json.loads(body)["data"] == recorded
        assert (await followed.get(LIGHT + name, Accept=SSZ))[1]["Content-Type"] == SSZ
    assert (await followed.get(f"{LIGHT}updates?start_period=0&count=4"))[2] == b"[]"
    assert (await followed.get(f"{LIGHT}updates?start_period=0&count=4", Accept=SSZ))[2] == b""


async def test_events_of_new_checkpoints(server: Server, connect: Any) -> None:  # noqa: F811
    server.node.publish(SyncedView([Capture(ALTAIR, 0).verified]))

    async def listen() -> str:
        async for name in read_events(connect(server.url)):
            return name
        return ""

    task = asyncio.create_task(listen())
    while not server.node.events.subscribers:
        await asyncio.sleep(0.01)
    server.node.publish(server.node.view.with_anchor(CAPTURE.verified))
    assert await asyncio.wait_for(task, 5) == "finalized_checkpoint"


def test_a_view_starts_from_files() -> None:
    found = verify_pair(CAPTURE.network, CAPTURE.checkpoint, CAPTURE.block, CAPTURE.state, now=CAPTURE.now)
    assert SyncedView([found]).newest.state_bytes == CAPTURE.state


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "a/x"), ("a/y", "a/y"), ("a/y;q=0.2,a/x;q=0.1", "a/y"), ("a/*;q=0.5,a/x;q=0", "a/y"),
        ("*/*;q=0", None), ("b/*", None), ("A/X ; Q=1", "a/x"), (",,;;", None),
    ],
)  # fmt: skip
def test_types_are_chosen(accept: str | None, chosen: str | None) -> None:
    assert choose_media(accept or "", ["a/x", "a/y"]) == chosen


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, None), ("", None), ("bytes=1-2,4-5", None), ("bytes=-", None), ("lines=1-2", None),
        ("bytes=0-0", slice(0, 1)), ("bytes=5-", slice(5, 10)), ("bytes=9-99", slice(9, 10)),
        ("bytes=-3", slice(7, 10)), ("bytes=-30", slice(0, 10)), ("bytes=10-", slice(0, 0)),
        ("bytes=-0", slice(0, 0)), ("bytes=5-2", slice(0, 0)),
    ],
)  # fmt: skip
def test_ranges_are_read(text: str | None, part: slice | None) -> None:
    assert read_range(text, 10) == part


def test_packing_is_chosen() -> None:
    assert accepts_gzip("gzip, br") and accepts_gzip("*") and accepts_gzip("br;q=1, gzip;q=0.1")
    assert not accepts_gzip("") and not accepts_gzip("identity") and not accepts_gzip("gzip;q=0")
