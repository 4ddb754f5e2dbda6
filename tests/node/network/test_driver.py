"""Nodes over real sockets: they catch up, pass on what is right, and hold out against those who are not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anchor.node.network import catching_up, driver, syncing, traffic
from anchor.node.network.handshake import Dialler
from anchor.node.network.messages import (
    MAX_BLOCKS_ASKED,
    MAX_FRAME,
    Addresses,
    BlocksByRange,
    BlocksByRoot,
    Kind,
)
from anchor.node.network.peers import BAN_AT, Fault
from anchor.node.network.wanted import BY_ROOT
from tests.node.network.drivers import VALIDATORS, Clock, DriverSite, driving, meeting
from tests.node.network.test_links import reason_of, until
from tests.node.network.wires import allow, make_identity, stranger
from tests.node.tools import Random

ALL = range(VALIDATORS)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[DriverSite]:
    """A node without validators at slot 20, whose chain has ten blocks."""

    async def prepare(site: DriverSite) -> None:
        await site.make_blocks(1, 11)
        site.engine._duties = None
        site.clock.slot = 20

    async with driving(tmp_path, "site", validators=ALL, prepare=prepare) as site:
        yield site


# Honest peers


async def test_a_node_catches_up_and_follows(tmp_path: Path) -> None:
    clock, blocks = Clock(), 2 * syncing.BATCH + 5

    async def prepare(site: DriverSite) -> None:
        await site.make_blocks(1, blocks + 1)

    async with (
        driving(tmp_path, "a", validators=ALL, clock=clock, prepare=prepare) as first,
        driving(tmp_path, "b", clock=clock, listed=[first.url]) as second,
    ):
        await until(lambda: second.head_slot == blocks, 30)
        assert second.engine.head == first.engine.head
        assert second.count("block", "answer") == blocks  # by range, not one by one
        clock.slot = blocks + 1
        await until(lambda: second.head_slot == blocks + 1, 10)  # by gossip
        assert second.count("block", "new") == 1
        assert not first.driver.company.standings._known
        assert not second.driver.company.standings._known


async def test_what_one_pushes_reaches_who_is_not_its_peer(tmp_path: Path) -> None:
    clock = Clock(0.5)
    async with (
        driving(tmp_path, "a", validators=ALL, clock=clock) as a,
        driving(tmp_path, "b", clock=clock, listed=[a.url]) as b,
        driving(tmp_path, "c", clock=clock, listed=[b.url]) as c,
    ):
        await until(lambda: len(b.driver.company.links.all) == 2)
        clock.slot = 1.5
        await until(lambda: c.head_slot == 1)
        await until(lambda: c.count("attestation", "new") > 0)
        assert c.engine.head == a.engine.head


async def test_branches_meet_after_a_partition(tmp_path: Path) -> None:
    clock = Clock()

    async def prepare(site: DriverSite) -> None:
        await site.make_blocks(1, 30)

    async with (
        driving(tmp_path, "a", validators=ALL[:8], clock=clock, prepare=prepare) as a,
        driving(tmp_path, "b", validators=ALL[8:], clock=clock, prepare=prepare, listed=[a.url]) as b,
    ):
        assert a.engine.head != b.engine.head
        for one, other in ((a, b), (b, a)):
            head = other.engine.head
            while not await one.driver.runner.run(one.engine.is_known, head):
                await asyncio.sleep(0.05)
        clock.slot = 30.5  # the votes of a slot count in the next one
        await until(lambda: a.engine.head == b.engine.head and a.head_slot == 30, 20)
        assert a.count("block", "invalid") == b.count("block", "invalid") == 0


async def test_a_cut_off_peer_is_not_heard_until_it_is_again(tmp_path: Path) -> None:
    clock = Clock(0.5)
    async with (
        driving(tmp_path, "a", clock=clock) as a,
        driving(tmp_path, "b", clock=clock, listed=[a.url]) as b,
    ):
        await until(lambda: len(a.driver.company.links.all) == 1)
        b.driver.faults.inject(a.url, "0")
        await until(lambda: not a.driver.company.links.all)
        await asyncio.sleep(1)
        assert not a.driver.company.links.all
        b.driver.faults.inject("", "-3000")
        await until(lambda: len(a.driver.company.links.all) == 1)
        await until(lambda: "3.0 s behind" in b.driver.company.clocks.get_words())


async def test_addresses_are_learnt_and_dialled(tmp_path: Path) -> None:
    async with driving(tmp_path, "a") as a, driving(tmp_path, "b") as b, meeting(a) as mallory:
        await mallory.push(Kind.ADDRESSES, Addresses(urls=(b.url.encode(), b"\xff", b"ftp://x")))
        await until(lambda: len(b.driver.company.links.all) == 1)
        assert mallory.points == 0


# Answers to questions


async def test_blocks_are_given_by_slot_and_by_root(site: DriverSite) -> None:
    async with meeting(site) as peer:
        await peer.push(Kind.GET_BLOCKS_BY_RANGE, BlocksByRange(start_slot=3, count=5), 7)
        slots = [(await peer.receive(Kind.BLOCK)).value.message.slot for _ in range(5)]
        assert slots == [3, 4, 5, 6, 7]
        assert (await peer.receive(Kind.END)).request == 7
        roots = (site.engine.head, bytes(32))
        await peer.push(Kind.GET_BLOCKS_BY_ROOT, BlocksByRoot(roots=roots), 8)
        message = await peer.receive(Kind.BLOCK)
        assert (message.value.message.slot, message.request) == (10, 8)
        assert (await peer.receive(Kind.END)).request == 8


async def test_too_much_is_not_asked_twice(site: DriverSite) -> None:
    async with meeting(site) as peer:
        await peer.push(Kind.GET_BLOCKS_BY_RANGE, BlocksByRange(start_slot=0, count=MAX_BLOCKS_ASKED + 1), 7)
        await until(lambda: site.count("get_blocks_by_range", "flood") == 1)
        assert peer.points > 0


# Harm


async def hear_refusal(site: DriverSite, name: str = "mallory") -> str:
    """Why a peer is not let in."""
    identity = make_identity(name, site.driver.company.links.own.network_id)
    async with stranger(site.url) as websocket:
        await websocket.send_bytes(Dialler(identity, Random(), allow).greet())
        return (await reason_of(websocket))[1]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\1",
        b"\xff" * 100,
        bytes([Kind.END]) + bytes(4),
        bytes([Kind.BLOCK]) + bytes(4) + b"\xff" * 1000,
    ],
    ids=["empty", "short", "kind", "end", "block"],
)
async def test_garbage_bans(site: DriverSite, frame: bytes) -> None:
    async with meeting(site) as mallory:
        for turn in range(3):
            await mallory.socket.send_bytes(frame + bytes([turn]) * (len(frame) > 99))
        await until(lambda: mallory.points > BAN_AT - 1)
        await until(lambda: not site.driver.company.links.all)
    assert "banned you for" in await hear_refusal(site)


async def test_a_replay_costs_nothing(site: DriverSite) -> None:
    (block,) = await site.get_blocks(5, 1)
    frame = site.encode(Kind.BLOCK, block)
    async with meeting(site) as mallory:
        for _ in range(50):
            await mallory.socket.send_bytes(frame)
        await until(lambda: site.count("block", "known") == 50)
        assert mallory.points == 0
        assert len(site.driver.inbox) == 0


async def test_future_slots_wait_and_are_nobodys_fault(site: DriverSite) -> None:
    (block,) = await site.get_blocks(10, 1)
    async with meeting(site) as mallory:
        for slot in (21, 22, 10**6):
            future = block.replace(message=block.message.replace(slot=slot, parent_root=site.engine.head))
            await mallory.push(Kind.BLOCK, future)
        await until(lambda: site.count("block", "early") == 3)
        assert mallory.points == 0
        assert site.head_slot == 10


async def test_what_breaks_the_rules_bans(site: DriverSite) -> None:
    (block,) = await site.get_blocks(10, 1)
    async with meeting(site) as mallory:
        for number in range(5):
            wrong = block.message.replace(slot=11 + number, parent_root=site.engine.head)
            await mallory.push(Kind.BLOCK, block.replace(message=wrong))
        await until(lambda: mallory.points > BAN_AT - 1)
        assert site.head_slot == 10


async def test_a_flood_is_cut_off_and_honest_traffic_goes_on(
    site: DriverSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    vote = (await site.get_blocks(9, 1))[0].message.body.attestations[0]
    most = 0
    async with meeting(site, "honest") as honest, meeting(site) as mallory:
        frames = [
            site.encode(Kind.ATTESTATION, vote.replace(data=vote.data.replace(slot=number)))
            for number in range(2000)
        ]

        async def flood() -> None:
            for frame in frames:
                await mallory.socket.send_bytes(frame)

        task = asyncio.create_task(flood())
        start = time.monotonic()
        await honest.push(Kind.GET_BLOCKS_BY_RANGE, BlocksByRange(start_slot=1, count=10), 1)
        await honest.receive(Kind.END)
        assert time.monotonic() - start < 10
        while mallory.points < BAN_AT:
            most = max(most, len(site.driver.inbox))
            await asyncio.sleep(0.01)
        with pytest.raises((ConnectionError, TypeError, asyncio.CancelledError)):
            task.cancel()
            await task
            raise ConnectionError
        assert most <= traffic.MAX_WAITING
        assert honest.points == 0


async def test_large_frames_wait_within_bounds(site: DriverSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four peers send sixteen megabytes each; what waits is bounded in bytes, and each in turn is banned."""
    for number in range(4):
        async with meeting(site, f"m{number}") as mallory:
            for turn in range(4):
                frame = bytes([Kind.ENTRY]) + bytes(4) + bytes([16 * number + turn]) * (MAX_FRAME - 5)
                try:
                    await mallory.socket.send_bytes(frame)
                except ConnectionError:
                    break
                assert site.driver.inbox._bytes <= traffic.MAX_WAITING_BYTES
            await until(lambda mallory=mallory: mallory.points > BAN_AT - 1)  # type: ignore[misc]
    await until(lambda: not site.driver.company.links.all)


