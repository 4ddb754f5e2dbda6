"""A bounded memory of results, keyed by all that they depend on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """The `size` results that were used last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: OrderedDict[Hashable, V] = OrderedDict()

    def find(self, key: Hashable) -> V | None:
        """The result under `key`, where it is at hand."""
        return self._results.get(key)

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The result under `key`; `compute()` makes it when it is not at hand."""
        try:
            self._results.move_to_end(key)
            return self._results[key]
        except KeyError:
            pass
        result = self._results[key] = compute()
        if len(self._results) > self._size:
            self._results.popitem(last=False)
        return result
