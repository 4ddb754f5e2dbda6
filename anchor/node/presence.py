"""Whether a node's folder is still there: what is written to one that was removed is written to nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from anchor.errors import Unavailable
from anchor.node.places import find_store

LOOK_SECONDS: Final = 2.0


class Presence:
    """The folder of a ledger, and its store's file where it has one, as they were at first."""

    def __init__(self, folder: Path) -> None:
        store = find_store(folder)
        places = [folder, store] if isinstance(store, Path) else [folder]
        self._folder, self._known = folder, {place: _identify(place) for place in places}

    async def watch(self) -> None:
        """Looks again and again. Raises Unavailable when one is gone, or another is in its place."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.require()

    def require(self) -> None:
        """Raises as `watch` does."""
        for place, known in self._known.items():
            if _identify(place) != known:
                raise Unavailable(
                    f"{place} was removed, moved or replaced under the node, which ends.",
                    fix=f"Bring {self._folder} back, and start it again.",
                )


def _identify(place: Path) -> tuple[int, int] | None:
    """File system, and number there; None for nothing."""
    try:
        found = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
