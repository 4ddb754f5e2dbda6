"""Entries that wait to be on the chain, in the order in which they came. They survive a restart.

One stays until it is final, or can be it no more: another branch may yet become the chain.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.forks.ledger.entries import get_sequence
from anchor.errors import Invalid, InvalidEntry, Unavailable
from anchor.merkle.scope import hash_tree_root, schema_of
from anchor.node.network.branches import Branches
from anchor.node.records import Batch
from anchor.node.store import Store
from anchor.params import MAX_ENTRIES, MAX_ENTRIES_PER_AUTHOR

State = Any
"""The ledger's BeaconState."""
MAX_PENDING: Final = 512
MAX_PENDING_OF_AUTHOR: Final = 128


class EntryPool:
    """What a block may bring of the ledger's own."""

    def __init__(self, journal: Store, branches: Branches) -> None:
        self._journal, self._branches, self._ledger = journal, branches, branches.ledger
        schema = schema_of(SignedEntry)
        stored = journal.get_pending_entries()
        self._entries: dict[bytes, SignedEntry] = {root: schema.decode(data) for root, data in stored}
        self._unsaved: list[bytes] = []
        self._basis: tuple[bytes, int] | None = None
        """Head and epoch that `_ahead` stands on."""
        self._ahead: State = None

    def __len__(self) -> int:
        return len(self._entries)

    def is_known(self, root: bytes) -> bool:
        """Whether an entry waits, or is on the chain."""
        return root in self._entries or self._journal.find_entry_by_root(root) is not None

    def add(self, signed: SignedEntry) -> None:
        """Keeps an entry that can come after all that wait.

        Raises InvalidEntry or InvalidSignature for one that cannot, Unavailable when too many wait.
        """
        author = signed.entry.author
        same = Counter([other.entry.author for other in self._entries.values()])[author]
        if len(self._entries) >= MAX_PENDING or same >= MAX_PENDING_OF_AUTHOR:
            raise Unavailable(f"Too many entries wait: {len(self._entries)}.", fix="Send it again later.")
        ahead, root = self._get_ahead(), hash_tree_root(signed)
        self._ledger.verify_entry(ahead, signed)
        self._ledger.apply_entry(ahead, signed)
        self._entries[root] = signed
        self._unsaved.append(root)

    def save(self) -> None:
        """Makes durable what was added."""
        encode = schema_of(SignedEntry).encode
        unsaved = [(root, encode(self._entries[root])) for root in self._unsaved if root in self._entries]
        if unsaved:
            self._journal.commit(Batch(pending=tuple(unsaved)))
        self._unsaved = []

    def _get_ahead(self) -> State:
        """The head's state now, with all that waits upon it."""
        branches = self._branches
        slot = branches.get_slot()
        basis = branches.head, self._ledger.compute_epoch_at_slot(slot)
        if basis != self._basis:
            self._ahead = branches.get_state_at(branches.head, slot).copy()
            self._basis = basis
            for signed in self._entries.values():
                self._try(self._ahead, signed)
        return self._ahead

    def _try(self, state: State, signed: SignedEntry) -> bool:
        """Applies an entry that may be the next, and says whether it was one."""
        try:
            self._ledger.process_entry(state, signed)
        except Invalid:
            return False
        return True

    def select(self, state: State) -> tuple[SignedEntry, ...]:
        """What the block of a state may bring, in order; they are applied to `state`."""
        chosen, authors = list[SignedEntry](), Counter[bytes]()
        for signed in self._entries.values():
            author = signed.entry.author
            if len(chosen) == MAX_ENTRIES:
                break
            if authors[author] < MAX_ENTRIES_PER_AUTHOR and self._try(state, signed):
                chosen.append(signed)
                authors[author] += 1
        return tuple(chosen)

    def get_missing(self, author: bytes | None = None) -> list[SignedEntry]:
        """Entries that are not on the chain, or an author's, the oldest first."""
        return [
            signed
            for root, signed in self._entries.items()
            if author in (None, signed.entry.author) and self._journal.find_entry_by_root(root) is None
        ]

    def settle(self) -> None:
        """Lets go of what is final, and of what cannot become it."""
        settled = tuple([root for root, signed in self._entries.items() if self._is_settled(root, signed)])
        if settled:
            self._journal.commit(Batch(settled=settled))
            for root in settled:
                del self._entries[root]

    def _is_settled(self, root: bytes, signed: SignedEntry) -> bool:
        stored = self._journal.find_entry_by_root(root)
        if stored is not None:
            return stored.slot <= self._branches.get_final_slot()
        return self.is_too_late(signed)

    def is_too_late(self, signed: SignedEntry) -> bool:
        """Whether no branch can bring an entry any more."""
        branches, entry = self._branches, signed.entry
        if entry.expiry_epoch < self._ledger.compute_epoch_at_slot(branches.get_slot()):
            return True
        state = branches.view.block_states[branches.view.finalized_checkpoint.root]
        try:
            return get_sequence(self._ledger.get_entry_context(state, entry), entry) >= entry.sequence
        except InvalidEntry:
            return False  # its author is not registered yet
