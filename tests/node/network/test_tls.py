"""Who is between two nodes, with a certificate that both trust, cannot pass their handshake on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from anchor.errors import InvalidSignature, Misuse, RefusedPeer
from anchor.merkle.scope import schema_of
from anchor.node.network.handshake import NO_CERTIFICATE, Dialler, Listener, Welcome
from anchor.node.network.links import PATH
from anchor.node.server import compute_fingerprint, load_tls
from tests.node.certificates import make_certificate
from tests.node.network.test_links import until
from tests.node.network.wires import Site, allow, make_identity, serving
from tests.node.tools import Random


class Shown(NamedTuple):
    """A certificate."""

    path: Path
    tls: ssl.SSLContext
    fingerprint: bytes


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Shown, Shown]:
    """The listener's, and another one."""
    made = []
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        certificate, key = make_certificate(tmp_path / name)
        made.append(Shown(certificate, load_tls(certificate, key), compute_fingerprint(certificate)))
    assert made[0].fingerprint != made[1].fingerprint
    return made[0], made[1]


def trusting(*shown: Shown) -> aiohttp.ClientSession:
    """A session of someone whose system trusts all these certificates."""
    context = ssl.create_default_context()
    for one in shown:
        context.load_verify_locations(one.path)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


@asynccontextmanager
async def relaying(url: str, session: aiohttp.ClientSession, tls: ssl.SSLContext) -> AsyncIterator[str]:
    """Someone in between, who passes every message on."""

    async def answer(request: web.Request) -> web.StreamResponse:
        near = web.WebSocketResponse()
        await near.prepare(request)
        async with session.ws_connect(f"{url}{PATH}") as far:
            await asyncio.wait([asyncio.create_task(pump(near, far)), asyncio.create_task(pump(far, near))])
        return near

    app = web.Application()
    app.router.add_get(PATH, answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def pump(source: Any, sink: Any) -> None:
    """Passes on what comes."""
    async for message in source:
        if message.type is aiohttp.WSMsgType.BINARY:
            await sink.send_bytes(message.data)
    await sink.close()


async def test_nodes_meet_over_tls(certificates: tuple[Shown, Shown]) -> None:
    own, _ = certificates
    async with serving("bob", own.tls, certificate=own.fingerprint) as bob, trusting(own) as session:
        alice = Site("alice")
        task = asyncio.create_task(alice.links.dial(session, bob.url, alice.converse))
        await until(lambda: alice.met and bob.met)
        alice.met[0].drop()
        await task


async def test_who_is_in_between_is_found_out(certificates: tuple[Shown, Shown]) -> None:
    own, other = certificates
    alice = Site("alice")
    async with (
        serving("bob", own.tls, certificate=own.fingerprint) as bob,
        trusting(own, other) as session,
        relaying(bob.url, session, other.tls) as url,
    ):
        with pytest.raises(RefusedPeer, match="Someone is in between"):
            await alice.links.dial(session, url, alice.converse)
        await until(lambda: not bob.links.strangers)
        assert not alice.met
        assert not bob.met


async def test_without_its_word_a_server_in_front_passes_it_on(certificates: tuple[Shown, Shown]) -> None:
    """The relay works, but for what the listener says; and that is how a proxy of its operator's is used."""
    own, other = certificates
    alice = Site("alice")
    async with (
        serving("bob", own.tls) as bob,
        trusting(own, other) as session,
        relaying(bob.url, session, other.tls) as url,
    ):
        task = asyncio.create_task(alice.links.dial(session, url, alice.converse))
        await until(lambda: alice.met and bob.met)
        alice.met[0].drop()
        await task


def test_the_word_of_a_listener_cannot_be_changed() -> None:
    own, other = bytes([1]) * 32, bytes([2]) * 32
    bob = make_identity("bob", certificate=own)
    for said in (other, NO_CERTIFICATE):
        dialler = Dialler(make_identity("alice"), Random(b"a"), allow, other)
        welcome = schema_of(Welcome).decode(Listener(bob, Random(b"b"), allow).on_hello(dialler.greet()))
        forged = welcome.replace(hello=welcome.hello.replace(certificate=said))
        with pytest.raises(InvalidSignature):
            dialler.on_welcome(schema_of(Welcome).encode(forged))


@pytest.mark.parametrize("seen", (NO_CERTIFICATE, bytes([2]) * 32))
def test_what_is_seen_is_what_is_said(seen: bytes) -> None:
    bob = make_identity("bob", certificate=bytes([1]) * 32)
    dialler = Dialler(make_identity("alice"), Random(b"a"), allow, seen)
    with pytest.raises(RefusedPeer, match="Someone is in between"):
        dialler.on_welcome(Listener(bob, Random(b"b"), allow).on_hello(dialler.greet()))


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA"):
        (tmp_path / "pem").write_bytes(content)
        with pytest.raises(Misuse, match="no certificate"):
            compute_fingerprint(tmp_path / "pem")
