"""Health, metrics, events and the description of all routes: what has a form of its own."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from anchor.node.api import forms
from anchor.node.api.answering import Front
from anchor.node.api.failures import Refused
from anchor.node.api.kinds import NUMBER, TOPIC_LIST, Parameter
from anchor.node.api.routes import JSON
from anchor.node.events import TOPICS, Event
from anchor.node.metrics import CONTENT_TYPE, format_gauges

BEAT_SECONDS: Final = 15.0
"""Between two signs of life to a listener."""
WRITE_SECONDS: Final = 20.0
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class RawRoute:
    """A route whose answer is no `Reply`."""

    path: str
    handler: Callable[[Front, web.Request], Awaitable[web.StreamResponse]]
    summary: str
    media: str
    answer: dict[str, Any]
    """JSON Schema of the answer."""
    tag: str = "operations"
    query: Mapping[str, Parameter] = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)


async def get_health(front: Front, _: web.Request) -> web.StreamResponse:
    """Whether all is well, in words: 200, or 503."""
    health = front.node.judge_health()
    document = {"status": "ok" if health.is_good else "bad", "words": health.words}
    return _answer(json.dumps(document), JSON, 200 if health.is_good else 503)


async def get_metrics(front: Front, _: web.Request) -> web.StreamResponse:
    """Counters and gauges."""
    lines = [*format_gauges(_measure(front)), *front.counter.format(), *front.node.count()]
    return web.Response(
        body="\n".join([*lines, ""]).encode(),
        headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"},
    )


def _measure(front: Front) -> dict[str, tuple[str, float]]:
    status, health = front.node.status, front.node.judge_health()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "head_slot": ("Slot of the newest block.", status.slot),
        "justified_epoch": ("Epoch of the newest justified checkpoint.", status.justified.epoch),
        "finalized_epoch": ("Epoch of the newest final checkpoint.", status.finalized.epoch),
        "finality_age_seconds": ("Age of finality, or of the newest block (logical clock).", health.age),
        "healthy": ("1 when all is well.", health.is_good),
        "entries": ("Entries that are recorded.", status.entries),
        "final_entries": ("Entries that are final.", status.final_entries),
        "validators": ("Validators in the registry.", status.validators),
        "subscribers": ("Listeners to events.", front.node.events.subscribers),
        "reads_waiting": ("Questions that wait for the reader.", front.node.reads),
        **front.node.measure(),
        "cache_bytes": ("Bytes of encoded answers in memory.", front.cache.size),
        "cache_hits": ("Answers from the cache since the start.", front.cache.hits),
        "cache_misses": ("Answers that had to be made since the start.", front.cache.misses),
        "resident_bytes_max": ("The most memory that the process has had.", resident),
    }


async def get_events(front: Front, request: web.Request) -> web.StreamResponse:
    """Events as they happen. Last-Event-ID resumes."""
    text = request.query.get("topics", ",".join(TOPICS))
    topics, last = TOPIC_LIST.read(text), request.headers.get("Last-Event-ID")
    after = None if last is None else NUMBER.read(last)
    with front.node.events.subscribe(topics, after) as subscription:
        response = web.StreamResponse(headers={"Content-Type": EVENTS, "Cache-Control": "no-store"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b": these are the ledger's events\n\n")
        try:
            while (event := await _wait(subscription.queue)) is not None:
                await asyncio.wait_for(response.write(event), WRITE_SECONDS)
        except TimeoutError:
            request.protocol.force_close()
        return response


async def _wait(queue: asyncio.Queue[Event | None]) -> bytes | None:
    """The next event in its form, or a sign of life; None at the end."""
    try:
        event = await asyncio.wait_for(queue.get(), BEAT_SECONDS)
    except TimeoutError:
        return b": still here\n\n"
    if event is None:
        return None
    return f"id: {event.number}\nevent: {event.topic}\ndata: {json.dumps(event.data)}\n\n".encode()


def _answer(text: str, media: str, status: int) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    return web.Response(body=text.encode(), status=status, content_type=media, headers=headers)


def require_no_query(route: RawRoute, request: web.Request) -> None:
    """Raises Refused for a query that the route does not know."""
    unknown = [name for name in request.query if name not in route.query]
    if unknown or len(request.query) != len(set(request.query)):
        raise Refused(400, "The query has what is not known here, or twice.", fix="See: /openapi.json")


RAW_ROUTES: Final = (
    RawRoute(
        "/anchor/v1/events",
        get_events,
        "Listen to what happens (server-sent events)",
        EVENTS,
        forms.TEXT,
        "ledger",
        {"topics": Parameter(TOPIC_LIST, "which, separated by commas; all when left out")},
        (200, 503),
    ),
    RawRoute("/health", get_health, "Tell whether all is well", JSON, forms.HEALTH, statuses=(200, 503)),
    RawRoute("/metrics", get_metrics, "Show counters and gauges (Prometheus)", "text/plain", forms.TEXT),
)
"""In the order of the document."""
