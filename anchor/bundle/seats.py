"""Finality shown by a sync committee, where validators are too many for votes: step 5 of the verifier.

Sources: specs/04-bundle §5, altair/light-client/sync-protocol; rule 20.
"""

from __future__ import annotations

from collections.abc import Sequence

from anchor.bundle.finality import Chain, Place, Seats, compute_checkpoint_epoch, signatures
from anchor.bundle.types import COMMITTEE_PATHS, MAX_VALIDATORS, Committee, root_of, state_index
from anchor.consensus.containers.altair import LightClientHeader, LightClientUpdate
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.light_client.headers import Forms
from anchor.consensus.light_client.store import (
    LightClient,
    LightClientStore,
    get_finalized,
    is_sync_committee_update,
)
from anchor.consensus.presets import LEDGER, LEDGER_CONFIG, Config
from anchor.errors import InvalidEvidence, InvalidProof
from anchor.merkle.proof import compute_multi_merkle_root


def verify_updates(
    before: Place, committees: Sequence[Committee], updates: Sequence[LightClientUpdate], chain: Chain
) -> tuple[tuple[Place, ...], tuple[Seats, ...]]:
    """Every finalised block that updates lead to from `before`, and who signed for it.

    Raises InvalidProof for a committee that is not the one in the state before, InvalidEvidence for a network
    that votes can show or for updates that prove too little, InvalidUpdate for those that don't hold.
    """
    if len(committees) != bool(updates):
        raise InvalidEvidence("A sync committee and its updates come together, or not at all.")
    _verify_committee(committees[0], before)
    client = LightClient(LEDGER, _make_config(chain), chain.network_id, signatures())
    header = LightClientHeader(beacon=before.header)
    store = LightClientStore(header, committees[0].committee, None, None, header)
    way, found = list[Place](), list[Seats]()
    for update in updates:
        found.append(_count_seats(update, store, client.forms))
        _verify_progress(update, store, client.forms)
        client.verify_light_client_update(store, update, update.signature_slot)
        store = client.apply_light_client_update(store, update)
        if store.finalized_header is update.finalized_header:
            way.append(get_place(store.finalized_header))
    if store.finalized_header is not updates[-1].finalized_header:
        raise InvalidEvidence("The last update brings a committee that nothing needs.")
    return tuple(way), tuple(found)


def get_place(header: LightClientHeader) -> Place:
    """A final block as a checkpoint."""
    epoch = compute_checkpoint_epoch(header.beacon.slot)
    return Place(Checkpoint(epoch=epoch, root=root_of(header.beacon)), header.beacon)


def _verify_committee(given: Committee, before: Place) -> None:
    """Where votes can show finality, nothing less does (rule 19)."""
    leaves = [given.validators.to_bytes(32, "little"), root_of(given.committee)]
    indices = [state_index(*path) for path in COMMITTEE_PATHS]
    if compute_multi_merkle_root(leaves, given.proof, indices) != before.header.state_root:
        raise InvalidProof("The sync committee is not the one in the state of the block before.")
    if given.validators <= MAX_VALIDATORS:
        raise InvalidEvidence(
            f"A sync committee stands for {given.validators} validators, whose votes are to be shown."
        )


def _make_config(chain: Chain) -> Config:
    """What tells the version that signatures are bound to, as `Chain.get_version`."""
    return LEDGER_CONFIG.replace(
        GENESIS_FORK_VERSION=chain.fork.previous_version,
        ALTAIR_FORK_VERSION=chain.fork.current_version,
        ALTAIR_FORK_EPOCH=chain.fork.epoch,
    )


def _count_seats(update: LightClientUpdate, store: LightClientStore, forms: Forms) -> Seats:
    """Raises InvalidEvidence for less than two thirds of the seats."""
    period, bits = forms.compute_sync_committee_period_at_slot, update.sync_aggregate.sync_committee_bits
    is_current = period(update.signature_slot) == period(store.finalized_header.beacon.slot)
    committee = store.current_sync_committee if is_current else store.next_sync_committee
    epoch = forms.compute_epoch_at_slot(update.attested_header.beacon.slot)
    places = bits.get_set_indices()
    if 3 * len(places) < 2 * len(bits):
        raise InvalidEvidence(
            f"{len(places)} of {len(bits)} seats signed for epoch {epoch}: less than two thirds."
        )
    keys = {committee.pubkeys[place] for place in places} if committee else set()
    return Seats(epoch, len(places), len(bits), len(keys))


def _verify_progress(update: LightClientUpdate, store: LightClientStore, forms: Forms) -> None:
    """An update makes a later block final, or brings the first next committee; a committee's state is of a
    period in which something became final.
    """
    period, final = forms.compute_sync_committee_period_at_slot, get_finalized(update)
    slot, brings = update.attested_header.beacon.slot, is_sync_committee_update(update)
    if final is None or not final.beacon.slot:
        raise InvalidEvidence(f"The update of slot {slot} makes nothing final.")
    if brings and not period(final.beacon.slot) == period(slot) == period(update.signature_slot):
        raise InvalidEvidence(f"The update of slot {slot} brings a committee of a period without finality.")
    is_first = brings and store.next_sync_committee is None
    if final.beacon.slot <= store.finalized_header.beacon.slot and not is_first:
        raise InvalidEvidence(f"The update of slot {slot} makes nothing new final.")
