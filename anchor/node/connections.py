"""Connections, bounded in number and in patience: before any of their bytes cost more than reading them."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, cast

from aiohttp import web

MAX_CONNECTIONS: Final = 4096
MAX_PER_ADDRESS: Final = 2048
FIRST_SECONDS: Final = 10.0
"""In which a new connection must have sent the head of its first request."""
LINGER_SECONDS: Final = 1.0
"""In which the rest of a body that was refused is read, so that the asker sees why."""
MAX_TARGET: Final = 1 << 15
"""Bytes of a request's first line: two names of 1,024 characters, each escaped, and the rest."""
KEEPALIVE_SECONDS: Final = 60.0
"""That a connection may be idle between two requests."""


@dataclass(slots=True)
class Doors:
    """Counts who is in."""

    most: int = MAX_CONNECTIONS
    most_per_address: int = MAX_PER_ADDRESS
    first_seconds: float = FIRST_SECONDS
    inside: Counter[str] = field(default_factory=Counter)

    def enter(self, address: str) -> bool:
        """Lets one more connection of `address` in, unless there are too many."""
        if self.inside.total() >= self.most or self.inside[address] >= self.most_per_address:
            return False
        self.inside[address] += 1
        return True

    def leave(self, address: str) -> None:
        """One connection of `address` has ended."""
        self.inside[address] -= 1
        if not self.inside[address]:
            del self.inside[address]


class Connection(web.RequestHandler):
    """A server's side of a connection that was let in for `address`; closed when no whole request comes."""

    def __init__(self, server: web.Server, doors: Doors, address: str) -> None:
        self._clock = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=self._clock,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_TARGET,
            auto_decompress=False,
        )
        self._doors, self._address = doors, address
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts to wait for the first request's head."""
        super().connection_made(transport)
        abort = cast("asyncio.Transport", transport).abort
        self._timer = self._clock.call_later(self._doors.first_seconds, abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Makes room for another."""
        self._doors.leave(self._address)
        self.greet()
        super().connection_lost(exc)

    def greet(self) -> None:
        """A whole request came: the connection may stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
