"""Encoded answers in memory, bounded in bytes: the least recently asked for goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

OVERHEAD: Final = 512
"""Bytes that an answer counts for beside its own."""


class Answer(Protocol):
    """What can be kept."""

    @property
    def size(self) -> int:
        """Bytes that it holds."""

    @property
    def generation(self) -> int | None:
        """Of the node whose answer it was; None for what can never change."""


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer as it is sent."""

    body: bytes
    headers: dict[str, str]
    status: int = 200
    generation: int | None = None
    packs: bool = False
    """Whether the body is packed (gzip) while it is sent."""

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body)


class AnswerCache(Generic[A]):
    """Answers by what was asked."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._answers: OrderedDict[Hashable, A] = OrderedDict()
        self.hits = self.misses = 0

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return self._size

    def get(self, key: Hashable, generation: int) -> A | None:
        """The answer, if it is still true in this generation."""
        answer = self._answers.get(key)
        if answer is None or answer.generation not in (None, generation):
            self.misses += 1
            return None
        self.hits += 1
        self._answers.move_to_end(key)
        return answer

    def put(self, key: Hashable, answer: A) -> None:
        """Keeps an answer, unless it alone would take more than an eighth of the room."""
        if answer.size + OVERHEAD > self._limit // 8:
            return
        old = self._answers.pop(key, None)
        self._size += answer.size - (old.size if old else -OVERHEAD)
        self._answers[key] = answer
        while self._size > self._limit:
            _, gone = self._answers.popitem(last=False)
            self._size -= gone.size + OVERHEAD
