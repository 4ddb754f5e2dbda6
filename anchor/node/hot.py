"""Answers that are sent again without a look at the request: its head is, byte for byte, one answered before.

Parsing a request and building an answer costs Python several times what sending it does. So a connection
begins here. Whatever is not exactly one known head (another header, two requests at once, a part of one) goes
to the server proper, and the connection stays there: nothing here ever has to understand HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import Final, cast

from aiohttp import HttpVersion11, web

from anchor.node.cache import AnswerCache, Encoded
from anchor.node.connections import KEEPALIVE_SECONDS, Connection, Doors
from anchor.node.limits import Buckets, group_address
from anchor.node.metrics import RequestCounter

MAX_HEAD: Final = 2048
"""Bytes of a head that is remembered."""
MAX_HOT: Final = 1 << 16
"""Bytes of an answer that is: what a slow reader may hold."""
HOT_BYTES: Final = 32 << 20
PLAIN_FIELDS: Final = frozenset({b"host", b"user-agent", b"accept", b"accept-encoding", b"accept-language"})
"""Fields of a request that ask for nothing but a form of the answer."""


@dataclass(frozen=True, slots=True)
class HotAnswer:
    """An answer's head up to its date, and its body."""

    head: bytes
    body: bytes
    route: str
    generation: int | None

    @property
    def size(self) -> int:
        """Bytes that it holds; its key counts too."""
        return len(self.head) + len(self.body) + MAX_HEAD


@dataclass(slots=True)
class HotAnswers:
    """The answers of a node that are asked for again and again."""

    get_generation: Callable[[], int]
    buckets: Buckets
    counter: RequestCounter
    answers: AnswerCache[HotAnswer]

    def find(self, head: bytes, address: str, now: float) -> HotAnswer | None:
        """The answer to exactly this head, charged to `address`; None where the server must look at it."""
        answer = self.answers.get(head, self.get_generation())
        if answer is None or self.buckets.take(address, 1, now):
            return None
        self.counter.add("GET", answer.route, 200, 0.0)
        return answer

    def remember(self, request: web.Request, encoded: Encoded, fields: dict[str, str], route: str) -> None:
        """Keeps an answer, with further header `fields`, if the same request gets the same again."""
        names = {name.lower() for name, _ in request.raw_headers}
        is_plain = names <= PLAIN_FIELDS and len(names) == len(request.raw_headers)
        if not is_plain or request.version != HttpVersion11 or request.method != "GET":
            return
        head = _write_request(request)
        if len(head) > MAX_HEAD or len(encoded.body) > MAX_HOT or encoded.status != 200:
            return
        lines = [f"{name}: {value}\r\n" for name, value in (fields | encoded.headers).items()]
        start = f"HTTP/1.1 200 OK\r\n{''.join(lines)}Content-Length: {len(encoded.body)}\r\nDate: "
        self.answers.put(head, HotAnswer(start.encode(), encoded.body, route, encoded.generation))


def _write_request(request: web.Request) -> bytes:
    """The request's head as nearly all clients write it; all others are answered as before."""
    fields = [b"%b: %b\r\n" % field for field in request.raw_headers]
    target = request.raw_path.encode("utf-8", "surrogateescape")
    return b"GET %b HTTP/1.1\r\n%b\r\n" % (target, b"".join(fields))


class HotConnection(asyncio.Protocol):
    """A connection, as long as it sends nothing but known heads."""

    def __init__(self, server: web.Server, doors: Doors, hot: HotAnswers) -> None:
        self._server, self._doors, self._hot = server, doors, hot
        self._loop = asyncio.get_running_loop()
        self._address = ""
        self._last: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Lets it in, or turns it away."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        address = group_address(str(peer[0])) if peer else "local"
        if not self._doors.enter(address):
            self._transport.abort()
            return
        self._address = address
        self._timer = self._loop.call_later(self._doors.first_seconds, self._look)

    def data_received(self, data: bytes) -> None:
        """Answers a known head; hands everything else over, for good."""
        self._last = now = self._loop.time()
        answer = self._hot.find(data, self._address, now)
        if answer is None:
            self._hand_over(data)
        else:
            self._transport.write(
                b"%b%b\r\n\r\n%b" % (answer.head, _format_date(int(time.time())), answer.body)
            )

    def pause_writing(self) -> None:
        """Whoever does not read is not read either."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Makes room for another."""
        if self._address:
            self._doors.leave(self._address)
            self._timer.cancel()

    def _hand_over(self, data: bytes) -> None:
        self._timer.cancel()
        connection = Connection(self._server, self._doors, self._address)
        self._address = ""
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        connection.data_received(data)

    def _look(self) -> None:
        """Closes the connection when nothing came for too long."""
        if self._last is None or self._loop.time() - self._last > KEEPALIVE_SECONDS:
            self._transport.abort()
        else:
            self._timer = self._loop.call_later(KEEPALIVE_SECONDS, self._look)


@lru_cache(maxsize=1)
def _format_date(second: int) -> bytes:
    """The time for a Date field; made once a second."""
    return formatdate(second, usegmt=True).encode()
