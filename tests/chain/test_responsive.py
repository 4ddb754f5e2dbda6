"""What takes long is off the event loop: whoever serves goes on to answer while it verifies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

import anchor.chain.beacon.follow as following
import anchor.chain.beacon.sync as syncing
import anchor.node.api.beacon_forms as forms
from anchor.chain.beacon.follow import Follower, advance
from anchor.chain.beacon.sync import Settings, sync_checkpoint
from anchor.node.clock import ManualClock
from anchor.node.synced import SyncedView
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import running, serving_view

CAPTURE = Capture(ALTAIR, 1)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bool]]:
    """Lets a function tell, for each call, whether it ran in the event loop's thread."""

    def start(place: Any, name: str) -> list[bool]:
        own, loop, seen = getattr(place, name), threading.get_ident(), list[bool]()

        def told(*args: Any, **more: Any) -> Any:
            seen.append(threading.get_ident() == loop)
            return own(*args, **more)

        monkeypatch.setattr(place, name, told)
        return seen

    return start


async def test_a_state_is_verified_elsewhere(connect: MakeClient, watch: Callable[..., list[bool]]) -> None:
    steps = ["to_block_bytes", "verify_block", "to_state_bytes", "verify_checkpoint"]
    seen = [watch(syncing, step) for step in steps]
    async with running(CAPTURE.answers) as node:
        await sync_checkpoint([connect(node.url)], CAPTURE.checkpoint, Settings(), CAPTURE.now)
    assert seen == [[False]] * 4


async def test_an_update_is_verified_elsewhere(connect: MakeClient, watch: Callable[..., list[bool]]) -> None:
    follower = Follower(CAPTURE.network)
    seen = watch(following, "to_light_client_record"), watch(follower, "apply")
    async with running(CAPTURE.answers) as node:
        await advance(connect(node.url), follower, follower.start(CAPTURE.verified), CAPTURE.now)
    assert seen == ([False], [False])


async def test_answers_are_made_elsewhere_and_sent_while_others_wait(
    watch: Callable[..., list[bool]],
) -> None:
    """Downloads of the state, packed and not, beside small answers."""
    seen = watch(forms, "show_state"), watch(forms, "show_header")
    view, clock = SyncedView([CAPTURE.verified]), ManualClock(int(CAPTURE.now))
    async with serving_view(view, clock) as (_, url), aiohttp.ClientSession() as session:

        async def get(path: str, coding: str) -> bytes:
            async with session.get(f"{url}{path}", headers={"Accept-Encoding": coding}) as answer:
                return await answer.read()

        state = "/eth/v2/debug/beacon/states/finalized"
        loads = [get(state, coding) for coding in ("gzip", "identity") * 10]
        headers = [get(f"/eth/v1/beacon/headers/{name}", "identity") for name in ("head", "finalized")]
        *bodies, first, second = await asyncio.gather(*loads, *headers)
    assert set(bodies) == {CAPTURE.state} and first == second
    assert not any(seen[0] + seen[1]) and seen[0] and seen[1]
