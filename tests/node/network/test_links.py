"""What strangers and peers may do to a connection, on real sockets."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest

from anchor.errors import MalformedAnswer, RefusedPeer, Unavailable
from anchor.node.network import link as link_module
from anchor.node.network import links as links_module
from anchor.node.network.handshake import Dialler
from anchor.node.network.link import MAX_KNOWN, MAX_PINGS, MAX_QUEUED, REFUSED
from anchor.node.network.links import MAX_STRANGERS_PER_ADDRESS, PATH, make_session
from anchor.node.network.messages import MAX_FRAME
from tests.node.network.wires import Site, allow, make_identity, peer, serving, stranger
from tests.node.tools import Random


async def until(condition, seconds: float = 5) -> None:  # type: ignore[no-untyped-def]
    """Waits for something to become true."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not become true")


async def dial(site: Site, url: str) -> asyncio.Task[None]:
    """A site that dials; the task ends with the link."""

    async def run() -> None:
        async with make_session() as session:
            await site.links.dial(session, url, site.converse)

    return asyncio.create_task(run())


async def reason_of(websocket: aiohttp.ClientWebSocketResponse) -> tuple[object, str]:
    """Code and words with which the other side hangs up."""
    message = await asyncio.wait_for(websocket.receive(), 10)
    while message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.PING):
        message = await asyncio.wait_for(websocket.receive(), 10)
    return message.data, str(message.extra or "")


async def test_two_nodes_meet_and_talk() -> None:
    async with serving("bob", url="http://bob.example:1") as bob:
        alice = Site("alice", url="http://alice.example:2")
        task = await dial(alice, bob.url)
        await until(lambda: alice.met and bob.met)
        assert bob.met[0].peer == alice.links.own.public
        assert (bob.met[0].url, bob.met[0].is_dialled) == ("http://alice.example:2", False)
        assert (alice.met[0].url, alice.met[0].said_url) == (bob.url, "http://bob.example:1")
        for number in range(3):
            assert alice.met[0].send(bytes([number]) * 100)
        await bob.met[0].deliver(b"x" * MAX_FRAME)
        await until(lambda: len(bob.frames) == 3 and len(alice.frames) == 1)
        assert bob.frames == [bytes([number]) * 100 for number in range(3)]
        alice.met[0].drop("That is all.")
        await task
        await until(lambda: not bob.links.all)
        assert [error.what for error in bob.errors] == ["It refuses: That is all."]
        assert not alice.links.all


async def test_of_two_links_both_keep_the_same() -> None:
    async with serving("bob") as bob, serving("alice") as alice:
        tasks = [await dial(alice, bob.url), await dial(bob, alice.url)]
        await until(lambda: len(alice.links.all) == len(bob.links.all) == 1)
        await asyncio.sleep(0.2)
        (one,), (other,) = alice.links.all.values(), bob.links.all.values()
        assert one.is_dialled != other.is_dialled
        one.send(b"still here")
        await until(lambda: bob.frames == [b"still here"])
        alice.links.drop_all()
        await asyncio.gather(*tasks)


async def test_a_peer_that_comes_again_replaces_itself() -> None:
    async with serving("bob") as bob:
        eve = make_identity("eve")
        async with peer(bob.url, eve) as first:
            await until(lambda: len(bob.met) == 1)
            async with peer(bob.url, eve) as second:
                await until(lambda: len(bob.met) == 2)
                assert (await reason_of(first))[0] == 1001
                await second.send_bytes(b"hello")
                await until(lambda: bob.frames == [b"hello"])


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"", "bytes"),
        (b"garbage" * 20, ""),
        (bytes(2000), "at most 1024 bytes"),
        (Dialler(make_identity("eve", network=bytes(32)), Random(), allow).greet(), "network 0x00000000"),
        (Dialler(make_identity("bob"), Random(), allow).greet(), "this node itself"),
    ],
    ids=["empty", "garbage", "long", "network", "self"],
)
async def test_a_stranger_is_told_why_it_is_refused(first: bytes, words: str) -> None:
    async with serving("bob") as bob, stranger(bob.url) as websocket:
        await websocket.send_bytes(first)
        code, reason = await reason_of(websocket)
        assert code == REFUSED
        assert words in reason
        assert not bob.met


