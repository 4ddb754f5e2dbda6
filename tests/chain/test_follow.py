"""Following finality: real signatures of a recorded chain, woken by events or by the clock."""

from __future__ import annotations

import asyncio
import json
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import anchor.cli.sync
import anchor.cli.syncing
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint, verify_pair
from anchor.chain.beacon.follow import Follower, News, advance
from anchor.cli.main import main
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.hardcoded import Table
from anchor.errors import InvalidCheckpoint, InvalidUpdate, MalformedAnswer, MalformedSSZ, StaleTrust
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import MISSING, SSZ, Fault, Reply, giving, redirecting, running

FINAL, TIP = Capture(ALTAIR, 0), Capture(ALTAIR, 1)
LIGHT, EVENTS = "/eth/v1/beacon/light_client", "/eth/v1/events"


@cache
def genesis() -> VerifiedCheckpoint:
    """The recorded chain's first state, and the block that stands for it."""
    network = FINAL.network
    fork = network.get_fork_at_slot(0)
    data = FINAL.files["state_genesis.ssz"]
    signed = fork.scope.schema("SignedBeaconBlock").default()
    root = fork.hash_tree_root(fork.scope.schema("BeaconState").decode(data))
    block = signed.replace(message=signed.message.replace(state_root=root))
    checkpoint = Checkpoint(epoch=0, root=fork.hash_tree_root(block.message))
    return verify_pair(network, checkpoint, fork.scope.encode(block), data, now=TIP.now)


def answers(path: str, headers: dict[str, str]) -> Reply:
    """A node that has the genesis state, knows the final checkpoint, and the newest update."""
    first = genesis()
    given = {
        f"/eth/v2/beacon/blocks/0x{first.checkpoint.root.hex()}": first.block.fork.scope.encode(
            first.block.block
        ),
        f"/eth/v2/debug/beacon/states/0x{first.block.state_root.hex()}": first.state_bytes,
    }
    if path in given:
        return Reply(given[path], SSZ)
    if path.startswith(LIGHT):
        return TIP.answers(path, headers)
    return FINAL.answers(path, headers)


def update() -> dict[str, Any]:
    """The recorded finality update."""
    data: dict[str, Any] = json.loads(TIP.file("lc_finality_update.json"))["data"]
    return data


async def test_finality_is_followed_from_the_genesis_state(connect: MakeClient) -> None:
    follower = Follower(genesis().network)
    start = follower.start(genesis())
    async with running(answers) as node:
        client = connect(node.url)
        found = await advance(client, follower, start, TIP.now)
        assert follower.to_checkpoint(found.finalized) == FINAL.checkpoint
        assert await advance(client, follower, found, TIP.now) is not None
    assert start.finalized.beacon.slot == 0  # nothing was changed in place


async def test_what_conflicts_with_the_code_is_not_adopted(connect: MakeClient) -> None:
    """Rule 22: whatever its weight."""
    network = genesis().network
    for root, holds in ((FINAL.checkpoint.root, True), (b"\x77" * 32, False)):
        table = Table("lab", network.genesis_validators_root or b"", {3: root})
        follower = Follower(network, tables=[table])
        async with running(answers) as node:
            look = advance(connect(node.url), follower, follower.start(genesis()), TIP.now)
            if holds:
                assert follower.to_checkpoint((await look).finalized) == FINAL.checkpoint
            else:
                with pytest.raises(InvalidCheckpoint, match="in the code"):
                    await look


def _forge(**changes: Any) -> Fault:
    return giving(Reply(json.dumps({"data": update() | changes}).encode()))


def _flip(text: str) -> str:
    return text[:-1] + ("0" if text[-1] != "0" else "1")


