"""Letting go of blocks and states that no bundle needs any more.

A bundle leads from a checkpoint that its reader trusts to the newest final one. Who trusts a checkpoint from
before its weak-subjectivity period is refused anyway: so blocks and states are kept from the newest state on
that is older than that, and with them all entries and manifests, however old. What is let go of is asked of a
node that keeps it all; where nobody does, nobody can replay the chain from its genesis.
"""

from __future__ import annotations

from bisect import bisect_left

from anchor.consensus.weak_subjectivity import compute_expiry
from anchor.node.chain import Chain
from anchor.node.store import Store


def prune_store(store: Store) -> int:
    """Lets go of what nobody's trust needs; returns how many blocks that were."""
    slot = find_prunable_slot(store)
    return 0 if slot is None else store.prune(slot)


def find_prunable_slot(store: Store) -> int | None:
    """The slot of the newest kept state that was too old to be trusted when the newest final one was made."""
    chain = Chain(store)
    now = int(chain.get_state(chain.get_finalized_checkpoint().root).timestamp)
    oldest = store.get_oldest_slot()
    slots = [slot for slot in store.get_snapshot_slots() if slot > oldest]

    def is_trusted(slot: int) -> bool:
        state = chain.decode_snapshot(store.get_snapshot_before(slot))
        return compute_expiry(state, chain.ledger.preset.SLOTS_PER_EPOCH) > now

    trusted = bisect_left(slots, True, key=is_trusted)
    return slots[trusted - 1] if trusted else None
