"""The application: routes, and what holds for all of them (allowance, failures, headers, counting)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from anchor.errors import AnchorError, CorruptedLedger
from anchor.node.api.answering import HEADERS, Answerer, Front, make_endpoint
from anchor.node.api.failures import show_failure, show_http_failure
from anchor.node.api.listening import EVENTS
from anchor.node.api.openapi import (
    BEACON_RAW_ROUTES,
    BEACON_ROUTES,
    PEER,
    RAW_ROUTES,
    ROUTES,
    build_document,
)
from anchor.node.api.operations import RawRoute, require_no_query
from anchor.node.api.routes import JSON, Reply, Route
from anchor.node.api.sending import FOR_NOW, encode, send
from anchor.node.cache import AnswerCache, Encoded
from anchor.node.connections import Connection
from anchor.node.hot import HOT_BYTES, HotAnswers
from anchor.node.limits import Buckets
from anchor.node.logs import warn
from anchor.node.metrics import RequestCounter
from anchor.node.node import Node
from anchor.node.operators import Operators
from anchor.node.reading import Reader
from anchor.node.synced import SyncedNode
from anchor.node.web.page import NEWEST, POLICY, render_page

N = TypeVar("N", bound=Answerer)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BURST_SECONDS: Final = 5.0
"""Of its rate that an address can save up."""
CACHE_BYTES: Final = 64 << 20


def build_front(node: N, operators: Operators, *, rate: float) -> Front[N]:
    """All that answering needs; an address gets `rate` tokens a second (0: no limit)."""
    buckets, counter = Buckets(rate, rate * BURST_SECONDS), RequestCounter()
    hot = HotAnswers(lambda: node.generation, buckets, counter, AnswerCache(HOT_BYTES))
    return Front(node, operators, buckets, AnswerCache(CACHE_BYTES), hot, counter)


def build_app(front: Front[Node]) -> web.Application:
    """The application over a ledger's node that runs."""
    app = _build(front, ROUTES, RAW_ROUTES)
    app.router.add_get(PEER, _make_peering(front), allow_head=False)
    app.router.add_get("/", _make_page(front))
    app.router.add_get("/openapi.json", _make_document())
    return app


def build_beacon_app(front: Front[SyncedNode]) -> web.Application:
    """The application over what was synced."""
    return _build(front, BEACON_ROUTES, BEACON_RAW_ROUTES)


def _build(front: Front[Any], routes: Sequence[Route], raw_routes: Sequence[RawRoute]) -> web.Application:
    app = web.Application(middlewares=[_make_middleware(front)])
    for route in routes:
        app.router.add_route(route.method, route.path, make_endpoint(front, route))
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, make_endpoint(front, route))
    for raw in raw_routes:
        app.router.add_get(raw.path, _make_raw(front, raw), allow_head=raw.media != EVENTS)
    return app


def _make_middleware(front: Front[Any]) -> Middleware:
    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        start = front.now()
        if isinstance(request.protocol, Connection):
            request.protocol.greet()
        try:
            front.charge(request, 1)
            response = await handler(request)
        except AnchorError as error:
            if isinstance(error, CorruptedLedger):
                warn(f"{error.what} {error.fix}", path=request.path)
            response = show_failure(error, request.path)
        except web.HTTPException as error:
            response = show_http_failure(error, request.path)
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        resource = request.match_info.route.resource
        name = resource.canonical if resource else "unknown"
        front.counter.add(request.method if resource else "any", name, response.status, front.now() - start)
        return response

    return answer


def _make_raw(front: Front[Any], route: RawRoute) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        require_no_query(route, request)
        return await route.handler(front, request)

    return answer


def _make_peering(front: Front[Node]) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await front.node.network.accept(request)

    return answer


def _make_page(front: Front[Node]) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        newest = await front.node.read(Reader.list_newest, NEWEST)
        html = render_page(front.node.status, front.node.judge_health(), newest)
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": POLICY,
            "Cache-Control": FOR_NOW,
        }
        return await send(request, Encoded(html.encode(), headers))

    return answer


def _make_document() -> Handler:
    encoded = encode(Reply(), JSON, False, 0)
    body = json.dumps(build_document(), separators=(",", ":")).encode()
    document = Encoded(body, {"Content-Type": JSON, "Cache-Control": encoded.headers["Cache-Control"]})

    async def answer(request: web.Request) -> web.StreamResponse:
        return await send(request, document)

    return answer
