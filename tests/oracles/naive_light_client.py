"""The ranking of light-client updates, one comparison after the other (altair/light-client/sync-protocol)."""

from __future__ import annotations

from typing import Any

from anchor.consensus.light_client.headers import Forms


def is_better(forms: Forms, new: Any, old: Any) -> bool:
    """Whether `new` is the better one of two updates of a period."""
    period = forms.compute_sync_committee_period_at_slot
    new_seats, old_seats = [sum(update.sync_aggregate.sync_committee_bits) for update in (new, old)]
    size = len(new.sync_aggregate.sync_committee_bits)
    new_many, old_many = new_seats * 3 >= size * 2, old_seats * 3 >= size * 2
    if new_many != old_many:
        return new_many
    if not new_many and new_seats != old_seats:
        return new_seats > old_seats
    new_brings, old_brings = [
        any(node != bytes(32) for node in update.next_sync_committee_branch)
        and period(update.attested_header.beacon.slot) == period(update.signature_slot)
        for update in (new, old)
    ]
    if new_brings != old_brings:
        return new_brings
    new_final, old_final = [
        any(node != bytes(32) for node in update.finality_branch) for update in (new, old)
    ]
    if new_final != old_final:
        return new_final
    if new_final:
        new_same, old_same = [
            period(update.finalized_header.beacon.slot) == period(update.attested_header.beacon.slot)
            for update in (new, old)
        ]
        if new_same != old_same:
            return new_same
    if new_seats != old_seats:
        return new_seats > old_seats
    new_slot, old_slot = new.attested_header.beacon.slot, old.attested_header.beacon.slot
    if new_slot != old_slot:
        return bool(new_slot < old_slot)
    return bool(new.signature_slot < old.signature_slot)
