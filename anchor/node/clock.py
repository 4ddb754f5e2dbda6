"""Time as an argument: the node reads it from a `Clock`, tests from one that they set."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> int:
        """Seconds since 1970, UTC."""
        ...

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...


class SystemClock:
    """The machine's clock, or a devnet's that was stopped, and is so many milliseconds `behind` it."""

    def __init__(self, behind: int = 0) -> None:
        self._behind = behind

    def now(self) -> int:
        """Seconds since 1970, UTC."""
        return self.now_ms() // 1000

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return int(time.time() * 1000) - self._behind


class ManualClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        """The second that was set last."""
        return self._now

    def now_ms(self) -> int:
        """Its beginning."""
        return self._now * 1000

    def advance(self, seconds: int) -> None:
        """Moves the clock on; back when negative, as a machine's clock may go."""
        self._now += seconds
