"""What writes to a node's ledger: its own service (`embedded`), or an engine with peers (`network`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import SignedVoluntaryExit
from anchor.node.health import Health

if TYPE_CHECKING:
    from anchor.node.network.driver import Driver

PATIENCE: Final = 60.0
"""Seconds that who sent an entry waits for it to be final."""
Refresh = Callable[[], Awaitable[None]]
"""Looks at the ledger again, and tells what changed."""
Gauges = Mapping[str, tuple[str, float]]
"""What each tells, and its value, by name."""


class Writer(Protocol):
    """The only one that writes. All of it is called from one event loop."""

    network: Driver | None
    """The node's peers; None where it has none."""

    async def start(self) -> None:
        """Opens the ledger to write to it. Raises Unavailable when it cannot be had."""

    async def run(self, refresh: Refresh) -> None:
        """Does its work, for ever. Calls `refresh` when the ledger has changed."""

    async def stop(self) -> None:
        """Lets the ledger go. What was acknowledged stands."""

    async def submit(self, root: bytes, entry: SignedEntry) -> int:
        """Records an entry that is not recorded yet; its position once it is final, or a while has passed.

        Raises Invalid when the ledger refuses it, Unavailable when the writer is busy, or cannot write.
        """
        ...

    async def keep_manifest(self, root: bytes, data: bytes) -> None:
        """Keeps a published manifest, which was checked. Durable on return."""

    async def register(self, identity: bytes) -> int:
        """Registers a publisher, as the administrator; the entry's position. Raises as `submit` does."""
        ...

    async def leave(self, wish: SignedVoluntaryExit) -> None:
        """Passes on that a validator wants to leave. Raises as `submit` does, Misuse where nobody can."""

    def judge_health(self, health: Health) -> Health:
        """A verdict on finality, and what else the writer knows."""
        ...

    def measure(self) -> Gauges:
        """What metrics show of it."""
        ...
