"""What a request says, read within bounds: the values of its path and query, and its body."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.json import from_json
from anchor.ml.formats.strict_json import parse
from anchor.node.api.failures import Refused
from anchor.node.api.routes import JSON, SSZ, Body, Route

IDLE_SECONDS: Final = 5.0
"""That may pass between two parts of a body."""
SLOWEST: Final = 1 << 17
"""Bytes a second below which a body is cut off."""


def read_values(route: Route, request: web.Request) -> dict[str, Any]:
    """Values by name. Raises Misuse for one that cannot be read, is missing, unknown or given twice."""
    values = {name: kind.read(request.match_info[name]) for name, kind in route.parts.items()}
    for name in request.query:
        if name not in route.query or len(request.query.getall(name)) > 1:
            raise Misuse(
                f"The query {name[:80]!a} is not known here, or given twice.", fix="See: /openapi.json"
            )
    for name, parameter in route.query.items():
        if name in request.query:
            values[name] = parameter.kind.read(request.query[name])
        elif parameter.is_required:
            raise Misuse(f"The query {name!r} is missing: {parameter.what}.")
        else:
            values[name] = parameter.default
    return values


async def read_body(body: Body, request: web.Request) -> Any:
    """What the request brings: a record, plain values, or bytes. Raises Refused, Malformed, Misuse."""
    media = request.content_type if request.headers.get("Content-Type") else ""
    _require_media(body, media, request.headers.get("Content-Encoding", "identity"))
    data = await _read_bytes(body.limit, request)
    if body.json is not None:
        return _read_fields(body.json, parse(data, "The body"))
    if body.schema is None:
        return data
    return from_json(body.schema, parse(data, "The body")) if media == JSON else body.schema.decode(data)


def _require_media(body: Body, media: str, coding: str) -> None:
    taken = media_of(body)
    if media not in taken or coding != "identity":
        raise Refused(
            415, f"A body here is {' or '.join(taken)}, and not compressed.", fix="Set Content-Type."
        )


def media_of(body: Body) -> tuple[str, ...]:
    """The forms that a body may have."""
    if body.json is not None:
        return (JSON,)
    return (SSZ,) if body.schema is None else (JSON, SSZ)


async def _read_bytes(limit: int, request: web.Request) -> bytes:
    """The body. Raises Refused when it is too long, or too slow."""
    too_large = Refused(413, f"A body here has at most {limit} bytes.", closes=True)
    if (request.content_length or 0) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(IDLE_SECONDS + limit / SLOWEST):
            while part := await asyncio.wait_for(request.content.readany(), IDLE_SECONDS):
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise too_large
    except TimeoutError:
        raise Refused(408, "The body came too slowly.", closes=True) from None
    return b"".join(parts)


def _read_fields(schema: Any, document: object) -> dict[str, Any]:
    """The fields of a flat object of strings. Raises MalformedSSZ for another."""
    names = schema["properties"].keys()
    if not isinstance(document, dict) or document.keys() != names:
        raise MalformedSSZ(f"The body is an object with the fields {', '.join(names)}, and no others.")
    if not all(isinstance(value, str) for value in document.values()):
        raise MalformedSSZ("The body's fields are strings.")
    return document
