"""A light client: bootstrap, updates, forced updates (altair/light-client/sync-protocol).

An update in, a new store out. `verify_*` raises and changes nothing; the slot is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from anchor.consensus.bls import Signatures
from anchor.consensus.containers.altair import SyncCommittee
from anchor.consensus.fork_epochs import compute_fork_version
from anchor.consensus.light_client.headers import (
    Forms,
    Header,
    is_valid_normalized_merkle_branch,
    is_zero,
)
from anchor.consensus.presets import Config, Preset
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.consensus.sync_committee import is_signed_by
from anchor.errors import InvalidUpdate
from anchor.merkle.scope import Scope, hash_tree_root
from anchor.params import DOMAIN_SYNC_COMMITTEE
from anchor.types import Root, Slot

Update = Any
"""A LightClientUpdate of any fork."""
Bootstrap = Any
"""A LightClientBootstrap of any fork."""
GENESIS_SLOT: Final = 0
MIN_SYNC_COMMITTEE_PARTICIPANTS: Final = 1


@dataclass(frozen=True, slots=True)
class LightClientStore:
    """What a light client knows."""

    finalized_header: Header
    current_sync_committee: SyncCommittee
    next_sync_committee: SyncCommittee | None
    """None until an update has brought it."""
    best_valid_update: Update | None
    """What a forced update would apply."""
    optimistic_header: Header
    """The newest signed header, which need not become final."""
    previous_max_active_participants: int = 0
    current_max_active_participants: int = 0

    @property
    def safety_threshold(self) -> int:
        """Seats that must have signed for a header to count as the newest."""
        return max(self.previous_max_active_participants, self.current_max_active_participants) // 2


class LightClient:
    """The rules of one network's light client."""

    def __init__(
        self, preset: Preset, config: Config, genesis_validators_root: Root, signatures: Signatures
    ) -> None:
        self.forms = Forms(preset, config)
        self.signatures, self._genesis_validators_root = signatures, genesis_validators_root
        self._committee = Scope(preset).schema(SyncCommittee)
        self._timeout = preset.SLOTS_PER_EPOCH * preset.EPOCHS_PER_SYNC_COMMITTEE_PERIOD
        self._no_committee = self._committee.default()

    def initialize_light_client_store(
        self, trusted_block_root: Root, bootstrap: Bootstrap
    ) -> LightClientStore:
        """The store of someone who trusts a block. Raises InvalidUpdate when the bootstrap is not its own."""
        header = bootstrap.header
        _require(
            self.forms.is_valid_light_client_header(header), "The bootstrap's header contradicts its block."
        )
        root = hash_tree_root(header.beacon)
        _require(
            root == trusted_block_root,
            f"The bootstrap is of block 0x{root.hex()}, not of the trusted 0x{trusted_block_root.hex()}.",
        )
        index = self.forms.current_sync_committee_gindex_at_slot(header.beacon.slot)
        leaf = self._committee.hash_tree_root(bootstrap.current_sync_committee)
        branch = bootstrap.current_sync_committee_branch
        _require(
            is_valid_normalized_merkle_branch(leaf, branch, index, header.beacon.state_root),
            "The bootstrap's sync committee is not in the trusted block's state.",
        )
        return LightClientStore(header, bootstrap.current_sync_committee, None, None, header)

    def process_light_client_update(
        self, store: LightClientStore, update: Update, current_slot: Slot
    ) -> LightClientStore:
        """The store after an update, finality update or optimistic update. Raises InvalidUpdate."""
        self.verify_light_client_update(store, update, current_slot)
        return self.apply_verified_update(store, update)

    def verify_light_client_update(self, store: LightClientStore, update: Update, current_slot: Slot) -> None:
        """Raises InvalidUpdate unless the update follows from the store, and was signed by `current_slot`."""
        seats = update.sync_aggregate.sync_committee_bits.count_set()
        _require(seats >= MIN_SYNC_COMMITTEE_PARTICIPANTS, "Nobody has signed the update.")
        attested = update.attested_header
        _require(
            self.forms.is_valid_light_client_header(attested), "The attested header contradicts its block."
        )
        self._verify_order(update, current_slot)
        self._verify_relevance(store, update)
        self._verify_finality(update)
        self._verify_next_sync_committee(store, update)
        self._verify_signature(store, update)

    def _verify_order(self, update: Update, current_slot: Slot) -> None:
        """signature_slot is not in the future, and after what it signs, which is after what is final."""
        attested, finalized = update.attested_header.beacon.slot, get_finalized(update)
        final_slot = 0 if finalized is None else finalized.beacon.slot
        _require(
            current_slot >= update.signature_slot > attested >= final_slot,
            f"The update was signed in slot {update.signature_slot} for slot {attested}, with slot "
            f"{final_slot} final, and it is slot {current_slot}.",
        )

    def _verify_relevance(self, store: LightClientStore, update: Update) -> None:
        """The committee that signed is known, and the update brings something new."""
        period = self.forms.compute_sync_committee_period_at_slot
        stored, signed = period(store.finalized_header.beacon.slot), period(update.signature_slot)
        last = stored if store.next_sync_committee is None else stored + 1
        _require(
            stored <= signed <= last,
            f"The update is signed in period {signed}, and the store knows committees of {stored} to {last}.",
        )
        attested = update.attested_header.beacon.slot
        brings_committee = (
            store.next_sync_committee is None
            and is_sync_committee_update(update)
            and period(attested) == stored
        )
        _require(
            attested > store.finalized_header.beacon.slot or brings_committee,
            f"The update of slot {attested} brings nothing new.",
        )

    def _verify_finality(self, update: Update) -> None:
        finalized, attested = get_finalized(update), update.attested_header.beacon
        if finalized is None:
            left_out = "finalized_header" not in update.fields or self.forms.is_empty(update.finalized_header)
            _require(left_out, "The update names a final header, and does not prove it.")
            return
        root = bytes(32)
        if finalized.beacon.slot == GENESIS_SLOT:
            _require(self.forms.is_empty(finalized), "The final header of slot 0 is not left empty.")
        else:
            valid = self.forms.is_valid_light_client_header(finalized)
            _require(valid, "The final header contradicts its block.")
            root = hash_tree_root(finalized.beacon)
        index = self.forms.finalized_root_gindex_at_slot(attested.slot)
        _require(
            is_valid_normalized_merkle_branch(root, update.finality_branch, index, attested.state_root),
            "The final header is not the one in the attested state.",
        )

    def _verify_next_sync_committee(self, store: LightClientStore, update: Update) -> None:
        if not is_sync_committee_update(update):
            left_out = (
                "next_sync_committee" not in update.fields or update.next_sync_committee == self._no_committee
            )
            _require(left_out, "The update names a next sync committee, and does not prove it.")
            return
        attested, period = update.attested_header.beacon, self.forms.compute_sync_committee_period_at_slot
        known = store.next_sync_committee
        if known is not None and period(attested.slot) == period(store.finalized_header.beacon.slot):
            _require(update.next_sync_committee == known, "The update has another next sync committee.")
        leaf = self._committee.hash_tree_root(update.next_sync_committee)
        index = self.forms.next_sync_committee_gindex_at_slot(attested.slot)
        _require(
            is_valid_normalized_merkle_branch(
                leaf, update.next_sync_committee_branch, index, attested.state_root
            ),
            "The next sync committee is not the one in the attested state.",
        )

    def _verify_signature(self, store: LightClientStore, update: Update) -> None:
        period = self.forms.compute_sync_committee_period_at_slot
        committee: SyncCommittee | None = store.current_sync_committee
        if period(update.signature_slot) != period(store.finalized_header.beacon.slot):
            committee = store.next_sync_committee
        epoch = self.forms.compute_epoch_at_slot(max(update.signature_slot, 1) - 1)
        version = compute_fork_version(self.forms.config, epoch)
        domain = compute_domain(DOMAIN_SYNC_COMMITTEE, version, self._genesis_validators_root)
        message = compute_signing_root(hash_tree_root(update.attested_header.beacon), domain)
        aggregate, verify = update.sync_aggregate, self.signatures.fast_aggregate_verify
        bits, signature = aggregate.sync_committee_bits, aggregate.sync_committee_signature
        _require(
            committee is not None and is_signed_by(committee, bits, message, signature, verify),
            f"The update of slot {update.attested_header.beacon.slot} is not signed by its sync committee.",
        )

    def apply_verified_update(self, store: LightClientStore, update: Update) -> LightClientStore:
        """The store after an update that holds: the best to force, the newest header, and what is final."""
        seats = update.sync_aggregate.sync_committee_bits.count_set()
        size = len(update.sync_aggregate.sync_committee_bits)
        best = store.best_valid_update
        if best is None or is_better_update(self.forms, update, best):
            best = update
        most = max(store.current_max_active_participants, seats)
        store = replace(store, best_valid_update=best, current_max_active_participants=most)
        header = update.attested_header
        if seats > store.safety_threshold and header.beacon.slot > store.optimistic_header.beacon.slot:
            store = replace(store, optimistic_header=header)
        if seats * 3 >= size * 2 and self._brings_finality(store, update):
            store = replace(self.apply_light_client_update(store, update), best_valid_update=None)
        return store

    def _brings_finality(self, store: LightClientStore, update: Update) -> bool:
        finalized = get_finalized(update)
        if finalized is None:
            return False
        period = self.forms.compute_sync_committee_period_at_slot
        brings_committee = (
            store.next_sync_committee is None
            and is_sync_committee_update(update)
            and period(finalized.beacon.slot) == period(update.attested_header.beacon.slot)
        )
        return bool(finalized.beacon.slot > store.finalized_header.beacon.slot or brings_committee)

    def process_light_client_store_force_update(
        self, store: LightClientStore, current_slot: Slot
    ) -> LightClientStore:
        """The store after a whole period without finality: its best update counts as final."""
        best = store.best_valid_update
        if best is None or current_slot <= store.finalized_header.beacon.slot + self._timeout:
            return store
        finalized = get_finalized(best)
        if finalized is None or finalized.beacon.slot <= store.finalized_header.beacon.slot:
            finalized = best.attested_header
        return replace(self._finalize(store, best, finalized), best_valid_update=None)

    def apply_light_client_update(self, store: LightClientStore, update: Update) -> LightClientStore:
        """The store with what an update finalises."""
        return self._finalize(store, update, get_finalized(update))

    def _finalize(self, store: LightClientStore, update: Update, finalized: Header) -> LightClientStore:
        period = self.forms.compute_sync_committee_period_at_slot
        store_period = period(store.finalized_header.beacon.slot)
        brought = update.next_sync_committee if is_sync_committee_update(update) else None
        if store.next_sync_committee is None:
            if period(finalized.beacon.slot) != store_period:
                raise InvalidUpdate("An update of a later period cannot bring this period's next committee.")
            store = replace(store, next_sync_committee=brought)
        elif period(finalized.beacon.slot) == store_period + 1:
            store = replace(
                store,
                current_sync_committee=store.next_sync_committee,
                next_sync_committee=brought,
                previous_max_active_participants=store.current_max_active_participants,
                current_max_active_participants=0,
            )
        if finalized.beacon.slot > store.finalized_header.beacon.slot:
            store = replace(store, finalized_header=finalized)
            if finalized.beacon.slot > store.optimistic_header.beacon.slot:
                store = replace(store, optimistic_header=finalized)
        return store


