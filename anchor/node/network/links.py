"""All connections to peers: who is let in, who is dialled, how many at most (specs/06-network §4)."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, TypeVar

from aiohttp import (
    ClientError,
    ClientSession,
    ClientWSTimeout,
    DummyCookieJar,
    TraceConfig,
    web,
)
from aiohttp.client_exceptions import WSServerHandshakeError

from anchor.errors import AnchorError, Misuse, RefusedPeer, Unavailable
from anchor.node.limits import group_address
from anchor.node.network.handshake import (
    MAX_HANDSHAKE_BYTES,
    NO_CERTIFICATE,
    Dialler,
    Hello,
    Identity,
    Listener,
    Randomness,
)
from anchor.node.network.link import CLOSE_SECONDS, Link, Socket, hang_up, read_frame
from anchor.node.network.messages import MAX_FRAME
from anchor.node.network.urls import parse_url

T = TypeVar("T")
PATH: Final = "/anchor/v1/peer"
TOO_LONG: Final = MAX_FRAME + 1
"""Bytes of a message at which aiohttp hangs up."""
HANDSHAKE_SECONDS: Final = 5.0
MAX_STRANGERS: Final = 16
"""Handshakes at once of those who dial: each may hold a frame's bytes."""
MAX_STRANGERS_PER_ADDRESS: Final = 8
MAX_PEERS_PER_ADDRESS: Final = 16
MAX_REACHED: Final = 1024
KEPT_FOR_OWN: Final = 4
"""Of so many places one is kept for peers that this node dials: strangers cannot take all."""
Converse = Callable[[Link], Awaitable[None]]
"""What is done over a link for as long as it lasts."""
Refuse = Callable[[bytes, str], str]
"""Why a peer, by its identity and the address that it gives, is refused; empty when it is not."""


class Links:
    """All peers that are connected, at most `most`. One event loop calls all of it."""

    def __init__(self, own: Identity, most: int, randomness: Randomness, refuse: Refuse) -> None:
        self.own, self._most, self._randomness, self._refuse = own, most, randomness, refuse
        self.all: dict[bytes, Link] = {}
        """By identity."""
        self.strangers: Counter[str] = Counter()
        """In a handshake now, by address."""
        self.reached: OrderedDict[str, bytes] = OrderedDict()
        """Who answered last at an address that was dialled."""

    async def accept(self, request: web.Request, converse: Converse) -> web.StreamResponse:
        """Serves a peer that dials, until the link ends.

        Raises Misuse for what is no websocket, Unavailable when there are too many already.
        """
        address = group_address(request.remote or "local")
        self._require_room(address)
        socket = web.WebSocketResponse(
            timeout=CLOSE_SECONDS, autoping=False, max_msg_size=TOO_LONG, compress=False
        )
        if not socket.can_prepare(request).ok:
            raise Misuse("Nodes connect here, by websocket.", fix="Start one with: anchor node --peer URL")
        self.strangers[address] += 1
        try:
            await socket.prepare(request)
            hello = await _within(self._receive_hello(socket))
        except AnchorError as error:
            await hang_up(socket, error.what)
            return socket
        finally:
            self.strangers -= Counter([address])
        said = _read_url(hello)
        await self._keep(Link(socket, hello.identity, said, said, address, False), converse)
        return socket

    async def dial(self, session: ClientSession, url: str, converse: Converse) -> None:
        """Connects to the node at `url`, and stays until the link ends.

        Raises Unavailable when nobody answers, RefusedPeer and other AnchorErrors where it is no peer.
        """
        socket = await _within(_connect(session, url))
        try:
            hello = await _within(self._send_hello(socket, url))
        except AnchorError as error:
            await hang_up(socket, "" if isinstance(error, Unavailable) else error.what)
            raise
        address = socket.get_extra_info("peername") or ("",)
        link = Link(socket, hello.identity, url, _read_url(hello), group_address(str(address[0])), True)
        await self._keep(link, converse)

    def drop_all(self, why: str = "") -> None:
        """Ends all links."""
        for link in self.all.values():
            link.drop(why)

    # Handshakes

    async def _receive_hello(self, socket: Socket) -> Hello:
        listener = Listener(self.own, self._randomness, self._judge_caller)
        await socket.send_bytes(listener.on_hello(await _read_message(socket)))
        return listener.on_signature(await _read_message(socket))

    async def _send_hello(self, socket: Socket, url: str) -> Hello:
        dialler = Dialler(self.own, self._randomness, self._judge, _get_certificate(socket))
        await socket.send_bytes(dialler.greet())
        hello, answer = dialler.on_welcome(await _read_message(socket))
        self._note(url, hello.identity)  # before the other side takes this link for the newer one
        await socket.send_bytes(answer)
        return hello

    def _judge(self, hello: Hello) -> None:
        why = self._refuse(hello.identity, hello.url.decode("utf-8", "replace"))
        if why:
            raise RefusedPeer(why)

    def _judge_caller(self, hello: Hello) -> None:
        self._judge(hello)
        called = [peer for peer, link in self.all.items() if not link.is_dialled]
        most = self._most - self._most // KEPT_FOR_OWN
        if hello.identity not in self.all and (len(called) >= most or len(self.all) >= self._most):
            raise RefusedPeer(f"All its places are taken: {len(self.all)} peers are connected.")

    def _require_room(self, address: str) -> None:
        if self.strangers.total() >= MAX_STRANGERS or self.strangers[address] >= MAX_STRANGERS_PER_ADDRESS:
            raise Unavailable("Too many introduce themselves now.", fix="Try again in a few seconds.")
        if sum(link.address == address for link in self.all.values()) >= MAX_PEERS_PER_ADDRESS:
            raise Unavailable(f"{MAX_PEERS_PER_ADDRESS} peers are connected from this address already.")

    # Links

    def _note(self, url: str, peer: bytes) -> None:
        """Remembers who answered at an address. Raises RefusedPeer for one that was dialled elsewhere."""
        self.reached[url] = peer
        if len(self.reached) > MAX_REACHED:
            self.reached.popitem(last=False)
        if peer in self.all and self.all[peer].is_dialled:
            raise RefusedPeer("It is connected already, under another address.")

    async def _keep(self, link: Link, converse: Converse) -> None:
        """One link to a peer: of two that were opened from both sides, both nodes keep the same."""
        known = self.all.get(link.peer)
        if known is not None and known.is_dialled != link.is_dialled and self._is_first(known):
            await hang_up(link.socket)
            return
        if known is not None:
            known.drop()
        self.all[link.peer] = link
        try:
            await converse(link)
        finally:
            if self.all.get(link.peer) is link:
                del self.all[link.peer]
            await hang_up(link.socket, link.why)

    def _is_first(self, link: Link) -> bool:
        """Whether the side with the smaller identity opened it."""
        return link.is_dialled == (self.own.public < link.peer)


