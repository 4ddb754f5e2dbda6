"""A ledger is synced from like any beacon chain: over sockets, from a node that goes on to finalise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import anchor.cli.sync
import anchor.cli.syncing
from anchor.bundle.build import build_trusted_block
from anchor.bundle.types import TrustedBlock
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.chain.beacon.follow import advance, read_events
from anchor.chain.beacon.light import start_light, verify_ledger
from anchor.chain.beacon.sync import Settings, get_network, sync_checkpoint
from anchor.cli.main import main
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint
from anchor.errors import (
    InvalidCheckpoint,
    InvalidEvidence,
    InvalidProof,
    NotServed,
    StaleTrust,
    WrongNetwork,
)
from anchor.node.clock import ManualClock
from anchor.node.synced import SyncedView
from tests.chain.conftest import MakeClient, connect  # noqa: F401
from tests.chain.nodes import serving_view
from tests.node.http.conftest import Site
from tests.node.http.tools import get_genesis, post, write_entries
from tests.node.tools import NOW

LIGHT = "/eth/v1/beacon/light_client"


async def publish(site: Site, version: str) -> Checkpoint:
    """Publishes a version over HTTP; what is final then."""
    for entry in await write_entries(site, version):
        async with await post(site, entry) as response:
            assert response.status == 200
    return site.node.status.finalized


async def sync(client: Any, checkpoint: Checkpoint) -> VerifiedCheckpoint:
    return await sync_checkpoint([client], checkpoint, Settings(), NOW)


async def test_any_final_checkpoint_is_synced_from(site: Site, connect: MakeClient) -> None:  # noqa: F811
    known = [await get_genesis(site), site.node.status.finalized, await publish(site, "2")]
    for checkpoint in known:
        found = await sync(connect(site.url), checkpoint)
        assert found.checkpoint == checkpoint
        name = await site.node.show(lambda view: view.network.name)
        assert (found.network.name, found.network.is_claimed) == (name, False)
        assert found.network.has_logical_clock
        state = await site.node.read(lambda reader, root=checkpoint.root: reader.chain.get_state(root))
        assert found.state == state


async def test_finality_is_followed_as_it_moves(site: Site, connect: MakeClient) -> None:  # noqa: F811
    """With a state and without one: a step behind what votes have made final, and never beyond."""
    client, first = connect(site.url), site.node.status.finalized
    network = await get_network(client, Settings(), NOW)
    light = await start_light(client, network, first, NOW, accept_expired=False)
    follower, followed = light
    with pytest.raises(NotServed, match="No block of this ledger says yet"):
        await advance(client, follower, followed, NOW)
    seen = []
    for version in ("2", "3", "4"):
        final = await publish(site, version)
        followed = await advance(client, follower, followed, NOW)
        seen.append(follower.to_checkpoint(followed.finalized))
        assert final.epoch == seen[-1].epoch + 1
        assert seen[-1] == await site.node.read(lambda r, e=seen[-1].epoch: r.chain.get_checkpoint(e))
    assert [known.epoch for known in seen] == [3, 5, 7]


async def test_it_tells_at_once_what_becomes_final(site: Site, connect: MakeClient) -> None:  # noqa: F811
    async def listen() -> str:
        async for name in read_events(connect(site.url)):
            return name
        return ""

    task = asyncio.create_task(listen())
    while not site.node.events.subscribers:
        await asyncio.sleep(0.01)
    await publish(site, "2")
    assert await asyncio.wait_for(task, 10) == "finalized_checkpoint"


async def test_who_synced_serves_it_on(site: Site, connect: MakeClient) -> None:  # noqa: F811
    """A second anchor, which has it from the first, is synced from in turn, with a state and without."""
    first = site.node.status.finalized
    own = await sync(connect(site.url), first)
    async with serving_view(SyncedView([own]), ManualClock(NOW)) as (_, url):
        assert (await sync(connect(url), first)).state_bytes == own.state_bytes
        network = await get_network(connect(url), Settings(), NOW)
        follower, _ = await start_light(connect(url), network, first, NOW, accept_expired=False)
        assert follower.network.has_logical_clock


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Runs `anchor sync` at the ledger's time; its exit code and envelope."""
    clock = SimpleNamespace(time=lambda: float(NOW))
    monkeypatch.setattr(anchor.cli.sync, "time", clock)
    monkeypatch.setattr(anchor.cli.syncing, "time", clock)
    monkeypatch.chdir(tmp_path)

    async def start(*arguments: str) -> tuple[int, Any]:
        code = await asyncio.to_thread(main, ["sync", *arguments, "--poll", "0.2", "--json"])
        return code, json.loads(capsys.readouterr().out)

    return start


@pytest.mark.parametrize("more", [[], ["--light"], ["--serve", "0"]])
async def test_the_command_follows_a_ledger(site: Site, run: Callable[..., Any], more: list[str]) -> None:
    trust = format_checkpoint(site.node.status.finalized)
    command = asyncio.create_task(run(site.url, "--trust", trust, "--follow", "2", *more))
    for version in ("2", "3", "4"):
        await asyncio.sleep(0.5)
        await publish(site, version)
    code, found = await asyncio.wait_for(command, 60)
    assert (code, found["error"]) == (0, None)
    epochs = [int(known.partition(":")[2]) for known in found["result"]["finalized"]]
    assert len(epochs) == 2 + ("--light" in more) and epochs == sorted(set(epochs))
    for known in found["result"]["finalized"]:
        epoch = int(known.partition(":")[2])
        own = await site.node.read(lambda reader, epoch=epoch: reader.chain.get_checkpoint(epoch))
        assert known == format_checkpoint(own)