def is_better_update(forms: Forms, new: Update, old: Update) -> bool:
    """Whether `new` is the one of two updates of a period to keep, and to hand out."""
    return _rank(forms, new) > _rank(forms, old)


def _rank(forms: Forms, update: Update) -> tuple[int, ...]:
    """What updates are compared by, most telling first."""
    bits = update.sync_aggregate.sync_committee_bits
    seats, period = bits.count_set(), forms.compute_sync_committee_period_at_slot
    attested, finalized = update.attested_header.beacon.slot, get_finalized(update)
    has_supermajority = seats * 3 >= len(bits) * 2
    return (
        has_supermajority,
        0 if has_supermajority else seats,
        is_sync_committee_update(update) and period(attested) == period(update.signature_slot),
        finalized is not None,
        finalized is not None and period(finalized.beacon.slot) == period(attested),
        seats,
        -attested,  # fewer changes to what is best
        -update.signature_slot,
    )


def is_sync_committee_update(update: Update) -> bool:
    """Whether an update brings the next sync committee."""
    return "next_sync_committee_branch" in update.fields and not is_zero(update.next_sync_committee_branch)


def get_finalized(update: Update) -> Header | None:
    """The header that an update proves to be final, if it does."""
    if "finality_branch" not in update.fields or is_zero(update.finality_branch):
        return None
    return update.finalized_header


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise InvalidUpdate(what, fix="Ask another node.")
