"""A node over a copy of the ledger with one publication, and a client of it over loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from anchor.node.api.answering import Front
from anchor.node.app import build_app, build_front
from anchor.node.clock import ManualClock
from anchor.node.connections import Doors
from anchor.node.embedded import Embedded
from anchor.node.node import Node
from anchor.node.operators import Operators
from anchor.node.server import serving
from tests.node.tools import NOW

TOKEN = "an operator's token of enough characters".replace(" ", "-")


@dataclass
class Site:
    """A node that serves."""

    node: Node
    front: Front[Node]
    port: int
    client: aiohttp.ClientSession
    """Its base is the node's address."""
    seed: bytes
    folder: Path

    @property
    def url(self) -> str:
        """The node's address."""
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def open_site(
    folder: Path, seed: bytes, *, writes: bool = True, rate: float = 0, doors: Doors | None = None
) -> AsyncIterator[Site]:
    """Serves the ledger in `folder`."""
    clock = ManualClock(NOW)
    node = Node(folder, Embedded(folder, seed, clock) if writes else None, clock)
    front = build_front(node, Operators(frozenset([TOKEN])), rate=rate)
    async with AsyncExitStack() as stack:
        await node.start()
        stack.push_async_callback(node.stop)
        port = await stack.enter_async_context(serving(front, build_app(front), "127.0.0.1", 0, doors=doors))
        client = aiohttp.ClientSession(f"http://127.0.0.1:{port}")
        await stack.enter_async_context(client)
        yield Site(node, front, port, client, seed, folder)


@pytest.fixture
async def site(ledger: tuple[Path, bytes]) -> AsyncIterator[Site]:
    """A node with acme/tiny@1 that takes entries, without limits of rate."""
    async with open_site(*ledger) as opened:
        yield opened
