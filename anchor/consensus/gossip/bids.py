"""What builders, proposers and payload committees say before a payload comes (gloas/p2p-interface)."""

from __future__ import annotations

from anchor.consensus.containers.gloas import (
    ExecutionPayloadBid,
    PayloadAttestationMessage,
    ProposerPreferences,
    SignedExecutionPayloadBid,
    SignedProposerPreferences,
)
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_epochs import compute_fork_version
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.gossip.base import ignore_unless
from anchor.consensus.gossip.gloas import Envelopes
from anchor.consensus.signing import compute_domain
from anchor.errors import Ignored
from anchor.params import (
    DOMAIN_BEACON_BUILDER,
    DOMAIN_PROPOSER_PREFERENCES,
    DOMAIN_PTC_ATTESTER,
    PAYLOAD_BUILDER_VERSION,
)
from anchor.types import Epoch, Root, Slot


class Bids(Envelopes):
    """The topics payload_attestation_message, proposer_preferences and execution_payload_bid."""

    def validate_payload_attestation_message(
        self, store: Store, message: PayloadAttestationMessage, time_ms: int
    ) -> None:
        """The first vote of a payload committee's member on its slot's payload."""
        data, index = message.data, message.validator_index
        slot, root = data.slot, data.beacon_block_root
        epoch, key = self.rules.compute_epoch_at_slot(slot), ("payload_attestation", slot, index)
        is_gloas = epoch >= self.config.GLOAS_FORK_EPOCH
        require(is_gloas, lambda: f"There is no vote on a payload of slot {slot}.")
        self.ignore_seen(key)
        now = self.is_within_slots(store, slot, 0, time_ms)
        ignore_unless(now, lambda: f"It is not slot {slot} at {time_ms} ms.")
        self.verify_known(store, root)
        ignore_unless(
            store.blocks[root].slot == slot,
            lambda: f"A vote on the payload of slot {slot} is on a block of slot {store.blocks[root].slot}.",
        )
        state = self.get_head_state(store)
        members = self.rules.get_ptc(state, slot)
        require(index in members, lambda: f"Validator {index} has no vote on the payload of slot {slot}.")
        signed = self.compute_message(state, data, DOMAIN_PTC_ATTESTER, epoch)
        self.verify_signature(state, index, signed, message.signature, f"a vote on the payload of {slot}")
        self.seen.keys.add(key)

    # Preferences

    def validate_proposer_preferences(
        self, store: Store, signed: SignedProposerPreferences, time_ms: int
    ) -> None:
        """The first preferences of the proposer of a slot to come."""
        preferences = signed.message
        slot, root = preferences.proposal_slot, preferences.dependent_root
        epoch = self.rules.compute_epoch_at_slot(slot)
        known = (slot, root) in self.seen.preferences
        ignore_unless(not known, lambda: f"There have been preferences for slot {slot}.")
        start = self.get_lookahead_start_slot(epoch)
        allowed = self.config.MAXIMUM_GOSSIP_CLOCK_DISPARITY
        has_begun = time_ms > self.get_slot_time_ms(store, slot) + allowed
        ignore_unless(
            epoch >= self.config.GLOAS_FORK_EPOCH and not has_begun,
            lambda: f"Slot {slot} has begun, or is before gloas.",
        )
        self.ignore_future(store, start, time_ms)
        self.verify_dependent_block(store, root, max(start - 1, 0))
        state = store.block_states[root]
        if state.slot < start:
            state = self.choice.process_slots(state.copy(), start)
        self.verify_preferences(state, signed, epoch, slot - start)
        self.seen.preferences[slot, root] = preferences

    def get_lookahead_start_slot(self, epoch: Epoch) -> Slot:
        """From when on the proposers of an epoch are known."""
        return self.rules.compute_start_slot_at_epoch(max(epoch - self.preset.MIN_SEED_LOOKAHEAD, 0))  # type: ignore[no-any-return]

    def verify_dependent_block(self, store: Store, root: Root, last: Slot) -> None:
        """Raises an error unless a block is, or may become, the last one at or before a slot of its chain."""
        ignore_unless(root in store.blocks, lambda: f"Block {root.hex()} has not come, or was refused.")
        slot = store.blocks[root].slot
        require(slot <= last, lambda: f"A duty depends on slot {last}, not on the block of slot {slot}.")
        blocks = [*store.blocks.values(), *self.seen.unimported.values()]
        follows = any(block.parent_root == root and block.slot > last for block in blocks)
        ignore_unless(
            follows or root == self.choice.get_head(store).root,
            lambda: f"No duty depends on block {root.hex()}.",
        )

    def verify_preferences(
        self, state: State, signed: SignedProposerPreferences, epoch: Epoch, place: int
    ) -> None:
        """Raises InvalidTransition unless preferences are the proposer's, who signed."""
        preferences: ProposerPreferences = signed.message
        index, expected = preferences.validator_index, state.proposer_lookahead[place]
        require(
            index == expected,
            lambda: f"Slot {preferences.proposal_slot} is for proposer {expected}, not {index}.",
        )
        version = compute_fork_version(self.config, epoch)
        domain = compute_domain(DOMAIN_PROPOSER_PREFERENCES, version, state.genesis_validators_root)
        message = self.rules.compute_signing_root(preferences, domain)
        self.verify_signature(state, index, message, signed.signature, "a proposer's preferences")

    # Bids

    def validate_execution_payload_bid(
        self, store: Store, signed: SignedExecutionPayloadBid, time_ms: int
    ) -> None:
        """The first bid of a builder for a slot, if it is the highest, and as the proposer prefers."""
        bid = signed.message
        place = bid.slot, bid.parent_block_hash, bid.parent_block_root
        key = "execution_payload_bid", *place, bid.builder_index
        self.ignore_seen(key)
        best = self.seen.best_bids.get(place)
        ignore_unless(
            best is None or bid.value > best, lambda: f"A bid of {bid.value} Gwei is no more than {best}."
        )
        self.verify_bid_form(store, bid, time_ms)
        state = self.get_parent_state(store, bid)
        self.verify_bid_preferred(store, bid, state)
        mix = self.rules.get_randao_mix(state, self.rules.get_current_epoch(state))
        self.rules.verify_equal(f"A bid for slot {bid.slot}", "prev_randao", bid.prev_randao, mix)
        self.verify_builder(store, signed, self.choice.process_slots(state.copy(), bid.slot))
        self.seen.keys.add(key)
        self.seen.best_bids[place] = bid.value

    def verify_bid_form(self, store: Store, bid: ExecutionPayloadBid, time_ms: int) -> None:
        """Raises an error for a bid out of time, or one that no block may hold."""
        slot = bid.slot
        due = any(self.is_within_slots(store, number, 0, time_ms) for number in (slot, max(slot - 1, 0)))
        ignore_unless(due, lambda: f"A bid for slot {slot} comes at {time_ms} ms.")
        require(
            bid.execution_payment == 0 and bid.block_hash != bid.parent_block_hash,
            lambda: f"A bid for slot {slot} pays outside, or has a payload that is its own parent.",
        )
        self.verify_blob_count(slot, len(bid.blob_kzg_commitments))

    def get_parent_state(self, store: Store, bid: ExecutionPayloadBid) -> State:
        """The state of the block that a bid builds on. Raises an error unless it is there and recent."""
        slot, root = bid.slot, bid.parent_block_root
        self.ignore_unknown(store, root)
        parent = store.blocks.get(root) or self.seen.unimported[root]
        require(slot > parent.slot, lambda: f"A bid for slot {slot} builds on a block of slot {parent.slot}.")
        ignore_unless(root in store.blocks, lambda: f"Block {root.hex()} is not imported.")
        state = store.block_states[root]
        last = self.rules.get_current_epoch(state) + self.preset.MIN_SEED_LOOKAHEAD
        epoch = self.rules.compute_epoch_at_slot(slot)
        ignore_unless(epoch <= last, lambda: f"The proposer of slot {slot} is not known at {root.hex()}.")
        return state

    def verify_bid_preferred(self, store: Store, bid: ExecutionPayloadBid, state: State) -> None:
        """Raises Ignored unless the proposer would take a bid."""
        epoch = self.rules.compute_epoch_at_slot(bid.slot)
        dependent = self.choice.get_shuffling_dependent_root(store, bid.parent_block_root, epoch)
        preferences = self.seen.preferences.get((bid.slot, dependent))
        parent = self.seen.payloads.get(bid.parent_block_hash)
        if preferences is None or parent is None:
            raise Ignored(f"Preferences or the parent's payload for slot {bid.slot} have not come.")
        limit = compute_gas_limit(parent.gas_limit, preferences.target_gas_limit)
        ignore_unless(
            bid.fee_recipient == preferences.fee_recipient and bid.gas_limit == limit,
            lambda: f"The proposer of slot {bid.slot} prefers another recipient, or a gas limit of {limit}.",
        )
        ignore_unless(
            self.is_bid_compatible_with_head(store, bid),
            lambda: f"A bid for slot {bid.slot} does not build on the head.",
        )

    def is_bid_compatible_with_head(self, store: Store, bid: ExecutionPayloadBid) -> bool:
        """Whether a bid builds on the head, or beside it."""
        head = self.choice.get_head(store)
        block = store.blocks[head.root]
        own = self.choice.get_bid(block)
        on_parent_payload = bid.parent_block_hash == own.parent_block_hash
        if bid.parent_block_root == block.parent_root and on_parent_payload:
            return True
        if bid.parent_block_root != head.root:
            return False
        if self.choice.should_build_on_full(store, head, bid.slot):
            return bool(bid.parent_block_hash == own.block_hash)
        return bool(on_parent_payload)

    def verify_builder(self, store: Store, signed: SignedExecutionPayloadBid, state: State) -> None:
        """Raises an error unless the builder can pay, stays, and signed."""
        bid = signed.message
        index, builder = bid.builder_index, self.rules.get_builder(state, bid.builder_index)
        require(
            builder.version == PAYLOAD_BUILDER_VERSION and self.rules.is_active_builder(state, index),
            lambda: f"Builder {index} makes no payloads, or is not active.",
        )
        ignore_unless(
            self.rules.can_builder_cover_bid(state, index, bid.value),
            lambda: f"Builder {index} cannot pay {bid.value} Gwei.",
        )
        if bid.parent_block_hash == state.latest_execution_payload_bid.block_hash:
            exits = store.payloads[bid.parent_block_root].execution_requests.builder_exits
            leaving = [(request.pubkey, request.source_address) for request in exits]
            stays = (builder.pubkey, builder.execution_address) not in leaving
            ignore_unless(stays, lambda: f"Builder {index} may exit with the parent's payload.")
        epoch = self.rules.get_current_epoch(state)
        message = self.compute_message(state, bid, DOMAIN_BEACON_BUILDER, epoch)
        self.rules.require_signature(builder.pubkey, message, signed.signature, lambda: f"a bid of {index}")


def compute_gas_limit(parent: int, target: int) -> int:
    """The gas limit nearest to `target` that may follow `parent` (is_gas_limit_target_compatible)."""
    most = max(parent // 1024 - 1, 0)
    return min(max(target, parent - most), parent + most)
