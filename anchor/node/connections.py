"""Connections, bounded in number and in patience: before any of their bytes cost more than reading them."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

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

WRITE_SECONDS: Final = 20.0
"""In which what waits to be sent must have been read, but for the 16 KiB that the transport keeps at hand."""


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
    """A server's side of a connection that was let in for `address`.

    Closed when no whole request comes, or when answers are not read.
    """

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
        self._slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts to wait for the first request's head."""
        super().connection_made(transport)
        abort = cast("asyncio.Transport", transport).abort
        self._timer = self._clock.call_later(self._doors.first_seconds, abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Makes room for another."""
        self._doors.leave(self._address)
        self.greet()
        self._forgive()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Starts to wait for a slow reader, whatever is being sent."""
        super().pause_writing()
        if self._slow is None and self.transport is not None:
            self._slow = self._clock.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        self._forgive()
        super().resume_writing()

    def _forgive(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def log_exception(self, *args: Any, exc_info: BaseException | None = None, **more: Any) -> None:
        """Logs a fault of ours. Requests that are none, and askers who leave, are no news."""
        if not isinstance(exc_info, HttpProcessingError | ConnectionError):
            super().log_exception(*args, exc_info=exc_info, **more)

    def greet(self) -> None:
        """A whole request came: the connection may stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