def make_session() -> ClientSession:
    """A session for dialling: no cookies, no proxies of the environment, no redirects."""

    async def refuse(*_: Any) -> None:
        raise RefusedPeer("It leads elsewhere (a redirect).")

    trace = TraceConfig()
    trace.on_request_redirect.append(refuse)
    return ClientSession(cookie_jar=DummyCookieJar(), trust_env=False, trace_configs=[trace])


async def _connect(session: ClientSession, url: str) -> Socket:
    try:
        return await session.ws_connect(
            f"{url}{PATH}",
            autoping=False,
            max_msg_size=TOO_LONG,
            timeout=ClientWSTimeout(ws_close=CLOSE_SECONDS),
        )
    except WSServerHandshakeError as error:
        raise Unavailable(f"It does not take peers now (HTTP {error.status}).") from None
    except (ClientError, OSError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else type(error).__name__
        raise Unavailable(f"It cannot be reached: {reason.lower()}.") from None


async def _within(step: Awaitable[T]) -> T:
    """What a step of a handshake gives. Raises Unavailable when it takes too long, or the connection ends."""
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            return await step
    except TimeoutError:
        raise Unavailable(f"It did not introduce itself within {HANDSHAKE_SECONDS:.0f} s.") from None
    except (OSError, ClientError):
        raise Unavailable("The connection broke.") from None


async def _read_message(socket: Socket) -> bytes:
    data = await read_frame(socket, HANDSHAKE_SECONDS)
    if data is None:
        raise Unavailable("It hung up in the middle of the handshake.")
    if len(data) > MAX_HANDSHAKE_BYTES:
        raise RefusedPeer(f"A message of the handshake has at most {MAX_HANDSHAKE_BYTES} bytes.")
    return data


def _get_certificate(socket: Socket) -> bytes:
    """SHA-256 of the certificate that the other side showed; NO_CERTIFICATE without TLS."""
    tls = socket.get_extra_info("ssl_object")
    return NO_CERTIFICATE if tls is None else sha256(tls.getpeercert(binary_form=True)).digest()


def _read_url(hello: Hello) -> str:
    """Where a peer says that it can be reached; empty for what is no address."""
    with suppress(Misuse):
        return parse_url(hello.url.decode("utf-8", "replace"))
    return ""
