"""Server-sent events, as they happen."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from aiohttp import web

from anchor.node.api.kinds import NUMBER
from anchor.node.events import Bus, Event

EVENTS: Final = "text/event-stream"
BEAT_SECONDS: Final = 15.0
"""Between two signs of life to a listener."""


async def stream_events(bus: Bus, topics: frozenset[str], request: web.Request) -> web.StreamResponse:
    """Events of these topics until the listener leaves, or is too slow. Last-Event-ID resumes."""
    last = request.headers.get("Last-Event-ID")
    after = None if last is None else NUMBER.read(last)
    with bus.subscribe(topics, after) as subscription:
        response = web.StreamResponse(headers={"Content-Type": EVENTS, "Cache-Control": "no-store"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b": what happens from now on\n\n")
        while (event := await _wait(subscription.queue)) is not None:
            await response.write(event)
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
