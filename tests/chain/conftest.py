"""Clients of endpoints on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from anchor.chain.beacon.endpoint import parse_endpoint
from anchor.chain.beacon.http import Client, Timeouts, open_session

MakeClient = Callable[..., Client]


@pytest.fixture
async def connect() -> AsyncIterator[MakeClient]:
    """Makes a client of an address; time-outs as a test wants them."""
    async with open_session() as session:

        def make(url: str, *, idle: float = 5.0, total: float = 20.0) -> Client:
            return Client(session, parse_endpoint(url), Timeouts(idle, total))

        yield make
