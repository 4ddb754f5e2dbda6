"""The one thread in which an engine runs, and how the engine stood when it last did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from anchor.errors import AnchorError, CorruptedLedger
from anchor.node.logs import tell, warn
from anchor.node.network.engine import Engine
from anchor.node.network.messages import PeerStatus
from anchor.node.network.outbox import Send
from anchor.node.store import Store

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stand:
    """How an engine stood."""

    status: PeerStatus
    """As peers are told, but for the time."""
    final_slot: int


class Runner:
    """Calls an engine, one call after the other, off the event loop."""

    def __init__(self, engine: Engine, store: Store, thread: Executor) -> None:
        self.engine, self.store, self._thread = engine, store, thread
        self.stand = self._look()
        self.trouble = ""
        """What keeps the engine from working, in a sentence; empty when nothing does."""

    async def run(self, method: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """What a method of the engine gives, or raises."""

        def call() -> T:
            try:
                return method(*args, **more)
            finally:
                self.stand = self._look()

        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def step(
        self, method: Callable[P, Sequence[Send]], *args: P.args, **more: P.kwargs
    ) -> Sequence[Send]:
        """As `run`; when that fails, nothing is sent, and it is said once. Raises CorruptedLedger."""
        try:
            sends = await self.run(method, *args, **more)
        except CorruptedLedger:
            raise
        except AnchorError as error:
            self.note(error)
            return ()
        if self.trouble:
            tell("The node works again.")
            self.trouble = ""
        return sends

    def note(self, error: AnchorError) -> None:
        """Remembers what is wrong, and says it once."""
        if not self.trouble:
            warn(str(error))
        self.trouble = error.what

    def _look(self) -> Stand:
        return Stand(self.engine.get_status(0), self.engine.final_slot)
