"""How answers are sent: in the form that the request likes best, whole, in part, packed, or not again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from anchor.merkle.json import to_json
from anchor.merkle.ssz import Schema
from anchor.node.api.negotiation import accepts_gzip, choose_media, read_range
from anchor.node.api.view import View

SSZ: Final = "application/octet-stream"
JSON: Final = "application/json"
PIECE: Final = 1 << 20
MIN_PACKED: Final = 1 << 12
"""Bytes below which packing is not worth it."""
VIEW: Final = web.AppKey("view", View)


def reply_json(document: Any, status: int = 200) -> web.Response:
    """A document."""
    return web.json_response(document, status=status)


def refuse(status: int, message: str) -> web.Response:
    """An error in the Beacon API's form."""
    return reply_json({"code": status, "message": message}, status)


def choose(request: web.Request, offered: Sequence[str]) -> str:
    """The type to answer with. Raises 406 where the request takes none of them."""
    chosen = choose_media(request.headers.get("Accept", ""), offered)
    if chosen is None:
        message = f"This is given as {' or '.join(offered)}."
        text = json.dumps({"code": 406, "message": message})
        raise web.HTTPNotAcceptable(text=text, content_type=JSON)
    return chosen


def reply_record(
    request: web.Request, schema: Schema[Any], record: Any, version: str, *, is_final: bool = False
) -> web.Response:
    """A record as JSON or SSZ, labelled with its fork; JSON where the request has no preference."""
    headers = {"Eth-Consensus-Version": version}
    marks: dict[str, Any] = {"version": version}
    if is_final:
        marks |= {"execution_optimistic": False, "finalized": True}
    if choose(request, [JSON, SSZ]) == SSZ:
        return web.Response(body=schema.encode(record), content_type=SSZ, headers=headers)
    return web.json_response(marks | {"data": to_json(schema, record)}, headers=headers)


async def send_bytes(
    request: web.Request, body: bytes, kind: str, headers: dict[str, str], *, tag: str
) -> web.StreamResponse:
    """A large body in pieces: all of it or a range, packed where that is accepted; 304 where it is known."""
    etag = f'"{tag}"'
    headers = headers | {"ETag": etag, "Accept-Ranges": "bytes", "Vary": "Accept, Accept-Encoding"}
    known = request.headers.get("If-None-Match", "")
    tags = {part.strip().removeprefix("W/") for part in known.split(",")}
    if tags & {"*", etag, f'"{tag}-gzip"'}:
        return web.Response(status=304, headers=headers)
    wanted = request.headers.get("Range") if request.headers.get("If-Range", etag) == etag else None
    part = read_range(wanted, len(body))
    if part == slice(0, 0):
        return web.Response(status=416, headers=headers | {"Content-Range": f"bytes */{len(body)}"})
    response = web.StreamResponse(status=200 if part is None else 206, headers=headers)
    response.content_type = kind
    if part is not None:
        response.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{len(body)}"
    elif len(body) >= MIN_PACKED and accepts_gzip(request.headers.get("Accept-Encoding", "")):
        return await _send_packed(request, response, body, tag)
    view = memoryview(body)[part or slice(None)]
    response.content_length = len(view)
    await response.prepare(request)
    for start in range(0, len(view), PIECE):
        await response.write(view[start : start + PIECE])
    return response


async def _send_packed(
    request: web.Request, response: web.StreamResponse, body: bytes, tag: str
) -> web.StreamResponse:
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["ETag"] = f'"{tag}-gzip"'
    response.headers["Accept-Ranges"] = "none"
    await response.prepare(request)
    for start in range(0, len(body), PIECE):
        await response.write(packer.compress(body[start : start + PIECE]))
    await response.write(packer.flush())
    return response
