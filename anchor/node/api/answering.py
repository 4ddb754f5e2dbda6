"""From a request to an answer, one way for all: access, form, allowance, values, handler, encoding, cache."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from aiohttp import web

from anchor.merkle.json import to_json
from anchor.node.api.failures import Refused
from anchor.node.api.negotiation import accepts_gzip, choose_media, has_current
from anchor.node.api.requests import read_body, read_values
from anchor.node.api.routes import JSON, OPERATOR, SSZ, Reply, Route
from anchor.node.cache import AnswerCache, Encoded
from anchor.node.hot import HotAnswers
from anchor.node.limits import Buckets
from anchor.node.metrics import RequestCounter
from anchor.node.node import Node
from anchor.node.operators import Operators

GZIP_FROM: Final = 1024
"""Bytes of JSON below which compressing gains nothing."""
WRITE_AT_ONCE: Final = 1 << 16
"""Bytes that are handed to the connection before it must have sent them: a slow reader holds no more."""
WRITE_SECONDS: Final = 20.0
"""In which each such part must have been sent."""
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Of every answer that has not its own."""
FOR_GOOD: Final = "public, max-age=31536000, immutable"
FOR_NOW: Final = "public, no-cache"
UPLOAD_FROM: Final = 1 << 20
MAX_UPLOADS: Final = 2
"""Bodies that may be longer than UPLOAD_FROM, and are read at the same time."""


@dataclass(slots=True)
class Front:
    """What answering needs beside the node."""

    node: Node
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


def make_endpoint(front: Front, route: Route) -> Callable[[web.Request], Any]:
    """The function that answers requests for `route`."""
    offers = (JSON, SSZ) if route.has_ssz else (JSON,)

    async def answer(request: web.Request) -> web.StreamResponse:
        require_access(front, route.access, request)
        media = choose_media(request.headers.get("Accept", ""), offers)
        if media is None:
            raise Refused(406, f"This can be had as {' or '.join(offers)}.", fix="Set Accept.")
        if route.method == "GET" and not route.is_live:
            return await _answer_question(front, route, request, media)
        front.charge(request, route.cost)
        return await send(request, await _do(front, route, request))

    return answer


def require_access(front: Front, access: str, request: web.Request) -> None:
    """Raises Refused unless whoever asks may."""
    if access == OPERATOR and not front.operators.accept(request.headers.get("Authorization", "")):
        raise Refused(
            401,
            "Only this node's operators may do that.",
            fix="Send an operator's token: Authorization: Bearer TOKEN.",
            headers={"WWW-Authenticate": "Bearer"},
        )


async def _do(front: Front, route: Route, request: web.Request) -> Encoded:
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
    front: Front, route: Route, request: web.Request, media: str
) -> web.StreamResponse:
    """Answers from the cache, or makes the answer once for all who ask."""
    zipped = media == JSON and accepts_gzip(request.headers.get("Accept-Encoding", ""))
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


async def _make(front: Front, route: Route, values: dict[str, Any], media: str, zipped: bool) -> Encoded:
    generation = front.node.generation
    reply: Reply = await route.handler(front.node, **values)
    return await front.node.compute(encode, reply, media, zipped, generation)


def _land(front: Front, key: Any, done: asyncio.Task[Encoded]) -> None:
    front.flights.pop(key)
    if not done.cancelled() and done.exception() is None:
        front.cache.put(key, done.result())


def encode(reply: Reply, media: str, zipped: bool, generation: int | None) -> Encoded:
    """A reply as it is sent."""
    body = _encode_ssz(reply) if media == SSZ else _encode_json(reply)
    headers = {"Content-Type": media, "Vary": "Accept, Accept-Encoding"}
    form = "ssz" if media == SSZ else "json"
    if zipped and len(body) >= GZIP_FROM:
        body, form = gzip.compress(body, 6, mtime=0), f"{form}.gz"
        headers["Content-Encoding"] = "gzip"
    if generation is None:
        headers["Cache-Control"] = "no-store"
    else:
        tag = reply.root.hex() if reply.root else sha256(body).hexdigest()[:32]
        headers["ETag"] = f'"{tag}.{form}"'
        headers["Cache-Control"] = FOR_GOOD if reply.root else FOR_NOW
    return Encoded(body, headers, reply.status, None if reply.root else generation)


def _encode_ssz(reply: Reply) -> bytes:
    if reply.encoded is not None or reply.schema is None:
        return reply.encoded or b""
    return reply.schema.encode(reply.data)


def _encode_json(reply: Reply) -> bytes:
    data = reply.data
    if reply.schema is not None:
        value = data if reply.encoded is None else reply.schema.decode(reply.encoded)
        data = to_json(reply.schema, value)
    document = {"data": data, "next": reply.next} if reply.is_page else {"data": data}
    return json.dumps(document, separators=(",", ":")).encode()


async def send(request: web.Request, encoded: Encoded) -> web.StreamResponse:
    """Sends an answer, or that the asker has it already. A slow reader is cut off."""
    etag, known = encoded.headers.get("ETag"), request.headers.get("If-None-Match")
    if etag and known and has_current(known, etag):
        headers = {name: encoded.headers[name] for name in ("ETag", "Cache-Control", "Vary")}
        return web.Response(status=304, headers=headers)
    if len(encoded.body) <= WRITE_AT_ONCE or request.method == "HEAD":
        return web.Response(body=encoded.body, status=encoded.status, headers=encoded.headers)
    response = web.StreamResponse(status=encoded.status, headers=encoded.headers)
    response.content_length = len(encoded.body)
    await response.prepare(request)
    view = memoryview(encoded.body)
    try:
        for start in range(0, len(view), WRITE_AT_ONCE):
            part = bytes(view[start : start + WRITE_AT_ONCE])
            await asyncio.wait_for(response.write(part), WRITE_SECONDS)
    except TimeoutError:
        request.protocol.force_close()
        if request.transport:
            request.transport.abort()
    return response
