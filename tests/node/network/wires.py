"""Identities, and peers on loopback that say what a test wants."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from anchor.consensus.schemes import SigningKey
from anchor.errors import AnchorError
from anchor.node.network.handshake import NO_CERTIFICATE, Dialler, Identity
from anchor.node.network.link import Link
from anchor.node.network.links import PATH, Links
from anchor.params import SCHEME_ED25519
from tests.node.tools import Random

NETWORK = bytes(range(32))
VERSION = b"\x12\x34\x56\x78"


def make_identity(
    name: str, network: bytes = NETWORK, url: str = "", certificate: bytes = NO_CERTIFICATE
) -> Identity:
    """A node, the same for the same name."""
    key = SigningKey(SCHEME_ED25519, name.encode().ljust(32, b"\0"))
    return Identity(key, network, VERSION, url, certificate)


def allow(*_: object) -> None:
    """Judges nobody."""


def allow_all(*_: object) -> str:
    """Refuses nobody."""
    return ""


class Site:
    """A node of nothing but links: it notes what it is sent."""

    def __init__(  # type: ignore[no-untyped-def]
        self,
        name: str,
        *,
        most: int = 8,
        refuse=allow_all,
        url: str = "",
        certificate: bytes = NO_CERTIFICATE,
    ) -> None:
        identity = make_identity(name, url=url, certificate=certificate)
        self.links = Links(identity, most, Random(name.encode()), refuse)
        self.frames: list[bytes] = []
        self.met: list[Link] = []
        self.errors: list[AnchorError] = []
        self.url = ""

    async def converse(self, link: Link) -> None:
        """Notes every frame."""

        async def on_frame(frame: bytes) -> None:
            self.frames.append(frame)

        self.met.append(link)
        try:
            await link.talk(on_frame)
        except AnchorError as error:
            self.errors.append(error)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The route."""
        try:
            return await self.links.accept(request, self.converse)
        except AnchorError as error:
            self.errors.append(error)
            return web.Response(status=503, text=error.what)


@asynccontextmanager
async def serving(name: str, tls: ssl.SSLContext | None = None, **options: object) -> AsyncIterator[Site]:
    """A site on loopback."""
    site = Site(name, **options)  # type: ignore[arg-type]
    app = web.Application()
    app.router.add_get(PATH, site.answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    site.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield site
    finally:
        site.links.drop_all()
        await runner.cleanup()


@asynccontextmanager
async def stranger(url: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A websocket over which nothing was said yet."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}{PATH}", autoping=False, max_msg_size=0) as socket,
    ):
        yield socket


@asynccontextmanager
async def peer(url: str, identity: Identity) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A websocket after a handshake."""
    async with stranger(url) as socket:
        dialler = Dialler(identity, Random(identity.public), allow)
        await socket.send_bytes(dialler.greet())
        _, answer = dialler.on_welcome(await socket.receive_bytes())
        await socket.send_bytes(answer)
        yield socket
