"""Bids for payloads, the payloads themselves, and withdrawals (gloas/beacon-chain, gloas/fork-choice)."""

from __future__ import annotations

from anchor.consensus.containers.gloas import (
    BuilderPendingPayment,
    BuilderPendingWithdrawal,
    ExecutionPayloadBid,
    ExecutionRequests,
    SignedExecutionPayloadBid,
    SignedExecutionPayloadEnvelope,
)
from anchor.consensus.containers.phase0 import BeaconBlock
from anchor.consensus.execution import ExecutionEngine, NewPayloadRequest
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.deneb import kzg_commitment_to_versioned_hash
from anchor.consensus.forks.gloas.builders import Builders
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.forks.registry import get_validator
from anchor.params import (
    BUILDER_INDEX_SELF_BUILD,
    DOMAIN_BEACON_BUILDER,
    G2_POINT_AT_INFINITY,
    GENESIS_SLOT,
    PAYLOAD_BUILDER_VERSION,
)


class Payloads(Builders):
    """A block carries a bid; the payload follows apart, and the next block tells whether it came."""

    # The parent's payload

    def process_parent_execution_payload(self, state: State, block: BeaconBlock) -> None:
        """Applies the requests of the parent's payload, when this block builds on it."""
        body: Body = block.body
        requests: ExecutionRequests = body.parent_execution_requests
        bid, parent_bid = body.signed_execution_payload_bid.message, state.latest_execution_payload_bid
        if bid.parent_block_hash != parent_bid.block_hash:
            empty = self.scope.schema("ExecutionRequests").default()
            require(
                requests == empty, lambda: "A block brings requests of a payload that it does not build on."
            )
            return
        root = self.hash_tree_root(requests)
        require(
            root == parent_bid.execution_requests_root,
            lambda: (
                f"The parent's bid has requests {parent_bid.execution_requests_root.hex()}, "
                f"and the block brings {root.hex()}."
            ),
        )
        self.apply_parent_execution_payload(state, requests)

    def apply_parent_execution_payload(self, state: State, requests: ExecutionRequests) -> None:
        """Pays the parent's builder, and does what its payload requests."""
        self.verify_request_counts(requests)
        # The payment comes first: a builder whose payment is pending may not exit.
        self.settle_parent_payment(state)
        self._for_operations(state, requests.deposits, self.process_deposit_request)
        self._for_operations(state, requests.withdrawals, self.process_withdrawal_request)
        self._for_operations(state, requests.consolidations, self.process_consolidation_request)
        self._for_operations(state, requests.builder_deposits, self.process_builder_deposit_request)
        self._for_operations(state, requests.builder_exits, self.process_builder_exit_request)
        self.set_payload_availability(state, state.latest_block_header.slot, True)
        state.latest_block_hash = state.latest_execution_payload_bid.block_hash

    def verify_request_counts(self, requests: ExecutionRequests) -> None:
        """Raises InvalidTransition when a payload makes more requests than it may."""
        for name, limit in (
            ("withdrawals", self.preset.MAX_WITHDRAWAL_REQUESTS_PER_PAYLOAD),
            ("consolidations", self.preset.MAX_CONSOLIDATION_REQUESTS_PER_PAYLOAD),
            ("builder_deposits", self.preset.MAX_BUILDER_DEPOSIT_REQUESTS_PER_PAYLOAD),
            ("builder_exits", self.preset.MAX_BUILDER_EXIT_REQUESTS_PER_PAYLOAD),
        ):
            self.verify_count(name, len(getattr(requests, name)), limit)

    def verify_count(self, name: str, count: int, limit: int) -> None:
        """Raises InvalidTransition when a list, which has no limit by its type, is too long."""
        require(
            count <= limit, lambda: f"There may be {limit} {name.replace('_', ' ')}, and there are {count}."
        )

    def settle_parent_payment(self, state: State) -> None:
        """Makes the payment for the parent's payload due."""
        bid: ExecutionPayloadBid = state.latest_execution_payload_bid
        slot = state.latest_block_header.slot
        epoch, place = self.compute_epoch_at_slot(slot), slot % self.preset.SLOTS_PER_EPOCH
        if epoch == self.get_current_epoch(state):
            self.settle_builder_payment(state, self.preset.SLOTS_PER_EPOCH + place)
        elif epoch == self.get_previous_epoch(state):
            self.settle_builder_payment(state, place)
        elif bid.value > 0:  # too old: no longer among the pending payments
            due = self.make_builder_withdrawal(bid)
            state.builder_pending_withdrawals = (*state.builder_pending_withdrawals, due)

    def make_builder_withdrawal(self, bid: ExecutionPayloadBid) -> BuilderPendingWithdrawal:
        """What a bid pays."""
        return BuilderPendingWithdrawal(
            fee_recipient=bid.fee_recipient, amount=bid.value, builder_index=bid.builder_index
        )

    def set_payload_availability(self, state: State, slot: int, available: bool) -> None:
        """Notes whether the payload of `slot` came."""
        place = slot % self.preset.SLOTS_PER_HISTORICAL_ROOT
        if state.execution_payload_availability[place] != available:
            changed = state.execution_payload_availability.with_bit(place, available)
            state.execution_payload_availability = changed

    # Bids

    def process_execution_payload_bid(self, state: State, signed_bid: SignedExecutionPayloadBid) -> None:
        """Takes a builder's bid for this block's payload."""
        bid = signed_bid.message
        self.verify_bidder(state, signed_bid)
        self.verify_bid(state, bid)
        if bid.value > 0:
            payment = BuilderPendingPayment(
                weight=0,
                withdrawal=self.make_builder_withdrawal(bid),
                proposer_index=self.get_beacon_proposer_index(state),
            )
            place = self.preset.SLOTS_PER_EPOCH + bid.slot % self.preset.SLOTS_PER_EPOCH
            self.set_builder_payment(state, place, payment)
        state.latest_execution_payload_bid = bid

    def verify_bidder(self, state: State, signed_bid: SignedExecutionPayloadBid) -> None:
        """Raises InvalidTransition unless a bid is the proposer's own, or by a builder who can pay it."""
        bid = signed_bid.message
        index, amount = bid.builder_index, bid.value
        if index == BUILDER_INDEX_SELF_BUILD:
            require(
                amount == 0 and signed_bid.signature == G2_POINT_AT_INFINITY,
                lambda: f"A proposer's own bid pays {amount}, or is signed: it does neither.",
            )
            return
        builder = self.get_builder(state, index)
        require(self.is_active_builder(state, index), lambda: f"Builder {index} is not active.")
        require(
            builder.version == PAYLOAD_BUILDER_VERSION,
            lambda: f"Builder {index} has version {builder.version}, which makes no payloads.",
        )
        require(
            self.can_builder_cover_bid(state, index, amount),
            lambda: f"Builder {index} bids {amount}, which its balance of {builder.balance} does not cover.",
        )
        message = self.compute_signing_root(bid, self.get_domain(state, DOMAIN_BEACON_BUILDER))
        self.require_signature(builder.pubkey, message, signed_bid.signature, lambda: f"the bid of {index}")

    def verify_bid(self, state: State, bid: ExecutionPayloadBid) -> None:
        """Raises InvalidTransition unless a bid is for this slot, on top of what the state holds."""
        epoch, slot = self.get_current_epoch(state), state.slot
        limit = self.get_max_blobs_per_block(epoch)
        self.verify_count("blob commitments", len(bid.blob_kzg_commitments), limit)
        require(
            bid.slot == slot > GENESIS_SLOT,
            lambda: f"A bid for slot {bid.slot} stands in a block of slot {slot}.",
        )
        for name, expected in (
            ("parent_block_hash", state.latest_block_hash),
            ("parent_block_root", self.get_block_root_at_slot(state, slot - 1)),
            ("prev_randao", self.get_randao_mix(state, epoch)),
        ):
            self.verify_equal(f"A bid for slot {slot}", name, getattr(bid, name), expected)
        require(
            bid.block_hash != bid.parent_block_hash,
            lambda: f"A bid for slot {slot} has a payload that is its own parent, {bid.block_hash.hex()}.",
        )

    def verify_equal(self, what: str, name: str, value: object, expected: object) -> None:
        """Raises InvalidTransition unless a field has the value that it must have."""
        if value != expected:
            shown = [v.hex() if isinstance(v, bytes) else str(v) for v in (value, expected)]
            require(False, lambda: f"{what} has {name} {shown[0]}, and not {shown[1]}.")

    # Payloads

    def verify_execution_payload_envelope(
        self, state: State, signed: SignedExecutionPayloadEnvelope, engine: ExecutionEngine
    ) -> None:
        """Raises InvalidTransition unless a payload is what the block of `state` has a bid for, and valid."""
        envelope, bid = signed.message, state.latest_execution_payload_bid
        payload, what = envelope.payload, f"The payload of slot {state.slot}"
        self.verify_envelope_signature(state, signed)
        header = state.latest_block_header.replace(state_root=self.hash_tree_root(state))
        withdrawals = self.scope.schema("BeaconState").schemas["payload_expected_withdrawals"]
        for name, value, expected in (
            ("beacon_block_root", envelope.beacon_block_root, self.hash_tree_root(header)),
            ("parent_beacon_block_root", envelope.parent_beacon_block_root, header.parent_root),
            ("builder_index", envelope.builder_index, bid.builder_index),
            ("prev_randao", payload.prev_randao, bid.prev_randao),
            ("gas_limit", payload.gas_limit, bid.gas_limit),
            ("block_hash", payload.block_hash, bid.block_hash),
            ("requests", self.hash_tree_root(envelope.execution_requests), bid.execution_requests_root),
            ("slot_number", payload.slot_number, state.slot),
            ("parent_hash", payload.parent_hash, state.latest_block_hash),
            ("timestamp", payload.timestamp, self.compute_time_at_slot(state.genesis_time, state.slot)),
            (
                "withdrawals",
                withdrawals.hash_tree_root(payload.withdrawals),
                self.field_root(state, "payload_expected_withdrawals"),
            ),
        ):
            self.verify_equal(what, name, value, expected)
        request = NewPayloadRequest(
            payload,
            tuple([kzg_commitment_to_versioned_hash(c) for c in bid.blob_kzg_commitments]),
            envelope.parent_beacon_block_root,
            envelope.execution_requests,
        )
        require(engine(request), lambda: f"The execution engine refuses payload {payload.block_hash.hex()}.")

    def verify_envelope_signature(self, state: State, signed: SignedExecutionPayloadEnvelope) -> None:
        """Raises InvalidTransition unless a payload is signed by its builder, or by its own proposer."""
        index = signed.message.builder_index
        if index == BUILDER_INDEX_SELF_BUILD:
            pubkey = get_validator(state.validators, state.latest_block_header.proposer_index).pubkey
        else:
            pubkey = self.get_builder(state, index).pubkey
        message = self.compute_signing_root(signed.message, self.get_domain(state, DOMAIN_BEACON_BUILDER))
        self.require_signature(pubkey, message, signed.signature, lambda: f"the payload of slot {state.slot}")
