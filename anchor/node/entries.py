"""Writing entries: numbers from the state that they will meet, signatures from their author's keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from anchor.consensus.containers.entries import KINDS, Entry, SignedEntry
from anchor.consensus.entries import ADMINISTRATOR_KINDS, ROOT_KEY_KINDS, sign_entry
from anchor.consensus.forks.ledger.accessors import find_administrator, find_publisher
from anchor.consensus.schemes import SigningKey
from anchor.merkle.container import Container
from anchor.merkle.union import Selected
from anchor.params import ENTRY_SCHEMA_VERSION

LIFETIME: Final = 64
"""Epochs until an entry that was not included expires."""


class Pen:
    """Writes entries that follow each other, and the state's own."""

    def __init__(self, state: Any, epoch: int) -> None:
        self._state, self._epoch = state, epoch
        self._last: dict[tuple[bytes, str], int] = {}

    def write(self, author: bytes, body: Container, keys: Sequence[SigningKey]) -> SignedEntry:
        """The author's next entry, signed. Whether the ledger takes it is for the ledger to judge."""
        kind = type(body)
        track = next((name for name, kinds in _TRACKS.items() if kind in kinds), "sequence")
        last = self._last.get((author, track), self._get_sequence(author, track))
        self._last[author, track] = last + 1
        entry = Entry(
            schema_version=ENTRY_SCHEMA_VERSION,
            author=author,
            sequence=last + 1,
            expiry_epoch=self._epoch + LIFETIME,
            body=Selected(KINDS.index(kind), body),
        )
        version, network = self._state.fork.current_version, self._state.genesis_validators_root
        return sign_entry(entry, keys, version, network)

    def _get_sequence(self, author: bytes, track: str) -> int:
        """The number of the author's last entry in the state."""
        if track == "administrator":
            index = find_administrator(self._state, author)
            return 0 if index is None else int(self._state.administrators[index].sequence)
        index = find_publisher(self._state, author)
        return 0 if index is None else int(getattr(self._state.publishers[index], track))


_TRACKS: Final[dict[str, tuple[type[Container], ...]]] = {
    "administrator": ADMINISTRATOR_KINDS,
    "root_sequence": ROOT_KEY_KINDS,
}
"""Entries are numbered apart by who signs them; what no kind here claims is a publisher's "sequence"."""