# What a light client of a ledger is told


@pytest.fixture
async def told(site: Site) -> AsyncIterator[tuple[Any, Checkpoint, TrustedBlock]]:
    """The network, a trusted checkpoint, and what the node proves of it."""
    final = site.node.status.finalized
    network, trusted = await site.node.show(lambda view: (view.network, view.make_trusted_block(final.root)))
    yield network, final, trusted


async def test_clock_age_and_network_are_proven(told: tuple[Any, Checkpoint, TrustedBlock]) -> None:
    network, final, trusted = told
    found = verify_ledger(network, final, trusted, NOW, accept_expired=False)
    assert found.has_logical_clock
    seconds, period = network.config.seconds_per_slot, trusted.network.weak_subjectivity_period
    end = trusted.timestamp + period * 8 * seconds
    verify_ledger(network, final, trusted, end - 1, accept_expired=False)
    with pytest.raises(StaleTrust, match="--allow-stale-trust"):
        verify_ledger(network, final, trusted, end, accept_expired=False)
    verify_ledger(network, final, trusted, end, accept_expired=True)
    with pytest.raises(InvalidEvidence, match="seconds ahead"):
        verify_ledger(network, final, trusted, trusted.timestamp - 601, accept_expired=False)


@pytest.mark.parametrize("field", ["clock", "seconds_per_slot", "weak_subjectivity_period", "nonce"])
async def test_nothing_of_it_can_be_changed(told: tuple[Any, Checkpoint, TrustedBlock], field: str) -> None:
    network, final, trusted = told
    value = b"x" * 32 if field == "nonce" else getattr(trusted.network, field) + 1
    for forged in (
        trusted.replace(network=trusted.network.replace(**{field: value})),
        trusted.replace(timestamp=trusted.timestamp + 1),
        trusted.replace(genesis_validators_root=b"x" * 32),
    ):
        with pytest.raises(InvalidProof):
            verify_ledger(network, final, forged, NOW, accept_expired=False)


async def test_another_block_or_network_is_refused(
    site: Site, told: tuple[Any, Checkpoint, TrustedBlock]
) -> None:
    network, final, trusted = told
    genesis = await get_genesis(site)
    with pytest.raises(InvalidCheckpoint, match="the trusted one is"):
        verify_ledger(network, genesis, trusted, NOW, accept_expired=False)
    other = network.__class__("lab", network.preset, network.config, b"y" * 32, network.genesis_time)
    with pytest.raises(WrongNetwork, match="another network"):
        verify_ledger(other, final, trusted, NOW, accept_expired=False)
    config = network.config.replace(SLOT_DURATION_MS=1000)
    other = network.__class__("lab", network.preset, config, network.genesis_validators_root, None)
    with pytest.raises(WrongNetwork, match="A slot of lab has 21600 seconds by its state, and 1 by"):
        verify_ledger(other, final, trusted, NOW, accept_expired=False)


async def test_only_what_is_final_starts_a_light_client(site: Site) -> None:
    head = f"0x{site.node.status.head.hex()}"
    for path in (f"{LIGHT}/bootstrap/{head}", f"/anchor/v1/checkpoints/{head}"):
        async with site.client.get(path) as response:
            assert response.status == 404
    trusted = await site.node.show(lambda view: view.make_trusted_block(site.node.status.finalized.root))
    state = await site.node.read(lambda reader: reader.chain.get_state(site.node.status.finalized.root))
    assert build_trusted_block(trusted.header, state) == trusted


# Blocks and states by every name


async def test_blocks_and_states_by_every_name(site: Site) -> None:
    status = site.node.status

    async def get(path: str) -> Any:
        async with site.client.get(path) as response:
            return (await response.json())["data"] if response.status == 200 else response.status

    header = await get("/eth/v1/beacon/headers/finalized")
    slot, state_root = header["header"]["message"]["slot"], header["header"]["message"]["state_root"]
    for name in (slot, header["root"], header["root"].upper().replace("X", "x")):
        assert await get(f"/eth/v1/beacon/headers/{name}") == header
    for name in ("finalized", slot, state_root):
        assert (await get(f"/eth/v1/beacon/states/{name}/root"))["root"] == state_root
    assert (await get("/eth/v1/beacon/headers/head"))["root"] == f"0x{status.head.hex()}"
    genesis = await get("/eth/v1/beacon/headers/genesis")
    assert genesis["root"] == f"0x{status.genesis.root.hex()}"
    assert await get("/eth/v1/beacon/headers/0") == genesis
    assert (await get("/eth/v1/beacon/states/genesis/root"))["root"] == genesis["header"]["message"][
        "state_root"
    ]
    fork = await get(f"/eth/v1/beacon/states/{state_root}/fork")
    assert fork["current_version"] == (await get("/eth/v1/beacon/genesis"))["genesis_fork_version"]
    for name in ("1", "999999", f"0x{'11' * 32}", slot.rjust(19, "9")):
        assert await get(f"/eth/v1/beacon/headers/{name}") == 404
        assert await get(f"/eth/v2/debug/beacon/states/{name}") == 404
    assert await get("/eth/v1/beacon/headers/-1") == 400
