"""Health, metrics, events and the description of all routes: what has a form of its own."""

from __future__ import annotations

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
from anchor.node.api.kinds import TOPIC_LIST, Parameter
from anchor.node.api.listening import EVENTS, stream_events
from anchor.node.api.routes import JSON
from anchor.node.events import TOPICS
from anchor.node.metrics import CONTENT_TYPE, format_gauges
from anchor.node.node import Node


@dataclass(frozen=True, slots=True)
class RawRoute:
    """A route whose answer is no `Reply`."""

    path: str
    handler: Callable[[Front[Any], web.Request], Awaitable[web.StreamResponse]]
    summary: str
    media: str
    answer: dict[str, Any]
    """JSON Schema of the answer."""
    tag: str = "operations"
    query: Mapping[str, Parameter] = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)


async def get_health(front: Front[Node], _: web.Request) -> web.StreamResponse:
    """Whether all is well, in words: 200, or 503."""
    health = front.node.judge_health()
    document = {"status": "ok" if health.is_good else "bad", "words": health.words}
    return _answer(json.dumps(document), JSON, 200 if health.is_good else 503)


async def get_metrics(front: Front[Node], _: web.Request) -> web.StreamResponse:
    """Counters and gauges."""
    lines = [*format_gauges(_measure(front)), *front.counter.format(), *front.node.count()]
    return web.Response(
        body="\n".join([*lines, ""]).encode(),
        headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"},
    )


def _measure(front: Front[Node]) -> dict[str, tuple[str, float]]:
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


async def get_events(front: Front[Node], request: web.Request) -> web.StreamResponse:
    """Events as they happen. Last-Event-ID resumes."""
    topics = TOPIC_LIST.read(",".join(request.query.getall("topics", TOPICS)))
    return await stream_events(front.node.events, topics, request)


def _answer(text: str, media: str, status: int) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    return web.Response(body=text.encode(), status=status, content_type=media, headers=headers)


def require_no_query(route: RawRoute, request: web.Request) -> None:
    """Raises Refused for a query that the route does not know."""
    if any(name not in route.query for name in request.query):
        raise Refused(400, "The query has what is not known here.", fix="See: /openapi.json")


RAW_ROUTES: Final = (
    RawRoute(
        "/anchor/v1/events",
        get_events,
        "Listen to what happens (server-sent events)",
        EVENTS,
        forms.HAPPENINGS,
        "ledger",
        {"topics": Parameter(TOPIC_LIST, "which, separated by commas; all when left out")},
        (200, 503),
    ),
    RawRoute("/health", get_health, "Tell whether all is well", JSON, forms.HEALTH, statuses=(200, 503)),
    RawRoute("/metrics", get_metrics, "Show counters and gauges (Prometheus)", "text/plain", forms.TEXT),
)
"""In the order of the document."""
