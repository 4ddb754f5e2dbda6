"""Answers to what peers ask: blocks, a few at a time, at the pace at which they are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from anchor.errors import RefusedPeer, Unavailable
from anchor.node.network.link import Link
from anchor.node.network.messages import MAX_BLOCKS_ASKED, Kind, Message
from anchor.node.network.runner import Runner

PART: Final = 8
"""Blocks that are read, and then sent, at once."""
MAX_ANSWERS: Final = 4
"""That one peer may wait for."""


class Answerer:
    """Answers each peer's questions beside whatever else it says."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._tasks: dict[Link, set[asyncio.Task[None]]] = {}

    def answer(self, link: Link, question: Message) -> None:
        """Begins to answer. Raises RefusedPeer for what may not be asked, or when too much is asked."""
        if question.kind == Kind.GET_BLOCKS_BY_RANGE and question.value.count > MAX_BLOCKS_ASKED:
            raise RefusedPeer(f"It asks for {question.value.count} slots at once; {MAX_BLOCKS_ASKED} may be.")
        tasks = self._tasks.setdefault(link, set())
        if len(tasks) >= MAX_ANSWERS:
            raise RefusedPeer(f"It asks more than {MAX_ANSWERS} questions at once.")
        task = asyncio.create_task(self._answer(link, question))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def on_gone(self, link: Link) -> None:
        """Nobody waits for these answers any more."""
        for task in self._tasks.pop(link, ()):
            task.cancel()

    async def _answer(self, link: Link, question: Message) -> None:
        number = question.request.to_bytes(4, "little")
        try:
            for get in self._split(question):
                for block in await self._runner.run(get):
                    await link.deliver(bytes([Kind.BLOCK]) + number + block)
        except Unavailable as error:  # the asker hears the end, and asks others
            self._runner.note(error)
        await link.deliver(bytes([Kind.END]) + number)

    def _split(self, question: Message) -> Iterator[Callable[[], list[bytes]]]:
        """What gives the answer, part by part."""
        engine, value = self._runner.engine, question.value
        if question.kind == Kind.GET_BLOCKS_BY_ROOT:
            for at in range(0, len(value.roots), PART):
                yield lambda at=at: engine.get_blocks_by_root(value.roots[at : at + PART])  # type: ignore[misc]
            return
        for at in range(0, value.count, PART):
            count = min(PART, value.count - at)
            start = value.start_slot + at
            yield lambda start=start, count=count: engine.get_blocks_by_range(start, count)  # type: ignore[misc]
