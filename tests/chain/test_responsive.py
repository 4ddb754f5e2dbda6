"""What takes long is off the event loop: whoever serves goes on to answer while it verifies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

import anchor.chain.beacon.follow as following
import anchor.chain.beacon.sync as syncing
from anchor.chain.beacon.follow import Follower, advance
from anchor.chain.beacon.sync import Settings, sync_checkpoint
from anchor.node.clock import ManualClock
from anchor.node.synced import SyncedView
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import running, serving_view

CAPTURE = Capture(ALTAIR, 1)
LONG = 0.5
"""Seconds that each step takes here: with a million validators they take longer."""


async def find_longest_wait(work: Awaitable[Any], url: str) -> float:
    """The longest that an answer took, of those that were asked for until the work was done."""
    task, longest = asyncio.ensure_future(work), 0.0
    async with aiohttp.ClientSession() as session:
        while not task.done():
            start = time.monotonic()
            async with session.get(f"{url}/eth/v1/beacon/headers/finalized") as answer:
                assert answer.status == 200
                await answer.read()
            longest = max(longest, time.monotonic() - start)
    await task
    return longest


def slow_down(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> None:
    own: Callable[..., Any] = getattr(place, name)

    def slowly(*args: Any, **more: Any) -> Any:
        time.sleep(LONG)
        return own(*args, **more)

    monkeypatch.setattr(place, name, slowly)


@pytest.mark.parametrize("step", ["to_block_bytes", "verify_block", "to_state_bytes", "verify_checkpoint"])
async def test_it_answers_while_a_state_is_verified(
    connect: MakeClient, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    view, clock = SyncedView([CAPTURE.verified]), ManualClock(int(CAPTURE.now))
    async with running(CAPTURE.answers) as node, serving_view(view, clock) as (_, url):
        slow_down(monkeypatch, syncing, step)
        work = sync_checkpoint([connect(node.url)], CAPTURE.checkpoint, Settings(), CAPTURE.now)
        assert await find_longest_wait(work, url) < LONG / 2


async def test_it_answers_while_an_update_is_verified(
    connect: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, clock = SyncedView([CAPTURE.verified]), ManualClock(int(CAPTURE.now))
    follower = Follower(CAPTURE.network)
    slow_down(monkeypatch, following, "to_light_client_record")
    slow_down(monkeypatch, follower, "apply")
    async with running(CAPTURE.answers) as node, serving_view(view, clock) as (_, url):
        work = advance(connect(node.url), follower, follower.start(CAPTURE.verified), CAPTURE.now)
        assert await find_longest_wait(work, url) < LONG / 2


async def test_it_answers_while_a_state_is_sent_and_packed(connect: MakeClient) -> None:
    """Downloads of the state, packed and not, leave room for small answers."""
    view, clock = SyncedView([CAPTURE.verified]), ManualClock(int(CAPTURE.now))
    async with serving_view(view, clock) as (_, url), aiohttp.ClientSession() as session:

        async def load(coding: str) -> None:
            path = f"{url}/eth/v2/debug/beacon/states/finalized"
            for _ in range(20):
                async with session.get(path, headers={"Accept-Encoding": coding}) as answer:
                    assert len(await answer.read()) == len(CAPTURE.state)

        work = asyncio.gather(load("gzip"), load("identity"))
        assert await find_longest_wait(work, url) < LONG
