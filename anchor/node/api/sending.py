"""How an answer becomes bytes, and how those are sent: whole, a part, packed, or not again (RFC 9110)."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any, Final

from aiohttp import web

from anchor.merkle.json import to_json
from anchor.node.api.failures import Refused
from anchor.node.api.negotiation import has_current, read_range
from anchor.node.api.routes import SSZ, Reply
from anchor.node.cache import Encoded

GZIP_FROM: Final = 1024
"""Bytes of a body below which packing gains nothing."""
GZIP_WHOLE: Final = 1 << 22
"""Bytes of a body from which it is packed on the way, a part at a time."""
PACKED_AT_ONCE: Final = 1 << 20
WRITE_AT_ONCE: Final = 1 << 16
"""Bytes that are handed to the connection before it must have sent them: a slow reader holds no more."""
FOR_GOOD: Final = "public, max-age=31536000, immutable"
FOR_NOW: Final = "public, no-cache"


class OnlySSZ(Refused):
    """A record is too long to be had as JSON."""

    def __init__(self) -> None:
        super().__init__(406, f"This is too long for JSON: it can be had as {SSZ}.", fix="Set Accept.")


def encode(reply: Reply, media: str, zipped: bool, generation: int | None) -> Encoded:
    """A reply as it is sent. Raises OnlySSZ."""
    body = _encode_ssz(reply) if media == SSZ else _encode_json(reply)
    headers = {"Content-Type": media, "Vary": "Accept, Accept-Encoding", **reply.headers}
    form, packs = "ssz" if media == SSZ else "json", False
    if zipped and len(body) >= GZIP_FROM:
        form, packs = f"{form}.gz", len(body) >= GZIP_WHOLE
        headers["Content-Encoding"] = "gzip"
        body = body if packs else gzip.compress(body, 6, mtime=0)
    elif media == SSZ:
        headers["Accept-Ranges"] = "bytes"
    if generation is None:
        headers["Cache-Control"] = "no-store"
    else:
        headers["ETag"] = f'"{_tell_apart(reply, body)}.{form}"'
        headers["Cache-Control"] = FOR_GOOD if reply.root else FOR_NOW
    return Encoded(body, headers, reply.status, None if reply.root else generation, packs)


def _tell_apart(reply: Reply, body: bytes) -> str:
    known = reply.root or reply.tag
    return known.hex() if known else sha256(body).hexdigest()[:32]


def _encode_ssz(reply: Reply) -> bytes:
    if reply.encoded is not None or reply.schema is None:
        return reply.encoded or b""
    return reply.schema.encode(reply.data)


def _encode_json(reply: Reply) -> bytes:
    if reply.is_long:
        raise OnlySSZ
    data = reply.data
    if reply.schema is not None:
        value = reply.schema.decode(reply.encoded or b"") if data is None else data
        data = to_json(reply.schema, value)
    document: Any = {**reply.marks, "data": data}
    if reply.is_page:
        document["next"] = reply.next
    return json.dumps(data if reply.is_bare else document, separators=(",", ":")).encode()


async def send(request: web.Request, encoded: Encoded) -> web.StreamResponse:
    """Sends an answer, a part of it, or that the asker has it already. A slow reader is cut off."""
    etag, known = encoded.headers.get("ETag"), request.headers.get("If-None-Match")
    if etag and known and has_current(known, etag):
        headers = {name: encoded.headers[name] for name in ("ETag", "Cache-Control", "Vary")}
        return web.Response(status=304, headers=headers)
    part = _get_part(request, encoded)
    if part == slice(0, 0):
        headers = encoded.headers | {"Content-Range": f"bytes */{len(encoded.body)}"}
        return web.Response(status=416, headers=headers)
    body, status, headers = memoryview(encoded.body), encoded.status, encoded.headers
    if part is not None:
        headers = headers | {"Content-Range": f"bytes {part.start}-{part.stop - 1}/{len(body)}"}
        body, status = body[part], 206
    if encoded.packs:
        return await _send_parts(request, web.StreamResponse(status=status, headers=headers), _pack(body))
    if len(body) <= WRITE_AT_ONCE or request.method == "HEAD":
        return web.Response(body=bytes(body), status=status, headers=headers)
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = len(body)
    return await _send_parts(request, response, _cut(body))


def _get_part(request: web.Request, encoded: Encoded) -> slice | None:
    """The bytes that are asked for, of a body that is given in parts; None for all."""
    if "Accept-Ranges" not in encoded.headers or encoded.status != 200:
        return None
    etag = encoded.headers.get("ETag")
    is_current = request.headers.get("If-Range", etag) == etag
    return read_range(request.headers.get("Range"), len(encoded.body)) if is_current else None


async def _send_parts(
    request: web.Request, response: web.StreamResponse, parts: AsyncIterator[bytes]
) -> web.StreamResponse:
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    async for part in parts:
        await response.write(part)
    return response


async def _cut(body: memoryview) -> AsyncIterator[bytes]:
    for start in range(0, len(body), WRITE_AT_ONCE):
        yield bytes(body[start : start + WRITE_AT_ONCE])


async def _pack(body: memoryview) -> AsyncIterator[bytes]:
    """The body in gzip, each part packed in another thread when the one before was sent."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for start in range(0, len(body), PACKED_AT_ONCE):
        packed = await asyncio.to_thread(packer.compress, body[start : start + PACKED_AT_ONCE])
        async for part in _cut(memoryview(packed)):
            yield part
    yield packer.flush()
