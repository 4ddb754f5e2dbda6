"""The one place that talks to an endpoint: bounded in bytes, in silence, in time and in redirects."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp

from anchor.chain.beacon.answers import JSON, SSZ, Answer
from anchor.chain.beacon.endpoint import Endpoint, follow_redirect
from anchor.errors import MalformedAnswer, NotServed, Unavailable

ACCEPT: Final = f"{SSZ};q=1.0,{JSON};q=0.9"
MAX_REDIRECTS: Final = 3
REDIRECTS: Final = (301, 302, 303, 307, 308)
MIB: Final = 1 << 20
SMALL: Final = MIB
"""Bytes of an answer without a state or a block."""
SMALL_FACTOR: Final = 6
"""Idle time-outs within which such an answer is whole."""
PIECE: Final = MIB
MAX_MESSAGE: Final = 200
LINE_SECONDS: Final = 0.01
"""After each line of a stream: whoever floods us waits, and takes no time of ours."""
Progress = Callable[[int, int], None]
"""Told how many bytes came, and how many are announced (0: unknown)."""


def show_nothing(done: int, total: int) -> None:
    """Progress for nobody."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. A slow download may take long, as long as something comes."""

    idle: float = 20.0
    """Without a byte."""
    total: float = 1800.0
    """For one answer."""


class Client:
    """Asks one endpoint."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: Endpoint, timeouts: Timeouts) -> None:
        self.endpoint, self._session, self._timeouts = endpoint, session, timeouts

    @property
    def label(self) -> str:
        """The endpoint, as it may be shown."""
        return self.endpoint.label

    async def get(
        self,
        what: str,
        path: str,
        *,
        accept: str = JSON,
        limit: int = SMALL,
        progress: Progress = show_nothing,
    ) -> Answer:
        """The answer to a request for `what`, in words, at `path`.

        Raises NotServed for another status than 200, MalformedAnswer for what breaks a bound or HTTP itself,
        Unavailable where no answer came in time.
        """
        named, seconds = f"{self.label}, {what}", self._timeouts.total
        if limit <= SMALL:
            seconds = min(seconds, SMALL_FACTOR * self._timeouts.idle)
        try:
            async with asyncio.timeout(seconds), self._request(path, accept) as response:
                body = await _read(response, named, limit, progress)
        except TimeoutError as error:
            raise self._too_slow(named, seconds, error) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # of a host's name, too
            raise Unavailable(f"{named}: {_explain(error)}.", fix="Use another endpoint.") from None
        if response.status != 200:
            raise NotServed(
                f"{named}: HTTP {response.status}{_get_message(body)}.",
                status=response.status,
                fix="Use another endpoint.",
            )
        version = response.headers.get("Eth-Consensus-Version", "").lower()
        return Answer(named, body, response.content_type if body else "", version)

    @asynccontextmanager
    async def _request(self, path: str, accept: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer's head, after redirects."""
        url, own = self.endpoint.join(path), True
        for _ in range(MAX_REDIRECTS + 1):
            headers = {"Accept": accept, "Accept-Encoding": "identity"}
            if own:
                headers |= self.endpoint.get_authorization()
            async with self._session.get(
                url, headers=headers, allow_redirects=False, timeout=self._get_timeout()
            ) as response:
                if response.status not in REDIRECTS:
                    yield response
                    return
                location = response.headers.get("Location", "")
            url, own = follow_redirect(self.endpoint, url, location)
        raise MalformedAnswer(f"{self.label} redirects more than {MAX_REDIRECTS} times.")

    async def read_lines(self, path: str) -> AsyncIterator[str]:
        """The lines of a stream that has no end; silence ends it, like a fault. Raises AnchorError."""
        try:
            async with self._request(path, "text/event-stream") as response:
                if response.status != 200 or response.content_type != "text/event-stream":
                    raise NotServed(f"{self.label} has no stream of events.", status=response.status)
                async for line in response.content:
                    yield line.decode("utf-8", "replace").rstrip("\r\n")
                    await asyncio.sleep(LINE_SECONDS)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unavailable(f"{self.label}, events: {_explain(error)}.") from None

    def _get_timeout(self) -> aiohttp.ClientTimeout:
        idle = self._timeouts.idle
        return aiohttp.ClientTimeout(total=None, connect=idle, sock_connect=idle, sock_read=idle)

    def _too_slow(self, named: str, seconds: float, error: TimeoutError) -> Unavailable:
        if isinstance(error, aiohttp.ServerTimeoutError):
            return Unavailable(
                f"{named}: nothing came for {self._timeouts.idle:g} seconds.",
                fix="Use another endpoint, or allow more with --idle-timeout.",
            )
        return Unavailable(
            f"{named}: the answer was not whole after {seconds:g} seconds.",
            fix="Use another endpoint, or allow more with --timeout.",
        )


async def _read(response: aiohttp.ClientResponse, named: str, limit: int, progress: Progress) -> bytes:
    """A body of at most `limit` bytes, and of the length that was announced."""
    if response.status != 200:
        return await response.content.read(8 * MAX_MESSAGE)
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise MalformedAnswer(
            f"{named}: the answer is encoded as {encoding[:40]!r}, which was not asked for."
        )
    announced = response.content_length or 0
    if announced > limit:
        raise MalformedAnswer(f"{named}: {announced} bytes are announced, and {limit} are the most.")
    body = bytearray()
    async for piece in response.content.iter_chunked(PIECE):
        body += piece
        progress(len(body), announced)
        if len(body) > limit:
            raise MalformedAnswer(f"{named}: more than {limit} bytes came, which are the most.")
    if announced and len(body) != announced:
        raise MalformedAnswer(f"{named}: {len(body)} bytes came, and {announced} were announced.")
    return bytes(body)


def _explain(error: Exception) -> str:
    """What happened, without an address in it."""
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer was cut"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed without an answer"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its certificate is not accepted"
    if isinstance(error, aiohttp.ClientResponseError):
        return "the answer is not HTTP"
    if isinstance(error, OSError) and error.strerror:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror  # a resolver has numbers of its own
        return f"no connection ({reason.lower()})"
    return f"no answer ({type(error).__name__})"


def _get_message(body: bytes) -> str:
    """What an answer with an error says, in quotes."""
    try:
        message = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f", {str(message)[:MAX_MESSAGE]!r}"


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """A session that keeps no cookies, reads no environment and unpacks nothing."""
    async with aiohttp.ClientSession(
        auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    ) as session:
        yield session