async def test_a_stranger_without_the_key_is_refused() -> None:
    async with serving("bob") as bob, stranger(bob.url) as websocket:
        await websocket.send_bytes(Dialler(make_identity("eve"), Random(), allow).greet())
        await websocket.receive_bytes()
        await websocket.send_bytes(bytes(64))
        assert (await reason_of(websocket))[0] == REFUSED
        assert not bob.met


async def test_a_whole_handshake_that_is_replayed_is_refused() -> None:
    eve = make_identity("eve")
    async with serving("bob") as bob:
        async with stranger(bob.url) as websocket:
            dialler = Dialler(eve, Random(), allow)
            await websocket.send_bytes(dialler.greet())
            _, signature = dialler.on_welcome(await websocket.receive_bytes())
            await websocket.send_bytes(signature)
            await until(lambda: len(bob.met) == 1)
        async with stranger(bob.url) as websocket:
            await websocket.send_bytes(dialler.greet())
            await websocket.receive_bytes()
            await websocket.send_bytes(signature)
            assert "does not prove" in (await reason_of(websocket))[1]
        assert len(bob.met) == 1


async def test_handshakes_that_never_end_are_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "HANDSHAKE_SECONDS", 1.0)
    async with serving("bob") as bob, aiohttp.ClientSession() as session:
        held = [
            await session.ws_connect(f"{bob.url}{PATH}", autoping=False)
            for _ in range(MAX_STRANGERS_PER_ADDRESS)
        ]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{bob.url}{PATH}")
        assert refused.value.status == 503
        for websocket in held:
            assert "did not introduce itself" in (await reason_of(websocket))[1]
        await until(lambda: not bob.links.strangers)
        async with peer(bob.url, make_identity("eve")):  # there is room again
            await until(lambda: len(bob.met) == 1)


async def test_places_are_bounded_and_some_are_kept_for_own_peers() -> None:
    async with serving("bob", most=4) as bob, AsyncExitStack() as stack:
        for name in ("c", "d", "e"):
            await stack.enter_async_context(peer(bob.url, make_identity(name)))
        await until(lambda: len(bob.links.all) == 3)
        async with stranger(bob.url) as websocket:
            await websocket.send_bytes(Dialler(make_identity("f"), Random(), allow).greet())
            assert "places are taken: 3 peers" in (await reason_of(websocket))[1]
        async with serving("g") as other:
            task = await dial(bob, other.url)
            await until(lambda: len(bob.links.all) == 4)
            bob.links.drop_all()
            await task


async def test_one_address_takes_only_some_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "MAX_PEERS_PER_ADDRESS", 2)
    async with serving("bob", most=100) as bob, AsyncExitStack() as stack:
        for name in ("c", "d"):
            await stack.enter_async_context(peer(bob.url, make_identity(name)))
        await until(lambda: len(bob.links.all) == 2)
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await stack.enter_async_context(peer(bob.url, make_identity("e")))


async def test_who_is_banned_is_told_for_how_long() -> None:
    eve = make_identity("eve")

    def refuse(identity: bytes, url: str) -> str:
        return "It banned you for 60 s more." if identity == eve.public else ""

    async with serving("bob", refuse=refuse) as bob, stranger(bob.url) as websocket:
        await websocket.send_bytes(Dialler(eve, Random(), allow).greet())
        assert await reason_of(websocket) == (REFUSED, "It banned you for 60 s more.")


async def test_a_dialler_hears_why_it_is_refused() -> None:
    async with serving("bob", refuse=lambda *_: "Not you.") as bob:
        task = await dial(Site("alice"), bob.url)
        with pytest.raises(RefusedPeer, match="It refuses: Not you"):
            await task


