"""Derives the updates of light clients that lead from a checkpoint to a newer one (specs/04-bundle §6)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from anchor.bundle.finality import Place
from anchor.bundle.seats import get_place
from anchor.bundle.types import (
    COMMITTEE_PATHS,
    LEDGER_SCOPE,
    MAX_VALIDATORS,
    Committee,
    root_of,
    state_index,
)
from anchor.bundle.view import LedgerView
from anchor.consensus.containers.altair import LightClientHeader, LightClientUpdate
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms
from anchor.consensus.light_client.store import is_sync_committee_update
from anchor.consensus.presets import LEDGER, LEDGER_CONFIG
from anchor.merkle.proof import build_multiproof


def build_committee(view: LedgerView, place: Place) -> Committee:
    """The sync committee in the state of `place`."""
    state = view.get_state(place.checkpoint.root)
    tree = LEDGER_SCOPE.schema("BeaconState").tree(state)
    return Committee(
        validators=len(state.validators),
        committee=state.current_sync_committee,
        proof=build_multiproof(tree, [state_index(*path) for path in COMMITTEE_PATHS]),
    )


def build_updates(
    view: LedgerView, start: Place, goals: Sequence[int]
) -> Iterator[tuple[Place, tuple[LightClientUpdate, ...]]]:
    """The blocks that a sync committee can show to be final, up to the epochs `goals` in turn, and what leads
    to each: one update, or two of which the first brings a committee. None where votes show finality.
    """
    if len(view.get_state(start.checkpoint.root).validators) <= MAX_VALIDATORS:
        return
    place, known = start, _get_period(start.header.slot)
    for goal in goals:
        updates: tuple[LightClientUpdate, ...] = ()
        while update := _find_update(view, place, known, goal):
            updates += (update,)
            if is_sync_committee_update(update):
                known = _get_period(update.attested_header.beacon.slot) + 1
            if update.finalized_header.beacon.slot > place.header.slot:
                place = get_place(update.finalized_header)
                yield place, updates
                updates = ()


def _find_update(view: LedgerView, place: Place, known: int, goal: int) -> LightClientUpdate | None:
    """The last update, signed by a known committee, that makes a later block final, not beyond `goal`.

    Where just the committee of `place` is known, one that brings the next will do. `known` is the last
    period whose committee is.
    """
    end = (known + 1) * _get_period_slots()
    pairs = list(pairwise(view.get_blocks_between(place.header.slot, end)))
    stop = bisect_right(pairs, goal, key=lambda pair: _get_final_epoch(view, pair[0]))
    for attested, signing in reversed(pairs[:stop]):
        update = derive_update(view, attested, signing)
        if update is None:  # nor is there one before it: what is final never goes back
            return None
        is_newer = update.finalized_header.beacon.slot > place.header.slot
        is_first = known == _get_period(place.header.slot) and is_sync_committee_update(update)
        if not is_newer and not is_first:
            return None
        bits = update.sync_aggregate.sync_committee_bits
        if 3 * bits.count_set() >= 2 * len(bits):
            return update
    return None


def _get_final_epoch(view: LedgerView, block: SignedBeaconBlock) -> int:
    return view.get_state(root_of(block.message)).finalized_checkpoint.epoch


def derive_update(
    view: LedgerView, attested: SignedBeaconBlock, signing: SignedBeaconBlock
) -> LightClientUpdate | None:
    """What `signing` says of its parent, without a committee where what is final is of an earlier period.

    None where nothing but the genesis is final there.
    """
    state = view.get_state(root_of(attested.message))
    if state.finalized_checkpoint.epoch == 0:
        return None
    deriver = Deriver(Forms(LEDGER, LEDGER_CONFIG), LEDGER_SCOPE)
    final = LightClientHeader(beacon=view.get_header(state.finalized_checkpoint.root))
    unsigned = deriver.create_unsigned_update(deriver.block_to_light_client_header(attested), state, final)
    update: LightClientUpdate = deriver.create_light_client_update(unsigned, signing)
    if _get_period(final.beacon.slot) == _get_period(attested.message.slot):
        return update
    empty = LEDGER_SCOPE.schema(LightClientUpdate).default()
    return update.replace(
        next_sync_committee=empty.next_sync_committee,
        next_sync_committee_branch=empty.next_sync_committee_branch,
    )


def _get_period(slot: int) -> int:
    return slot // _get_period_slots()


def _get_period_slots() -> int:
    return LEDGER.SLOTS_PER_EPOCH * LEDGER.EPOCHS_PER_SYNC_COMMITTEE_PERIOD
