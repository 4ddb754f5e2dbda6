"""From a request to an answer, one way for all: access, form, allowance, values, handler, encoding, cache."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar

from aiohttp import web

from anchor.node.api.failures import Refused
from anchor.node.api.negotiation import accepts_gzip, choose_media
from anchor.node.api.requests import read_body, read_values
from anchor.node.api.routes import JSON, OPERATOR, SSZ, Reply, Route
from anchor.node.api.sending import OnlySSZ, encode, send
from anchor.node.cache import AnswerCache, Encoded
from anchor.node.events import Bus
from anchor.node.hot import HotAnswers
from anchor.node.limits import Buckets
from anchor.node.metrics import RequestCounter
from anchor.node.operators import Operators

P = ParamSpec("P")
T = TypeVar("T")
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Of every answer that has not its own."""
UPLOAD_FROM: Final = 1 << 20
MAX_UPLOADS: Final = 2
"""Bodies that may be longer than UPLOAD_FROM, and are read at the same time."""


class Answerer(Protocol):
    """What answering needs of a node."""

    @property
    def events(self) -> Bus:
        """What happens to its chain."""

    @property
    def generation(self) -> int:
        """Grows whenever answers may change."""

    def hang_up(self) -> None:
        """Ends what would otherwise last as long as whoever listens."""

    async def compute(self, method: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """What a function of values gives, off the event loop."""


N = TypeVar("N", bound=Answerer)


@dataclass(slots=True)
class Front(Generic[N]):
    """What answering needs beside the node."""

    node: N
    operators: Operators
    buckets: Buckets
    cache: AnswerCache[Encoded]
    hot: HotAnswers
    counter: RequestCounter
    flights: dict[Any, asyncio.Task[Encoded]] = field(default_factory=dict)
    """Answers that are being made: whoever asks for the same waits for it."""
    uploads: int = 0
    now: Callable[[], float] = time.monotonic

    def charge(self, request: web.BaseRequest, cost: float) -> None:
        """Takes from the asker's allowance. Raises Refused when it is used up."""
        wait = self.buckets.take(request.remote or "", cost, self.now())
        if wait:
            seconds = str(int(wait) + 1)
            raise Refused(
                429,
                "Too many requests from your address.",
                fix=f"Wait {seconds} s.",
                headers={"Retry-After": seconds},
            )


def make_endpoint(front: Front[Any], route: Route) -> Callable[[web.Request], Any]:
    """The function that answers requests for `route`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        require_access(front, route.access, request)
        media = _choose(request, route.offers)
        if route.method == "GET" and not route.is_live:
            try:
                return await _answer_question(front, route, request, media)
            except OnlySSZ:
                return await _answer_question(front, route, request, _choose(request, (SSZ,)))
        front.charge(request, route.cost)
        return await send(request, await _do(front, route, request))

    return answer


def _choose(request: web.Request, offers: tuple[str, ...]) -> str:
    """The form that the request likes best. Raises Refused where it takes none of them."""
    media = choose_media(request.headers.get("Accept", ""), offers)
    if media is None:
        raise Refused(406, f"This can be had as {' or '.join(offers)}.", fix="Set Accept.")
    return media


def require_access(front: Front[Any], access: str, request: web.Request) -> None:
    """Raises Refused unless whoever asks may."""
    if access == OPERATOR and not front.operators.accept(request.headers.get("Authorization", "")):
        raise Refused(
            401,
            "Only this node's operators may do that.",
            fix="Send an operator's token: Authorization: Bearer TOKEN.",
            headers={"WWW-Authenticate": "Bearer"},
        )


async def _do(front: Front[Any], route: Route, request: web.Request) -> Encoded:
    """Answers a request that changes something. Long bodies are read a few at a time."""
    values = read_values(route, request)
    is_upload = route.body is not None and route.body.limit > UPLOAD_FROM
    if is_upload and front.uploads >= MAX_UPLOADS:
        raise Refused(503, "The node takes other long bodies now.", fix="Try again in a while.")
    front.uploads += is_upload
    try:
        if route.body is not None:
            values["body"] = await read_body(route.body, request)
        reply = await route.handler(front.node, **values)
    finally:
        front.uploads -= is_upload
    return encode(reply, JSON, False, None)


async def _answer_question(
    front: Front[Any], route: Route, request: web.Request, media: str
) -> web.StreamResponse:
    """Answers from the cache, or makes the answer once for all who ask."""
    packs = media == JSON or route.is_bulk
    zipped = packs and accepts_gzip(request.headers.get("Accept-Encoding", ""))
    key = (request.rel_url.raw_path_qs, media, zipped)
    encoded = front.cache.get(key, front.node.generation)
    if encoded is None:
        if key not in front.flights:
            front.charge(request, route.cost)
            values = read_values(route, request)
            task = asyncio.create_task(_make(front, route, values, media, zipped))
            front.flights[key] = task
            task.add_done_callback(lambda done: _land(front, key, done))
        encoded = await asyncio.shield(front.flights[key])
    else:
        front.hot.remember(request, encoded, HEADERS, route.path)
    return await send(request, encoded)


async def _make(front: Front[Any], route: Route, values: dict[str, Any], media: str, zipped: bool) -> Encoded:
    generation = front.node.generation
    reply: Reply = await route.handler(front.node, **values)
    encoded: Encoded = await front.node.compute(encode, reply, media, zipped, generation)
    return encoded


def _land(front: Front[Any], key: Any, done: asyncio.Task[Encoded]) -> None:
    front.flights.pop(key)
    if not done.cancelled() and done.exception() is None:
        front.cache.put(key, done.result())