FORGERIES = {
    "another final header": {"finalized_header": update()["attested_header"]},
    "a cut branch": {"finality_branch": update()["finality_branch"][1:]},
    "another branch": {"finality_branch": [_flip(part) for part in update()["finality_branch"]]},
    "nobody signed": {"sync_aggregate": update()["sync_aggregate"] | {"sync_committee_bits": "0x00000000"}},
    "not all who are named": {
        "sync_aggregate": update()["sync_aggregate"] | {"sync_committee_bits": "0x7fffffff"}
    },
    "a future signature": {"signature_slot": "4000"},
    "of no slot": {"signature_slot": "x"},
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forged_update_is_refused(connect: MakeClient, name: str) -> None:
    follower = Follower(genesis().network)
    start = follower.start(genesis())
    async with running(answers, {f"{LIGHT}/finality_update": _forge(**FORGERIES[name])}) as node:
        with pytest.raises((InvalidUpdate, MalformedSSZ, MalformedAnswer)):
            await advance(connect(node.url), follower, start, TIP.now)


async def test_without_a_state_the_least_period_counts(connect: MakeClient) -> None:
    follower = Follower(FINAL.network)
    followed = follower.start(FINAL.verified)
    end = (FINAL.network.genesis_time or 0) + (3 + 256 + 1) * 8 * 2
    follower.verify_floor(followed, end - 1, False)
    with pytest.raises(StaleTrust, match="more than the 256 epochs"):
        follower.verify_floor(followed, end, False)
    follower.verify_floor(followed, end, True)


async def test_a_flood_of_events_takes_no_time(connect: MakeClient) -> None:
    async def flood(writer: asyncio.StreamWriter, reply: Reply) -> None:
        writer.write(Reply(b"", "text/event-stream").head(-1))
        while True:
            writer.write(b"event: finalized_checkpoint\ndata: {}\n\n" * 1000)
            await writer.drain()

    async with running(answers, {EVENTS: flood}) as node, News([connect(node.url)], 60.0) as news:
        await asyncio.sleep(1.0)
        assert 1 <= news.events <= 40  # three lines each, at most a hundred a second


async def _wait(news: News) -> float:
    start = time.monotonic()
    await asyncio.wait_for(news.wait(), 5)
    return time.monotonic() - start


async def test_an_event_wakes_at_once(connect: MakeClient) -> None:
    stream = Reply(b": hello\n\nevent: finalized_checkpoint\ndata: {}\n\n", "text/event-stream")
    async with running(answers, {EVENTS: giving(stream)}) as node, News([connect(node.url)], 60.0) as news:
        assert await _wait(news) < 4
        assert news.events == 1


@pytest.mark.parametrize(
    "fault",
    [giving(MISSING), giving(Reply(b"event: head\ndata: x\n\n", "text/event-stream")), redirecting("file:///x"),
     giving(Reply(b"event: finalized_checkpoint\n\n"))],
)  # fmt: skip
async def test_without_events_the_clock_wakes(connect: MakeClient, fault: Fault) -> None:
    async with running(answers, {EVENTS: fault}) as node, News([connect(node.url)], 0.2) as news:
        assert await _wait(news) >= 0.19
        assert news.events == 0


@pytest.mark.parametrize("more", [[], ["--serve", "0"], ["--light"]])
async def test_the_command_follows(
    more: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(time=lambda: TIP.now)
    monkeypatch.setattr(anchor.cli.sync, "time", clock)
    monkeypatch.setattr(anchor.cli.syncing, "time", clock)
    monkeypatch.chdir(tmp_path)
    first = genesis().checkpoint
    trust, count = f"0x{first.root.hex()}:0", "1"
    faults: dict[str, Fault] = {}
    if "--light" in more:
        trust, count = TIP.trust, "0"
    async with running(answers, faults) as node:
        line = ["sync", node.url, "--trust", trust, "--follow", count, "--poll", "0.2", "--json", *more]
        code = await asyncio.to_thread(main, line)
    found = json.loads(capsys.readouterr().out)
    assert code == 0, found
    if "--light" in more:
        return
    assert found["result"]["finalized"] == [FINAL.trust]
    kept = json.loads((tmp_path / "anchor-sync/finalized.json").read_text())
    assert (kept["finalized"], kept["slot"]) == (FINAL.trust, 24)
    loaded = [path for path in node.paths if "debug" in path]
    assert len(loaded) == (2 if "--serve" in more else 1)  # who serves has the newer state too
