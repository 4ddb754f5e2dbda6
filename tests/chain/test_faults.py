"""A good endpoint behind a bad one: nothing wrong is accepted, every fault is told, another endpoint used."""

from __future__ import annotations

import asyncio

import pytest

import anchor.chain.beacon.sync as syncing
from anchor.chain.beacon.sync import Settings, sync_checkpoint
from anchor.errors import AnchorError
from tests.chain import nodes
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import JSON, SSZ, Fault, Reply, giving, labelled, redirecting, running

STATES, BLOCKS = "/eth/v2/debug/beacon/states/", "/eth/v2/beacon/blocks/"
NEW, OLD = Capture(ALTAIR, 1), Capture(ALTAIR, 0)


def _as_state() -> Reply:
    return Reply(NEW.state, SSZ)


def _as_block() -> Reply:
    return Reply(NEW.block, SSZ)


FAULTS = [
    pytest.param(STATES, lambda: nodes.cut, "was cut", id="cut"),
    pytest.param(STATES, lambda: nodes.cut_silently, "SSZ|bytes|Beacon|offset", id="cut-without-a-length"),
    pytest.param(STATES, lambda: nodes.stall, "nothing came for 0.5 seconds", id="stall"),
    pytest.param(STATES, lambda: nodes.never_answer, "nothing came for 0.5 seconds", id="never-answers"),
    pytest.param(STATES, lambda: nodes.trickle, "not whole after 1.5 seconds", id="trickle"),
    pytest.param("/eth/v1/config", lambda: nodes.trickle, "not whole after 1.5 seconds", id="trickle-small"),
    pytest.param(STATES, lambda: nodes.announce_too_much, "are announced", id="length-lie"),
    pytest.param(BLOCKS, lambda: nodes.pour, "more than 1048577 bytes", id="pour"),
    pytest.param(STATES, lambda: nodes.html, "653 bytes of text/html came instead", id="08-html"),
    pytest.param(BLOCKS, lambda: nodes.html, "653 bytes of text/html came instead", id="08-html-block"),
    pytest.param("/eth/v1/config", lambda: nodes.html, "came instead", id="08-html-config"),
    pytest.param(
        STATES, lambda: nodes.html_as_ssz, "came instead, beginning '<!DOCTYPE", id="08-html-as-ssz"
    ),
    pytest.param(
        STATES, lambda: nodes.error_with_200, "has no data.*database is busy", id="08-error-with-200"
    ),
    pytest.param(STATES, lambda: nodes.unasked_gzip, "encoded as 'gzip'", id="unasked-gzip"),
    pytest.param(STATES, lambda: nodes.not_http, "not HTTP", id="not-http"),
    pytest.param(STATES, lambda: labelled("deneb"), "labelled 'deneb'", id="version-lie"),
    pytest.param(STATES, lambda: labelled("heze"), "labelled 'heze'", id="version-unknown"),
    pytest.param(STATES, lambda: giving(_as_block()), "another network|few", id="swapped-state"),
    pytest.param(BLOCKS, lambda: giving(_as_state()), "BeaconBlock|fork|root", id="swapped-block"),
    pytest.param(STATES, lambda: giving(Reply(NEW.state, JSON)), "not the JSON", id="type-lie"),
    pytest.param(STATES, lambda: giving(Reply(OLD.state, SSZ)), "commits to", id="older-state"),
    pytest.param(BLOCKS, lambda: giving(Reply(OLD.block, SSZ)), "the trusted one is", id="older-block"),
    pytest.param(STATES, lambda: giving(Reply(b"", SSZ)), "0 bytes", id="empty"),
    pytest.param(STATES, lambda: redirecting("/eth/v2/loop"), "has not|404|not here", id="redirect-astray"),
    pytest.param(
        STATES, lambda: redirecting(STATES + "x"), "redirects more than 3 times", id="redirect-loop"
    ),
    pytest.param(STATES, lambda: redirecting("file:///etc/passwd"), "no address", id="redirect-to-a-file"),
]


@pytest.mark.parametrize(("where", "make", "told"), FAULTS)
async def test_a_fault_is_told_and_another_endpoint_used(
    connect: MakeClient, monkeypatch: pytest.MonkeyPatch, where: str, make: object, told: str
) -> None:
    monkeypatch.setattr(syncing, "MAX_BLOCK", (1 << 20) + 1)
    fault: Fault = make()  # type: ignore[operator]
    notes: list[str] = []
    async with running(NEW.answers, {where: fault}) as bad, running(NEW.answers) as good:
        client = connect(bad.url, idle=0.5, total=1.5)
        with pytest.raises(AnchorError, match=f"(?s){told}") as refusal:
            await sync_checkpoint([client], NEW.checkpoint, Settings(), NEW.now)
        assert "Traceback" not in str(refusal.value) and len(refusal.value.what) < 1000
        settings = Settings(note=notes.append)
        found = await sync_checkpoint([client, connect(good.url)], NEW.checkpoint, settings, NEW.now)
    assert found.state_bytes == NEW.state
    assert any("Trying the next endpoint" in note for note in notes)


async def test_nobody_listens(connect: MakeClient) -> None:
    async with running(NEW.answers) as node:
        url = node.url
    await asyncio.sleep(0)
    with pytest.raises(AnchorError, match="no connection"):
        await sync_checkpoint([connect(url)], NEW.checkpoint, Settings(), NEW.now)


async def test_all_endpoints_fail_and_each_is_told(connect: MakeClient) -> None:
    async with (
        running(NEW.answers, {STATES: nodes.html}) as first,
        running(NEW.answers, {BLOCKS: nodes.cut}) as second,
    ):
        clients = [connect(first.url), connect(second.url)]
        with pytest.raises(AnchorError) as refusal:
            await sync_checkpoint(clients, NEW.checkpoint, Settings(), NEW.now)
    assert first.url in refusal.value.what and second.url in refusal.value.what
    assert refusal.value.exit_code == 1  # one gave what is wrong, and was not just out of reach


async def test_09_a_slow_download_is_no_fault(connect: MakeClient) -> None:
    """Slow all the way, and never silent: time for the whole answer is what limits it."""
    seen: list[tuple[int, int]] = []
    settings = Settings(progress=lambda done, total: seen.append((done, total)))
    async with running(NEW.answers, {BLOCKS: nodes.trickle}) as node:
        client = connect(node.url, idle=0.5, total=20)
        await sync_checkpoint([client], NEW.checkpoint, settings, NEW.now)
    assert seen[-1] == (len(NEW.state), len(NEW.state))
