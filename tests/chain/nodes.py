"""Small servers on loopback that play a beacon node, well or badly, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from anchor.node.app import build_beacon_app, build_front
from anchor.node.clock import Clock
from anchor.node.operators import Operators
from anchor.node.server import serving
from anchor.node.synced import SyncedNode, SyncedView

SSZ, JSON = "application/octet-stream", "application/json"


@dataclass(frozen=True)
class Reply:
    """What a node answers."""

    body: bytes = b""
    content_type: str = JSON
    version: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()

    def head(self, length: int | None = None) -> bytes:
        """The answer's head, announcing `length` bytes (the body's own when None, nothing when negative)."""
        size = len(self.body) if length is None else length
        lines = [f"HTTP/1.1 {self.status} X", f"Content-Type: {self.content_type}", "Connection: close"]
        lines += [f"Content-Length: {size}"] if size >= 0 else []
        lines += [f"Eth-Consensus-Version: {self.version}"] if self.version else []
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"


MISSING = Reply(b'{"code":404,"message":"not here"}', status=404)
Answers = Callable[[str, dict[str, str]], Reply]
"""A path with its query, and the request's headers (names in lower case)."""
Fault = Callable[[asyncio.StreamWriter, Reply], Awaitable[None]]
"""Sends an answer in a way of its own."""


@dataclass
class Node:
    """A server, and what it was asked."""

    answers: Answers
    faults: dict[str, Fault] = field(default_factory=dict)
    """By the beginning of a path."""
    url: str = ""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            path = first.split()[1]
            headers = {
                name.lower(): value.strip() for name, _, value in [line.partition(":") for line in lines]
            }
            self.requests.append((path, headers))
            fault = next((f for start, f in self.faults.items() if path.startswith(start)), send)
            await fault(writer, self.answers(path, headers))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


@asynccontextmanager
async def serving_view(view: SyncedView, clock: Clock) -> AsyncIterator[tuple[SyncedNode, str]]:
    """Our own node over a view, as `anchor sync --serve` runs it; and its address."""
    node = SyncedNode(view, clock)
    front = build_front(node, Operators(), rate=0)
    try:
        async with serving(front, build_beacon_app(front), "127.0.0.1", 0) as port:
            yield node, f"http://127.0.0.1:{port}"
    finally:
        node.close()


@asynccontextmanager
async def running(answers: Answers, faults: dict[str, Fault] | None = None) -> AsyncIterator[Node]:
    """A node on a free port."""
    node = Node(answers, faults or {})
    server = await asyncio.start_server(node.handle, "127.0.0.1", 0)
    node.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield node
    finally:
        server.close()


async def send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    writer.write(reply.head() + reply.body)
    await writer.drain()


async def cut(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """Half of the body, then the end."""
    writer.write(reply.head() + reply.body[: len(reply.body) // 2])
    await writer.drain()


async def cut_silently(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """Half of the body, of a length that was never announced."""
    writer.write(reply.head(-1) + reply.body[: len(reply.body) // 2])
    await writer.drain()


async def stall(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """The head, half of the body, then silence."""
    writer.write(reply.head() + reply.body[: len(reply.body) // 2])
    await writer.drain()
    await asyncio.sleep(30)


async def never_answer(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """Takes the request, and says nothing."""
    await asyncio.sleep(30)


async def trickle(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """A few bytes at a time: never silent for long."""
    writer.write(reply.head())
    for start in range(0, len(reply.body), 16):
        writer.write(reply.body[start : start + 16])
        await writer.drain()
        await asyncio.sleep(0.02)


async def announce_too_much(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """A length that nobody would read."""
    writer.write(reply.head(1 << 50) + reply.body)
    await writer.drain()


async def pour(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """A body without an end, of no announced length."""
    writer.write(reply.head(-1))
    while True:
        writer.write(bytes(1 << 16))
        await writer.drain()


async def not_http(writer: asyncio.StreamWriter, reply: Reply) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    await writer.drain()


async def html(writer: asyncio.StreamWriter, reply: Reply) -> None:
    """A page with status 200, as proxies like to send."""
    page = b"<!DOCTYPE html><title>Sign in</title>".ljust(653, b" ")
    await send(writer, Reply(page, "text/html; charset=utf-8"))


async def error_with_200(writer: asyncio.StreamWriter, reply: Reply) -> None:
    await send(writer, Reply(b'{"code":500,"message":"database is busy"}'))


async def html_as_ssz(writer: asyncio.StreamWriter, reply: Reply) -> None:
    await send(writer, Reply(b"<!DOCTYPE html><title>Sign in</title>".ljust(653, b" "), SSZ))


async def unasked_gzip(writer: asyncio.StreamWriter, reply: Reply) -> None:
    await send(writer, replace(reply, headers=(("Content-Encoding", "gzip"),)))


def labelled(version: str) -> Fault:
    """Lies about the fork."""

    async def fault(writer: asyncio.StreamWriter, reply: Reply) -> None:
        await send(writer, replace(reply, version=version))

    return fault


def giving(other: Reply) -> Fault:
    """Another answer in its place."""

    async def fault(writer: asyncio.StreamWriter, reply: Reply) -> None:
        await send(writer, other)

    return fault


def redirecting(location: str) -> Fault:
    """Sends the asker elsewhere."""
    return giving(Reply(b"", status=302, headers=(("Location", location),)))