async def test_answers_that_nobody_asked_for_ban(site: DriverSite) -> None:
    (block,) = await site.get_blocks(5, 1)
    async with meeting(site) as mallory:
        for request in (1, 2, BY_ROOT | 1, BY_ROOT | 2, 3, 4):
            await mallory.push(Kind.BLOCK, block, request)
        await until(lambda: mallory.points > BAN_AT - 1)


async def test_a_claim_that_is_never_shown(site: DriverSite) -> None:
    async with meeting(site) as mallory:
        await mallory.claim(10**6)  # the future: nobody is asked
        await mallory.claim(20)
        question = await mallory.receive(Kind.GET_BLOCKS_BY_RANGE)
        await mallory.push(Kind.END, None, question.request)
        await until(lambda: mallory.points >= Fault.STALLED - 1)
        assert not site.driver.catching_up.syncer.is_running
        assert site.driver.catching_up.may_do_duties  # a claim stops nobody's duties


async def test_who_does_not_answer_stalls(site: DriverSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "STALL_SECONDS", 0.3)
    async with meeting(site) as mallory:
        await mallory.claim(20)
        await mallory.receive(Kind.GET_BLOCKS_BY_RANGE)
        await until(lambda: mallory.points >= Fault.STALLED - 1)


async def test_who_answers_with_other_blocks_lies(site: DriverSite) -> None:
    (block,) = await site.get_blocks(10, 1)
    async with meeting(site) as mallory:
        await mallory.claim(20)
        question = await mallory.receive(Kind.GET_BLOCKS_BY_RANGE)
        wrong = block.message.replace(slot=12, parent_root=site.engine.head)
        await mallory.push(Kind.BLOCK, block.replace(message=wrong), question.request)
        await mallory.push(Kind.END, None, question.request)
        await until(lambda: mallory.points >= Fault.LIED - 1)
        assert site.head_slot == 10


