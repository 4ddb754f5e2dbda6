"""Payloads that come apart from their blocks, and the votes of payload committees (gloas/fork-choice)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anchor.consensus.containers.gloas import (
    BeaconBlockBody,
    ExecutionPayloadBid,
    IndexedPayloadAttestation,
    PayloadAttestation,
    PayloadAttestationMessage,
    SignedExecutionPayloadEnvelope,
)
from anchor.consensus.containers.phase0 import BeaconBlock
from anchor.consensus.fork_choice.deneb import Retrieve, retrieve_nothing
from anchor.consensus.fork_choice.fulu import FuluForkChoice
from anchor.consensus.fork_choice.phase0 import require_now
from anchor.consensus.fork_choice.store import PayloadVote, PayloadVotes, Store
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.gloas import Gloas
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.forks.schedule import ForkSchedule
from anchor.params import PAYLOAD_STATUS_EMPTY, PAYLOAD_STATUS_FULL, PAYLOAD_STATUS_PENDING
from anchor.types import Root, ValidatorIndex


class PayloadRules(FuluForkChoice):
    """Which payloads came, and what payload committees say of them."""

    rules: Gloas

    def __init__(
        self, rules: Gloas, retrieve: Retrieve = retrieve_nothing, schedule: ForkSchedule | None = None
    ) -> None:
        super().__init__(rules, retrieve, schedule)

    def holds_payload(self, block: BeaconBlock) -> bool:
        """Whether a block is of a fork before gloas: its payload is in it, and it is one node of the tree."""
        return not isinstance(block.body, BeaconBlockBody)

    def is_payload_verified(self, store: Store, root: Root) -> bool:
        """Whether a block's payload came, and is valid."""
        return root in store.payloads or self.holds_payload(store.blocks[root])

    def get_bid(self, block: BeaconBlock) -> ExecutionPayloadBid:
        """The bid that a block takes."""
        body: Body = block.body
        bid: ExecutionPayloadBid = body.signed_execution_payload_bid.message
        return bid

    def get_parent_payload_status(self, store: Store, block: BeaconBlock) -> int:
        """Whether a block builds on its parent with the payload (full), or without (empty).

        A parent of before gloas has but one node, which stays pending.
        """
        parent = store.blocks[block.parent_root]
        if self.holds_payload(parent):
            return PAYLOAD_STATUS_PENDING
        is_full = self.get_bid(block).parent_block_hash == self.get_bid(parent).block_hash
        return PAYLOAD_STATUS_FULL if is_full else PAYLOAD_STATUS_EMPTY

    def is_parent_node_full(self, store: Store, block: BeaconBlock) -> bool:
        """Whether a block builds on its parent's payload."""
        return self.get_parent_payload_status(store, block) == PAYLOAD_STATUS_FULL

    # Payloads

    def on_execution_payload_envelope(self, store: Store, signed: SignedExecutionPayloadEnvelope) -> None:
        """Takes a block's payload: what builds on it can be imported from then on.

        Raises Premature when its block or its data is not there, InvalidTransition when it isn't the block's.
        """
        root = signed.message.beacon_block_root
        require_now(root in store.blocks, lambda: f"The payload's block, {root.hex()}, is unknown.")
        block = store.blocks[root]
        require(
            not self.holds_payload(block),
            lambda: f"The block of slot {block.slot} is older than gloas, and holds its payload.",
        )
        self.verify_data_available(root, self.get_bid(block).blob_kzg_commitments)
        self.rules.verify_execution_payload_envelope(store.block_states[root], signed, self.rules.engine)
        store.payloads[root] = signed.message
        self.add_full_node(store, root)

    def add_full_node(self, store: Store, root: Root) -> None:
        """Lets the tree grow on a block with its payload, which can be the head as the block without can."""
        tree, full = store.tree, ForkChoiceNode(root, PAYLOAD_STATUS_FULL)
        if full not in tree.places:
            empty = tree.places[ForkChoiceNode(root, PAYLOAD_STATUS_EMPTY)]
            tree.add(full, tree.slots[empty], tree.parents[empty], tree.eligible[empty])

    def verify_data_column_sidecar(self, sidecar: Any, commitments: Sequence[bytes]) -> None:
        """Raises InvalidTransition unless a column is well formed, for the bid's commitments."""
        self.verify_column_form(sidecar, len(commitments))

    # Votes of payload committees

    def on_payload_attestation_message(
        self, store: Store, message: PayloadAttestationMessage, is_from_block: bool = False
    ) -> None:
        """Takes one member's vote on a payload; a vote for another slot than the block's changes nothing.

        Raises Premature when the block is unknown, InvalidTransition unless it is the member's, and timely.
        """
        data, index = message.data, message.validator_index
        root = data.beacon_block_root
        require_now(root in store.blocks, lambda: f"A vote is on the payload of unknown block {root.hex()}.")
        state = store.block_states[root]
        if data.slot != state.slot:
            return
        members = self.rules.get_ptc(state, data.slot)
        require(
            index in members, lambda: f"Validator {index} has no vote on the payload of slot {data.slot}."
        )
        if not is_from_block:
            self.verify_payload_vote(store, state, message)
        for place in self.get_places(members, index):
            self.record_payload_vote(store, PayloadVote(place, data))

    def verify_payload_vote(self, store: Store, state: State, message: PayloadAttestationMessage) -> None:
        """Raises InvalidTransition unless a vote is of this slot, and signed."""
        data, current_slot = message.data, self.get_current_slot(store)
        require(
            data.slot == current_slot,
            lambda: f"A vote on the payload of slot {data.slot} came in slot {current_slot}.",
        )
        indexed = IndexedPayloadAttestation(
            attesting_indices=(message.validator_index,), data=data, signature=message.signature
        )
        self.rules.verify_indexed_payload_attestation(state, indexed)

    def get_places(self, members: Sequence[ValidatorIndex], index: ValidatorIndex) -> list[int]:
        """Where a validator is in a payload committee."""
        return [place for place, member in enumerate(members) if member == index]

    def record_payload_vote(self, store: Store, vote: PayloadVote) -> None:
        """Notes what was said at one place of a committee."""
        data = vote.data
        store.payload_timeliness_vote[data.beacon_block_root][vote.place] = data.payload_present
        store.payload_data_availability_vote[data.beacon_block_root][vote.place] = data.blob_data_available

    def list_payload_votes(
        self, store: Store, state: State, attestations: Sequence[PayloadAttestation]
    ) -> list[PayloadVote]:
        """The votes that a block brings, which were verified with it; `state` is the one after it.

        (The specification's `notify_ptc_messages`.)
        """
        votes = []
        for attestation in attestations:
            data, block_state = attestation.data, store.block_states[attestation.data.beacon_block_root]
            if data.slot == block_state.slot:
                members = self.rules.get_ptc(block_state, data.slot)
                indexed = self.rules.get_indexed_payload_attestation(state, attestation)
                for index in indexed.attesting_indices:
                    votes += [PayloadVote(place, data) for place in self.get_places(members, index)]
        return votes

    def payload_timeliness(self, store: Store, root: Root, timely: bool) -> bool:
        """Whether most of the committee say that a payload came in time (or, that it didn't)."""
        return self.has_majority(store, root, store.payload_timeliness_vote[root], timely)

    def payload_data_availability(self, store: Store, root: Root, available: bool) -> bool:
        """Whether most of the committee say that a payload's blobs are there (or, that they aren't)."""
        return self.has_majority(store, root, store.payload_data_availability_vote[root], available)

    def has_majority(self, store: Store, root: Root, votes: PayloadVotes, answer: bool) -> bool:
        """Whether most of the committee gave this answer; of a payload that isn't here, it is always no."""
        if not self.is_payload_verified(store, root):
            return not answer
        return votes.count(answer) > self.preset.PTC_SIZE // 2
