"""Which of the entries that were sent in can be recorded together, in the order in which they came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from anchor.consensus.containers.entries import SignedEntry
from anchor.errors import Invalid
from anchor.node.chain import Chain
from anchor.params import MAX_ENTRIES, MAX_ENTRIES_PER_AUTHOR


@dataclass(slots=True)
class Sifted:
    """Positions among the entries that were given."""

    taken: list[int] = field(default_factory=list)
    refused: dict[int, Invalid] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)
    """For the next block: this one has no room for them."""


def sift(chain: Chain, entries: Sequence[SignedEntry]) -> Sifted:
    """Judges entries against the newest state, each as if those taken before it were recorded."""
    ahead = chain.get_head().state.copy()
    chain.ledger.process_slots(ahead, chain.ledger.compute_start_slot_at_epoch(chain.get_next_epoch()))
    sifted, authors = Sifted(), Counter[bytes]()
    for place, signed in enumerate(entries):
        author = signed.entry.author
        if len(sifted.taken) == MAX_ENTRIES or authors[author] == MAX_ENTRIES_PER_AUTHOR:
            sifted.left.append(place)
            continue
        try:
            chain.ledger.verify_entry(ahead, signed)
        except Invalid as error:
            sifted.refused[place] = error
        else:
            chain.ledger.apply_entry(ahead, signed)
            sifted.taken.append(place)
            authors[author] += 1
    return sifted