async def test_an_unknown_parent_is_asked_of_who_spoke_of_it(tmp_path: Path, site: DriverSite) -> None:
    ninth, tenth = await site.get_blocks(9, 2)
    async with driving(tmp_path, "late", clock=site.clock) as late, meeting(late) as peer:
        await peer.push(Kind.BLOCK, tenth)
        for block in [ninth, *reversed(await site.get_blocks(1, 8))]:
            question = await peer.receive(Kind.GET_BLOCKS_BY_ROOT)
            assert question.value.roots == (late.engine.ledger.hash_tree_root(block.message),)
            await peer.push(Kind.BLOCK, block, question.request)
            await peer.push(Kind.END, None, question.request)
        await until(lambda: late.head_slot == 10)
        assert peer.points == 0


async def test_bans_outlive_a_restart(tmp_path: Path) -> None:
    async with driving(tmp_path, "a") as a, meeting(a) as mallory:
        for turn in range(2):
            await mallory.socket.send_bytes(b"\xff" * 10 + bytes([turn]))
        await until(lambda: mallory.points > BAN_AT - 1)
    async with driving(tmp_path, "a") as a:
        assert "banned you for" in await hear_refusal(a)


def test_the_constants_fit_together() -> None:
    assert driver.STATUS_SECONDS * 2 < 30
    assert catching_up.PROGRESS_SECONDS <= syncing.STALL_SECONDS