async def test_a_dialler_refuses_too() -> None:
    async with serving("bob") as bob:
        task = await dial(Site("alice", refuse=lambda *_: "Banned."), bob.url)
        with pytest.raises(RefusedPeer, match="Banned"):
            await task


async def test_nobody_there() -> None:
    task = await dial(Site("alice"), "http://127.0.0.1:1")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await task


async def test_a_server_that_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "HANDSHAKE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it takes connections, and says nothing
        task = await dial(Site("alice"), f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(Unavailable, match="did not introduce"):
            await task


async def test_a_redirect_leads_nowhere() -> None:
    async def redirect(_: aiohttp.web.Request) -> aiohttp.web.Response:
        raise aiohttp.web.HTTPFound("http://169.254.169.254/")

    app = aiohttp.web.Application()
    app.router.add_get(PATH, redirect)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
    task = await dial(Site("alice"), f"http://127.0.0.1:{runner.addresses[0][1]}")
    with pytest.raises(RefusedPeer, match="redirect"):
        await task
    await runner.cleanup()


async def test_a_plain_request_is_told_what_this_is() -> None:
    async with serving("bob") as bob, aiohttp.ClientSession() as session:
        async with session.get(f"{bob.url}{PATH}") as answer:
            assert "by websocket" in await answer.text()
        assert not bob.links.strangers


# After the handshake


async def pings(websocket: aiohttp.ClientWebSocketResponse) -> None:
    """More than anybody needs."""
    for _ in range(MAX_PINGS + 1):
        await websocket.ping()


@pytest.mark.parametrize(
    "harm",
    [
        lambda websocket: websocket.send_bytes(bytes(MAX_FRAME + 1)),
        lambda websocket: websocket.send_str("text"),
        pings,
    ],
    ids=["oversized", "text", "pings"],
)
async def test_a_peer_that_sends_no_frames_is_cut_off(harm) -> None:  # type: ignore[no-untyped-def]
    async with serving("bob") as bob, peer(bob.url, make_identity("eve")) as websocket:
        with suppress(ConnectionError):
            await harm(websocket)
        await until(lambda: bool(bob.errors))
        assert isinstance(bob.errors[0], MalformedAnswer)
        assert not bob.links.all


async def test_a_peer_that_falls_silent_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "IDLE_SECONDS", 0.2)
    async with serving("bob") as bob, peer(bob.url, make_identity("eve")):
        await until(lambda: bool(bob.errors))
        assert "has said nothing" in bob.errors[0].what


async def test_a_peer_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "WRITE_SECONDS", 0.3)
    async with serving("bob") as bob, peer(bob.url, make_identity("eve")):
        await until(lambda: len(bob.met) == 1)
        (link,) = bob.met

        def is_cut_off() -> bool:
            link.send(bytes(MAX_FRAME))  # sockets take some themselves, before the queue fills
            assert link.queued_bytes <= link_module.MAX_QUEUED_BYTES
            return bool(bob.errors)

        await until(is_cut_off, 10)
        assert "does not read" in bob.errors[0].what


async def test_what_waits_for_a_peer_is_bounded() -> None:
    async with serving("bob") as bob, peer(bob.url, make_identity("eve")):
        await until(lambda: len(bob.met) == 1)
        (link,) = bob.met
        assert sum(link.send(b"x") for _ in range(2 * MAX_QUEUED)) == MAX_QUEUED
        await asyncio.wait_for(link.deliver(b"y"), 5)  # waits for room


async def test_a_pushed_frame_goes_to_a_peer_once() -> None:
    async with serving("bob") as bob, peer(bob.url, make_identity("eve")):
        await until(lambda: len(bob.met) == 1)
        (link,) = bob.met
        assert link.note(b"1")
        assert not link.note(b"1")
        for number in range(2 * MAX_KNOWN):
            link.note(number.to_bytes(8, "big"))
        assert len(link.known) == MAX_KNOWN
