"""Gloas: the fork choice decides about payloads too (gloas/fork-choice).

A block brings two nodes: pending, and below it the block without its payload (empty); its payload, once it is
there, brings a third (full). The next block builds on one of the latter two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anchor.consensus.containers.phase0 import AttestationData, BeaconBlock, Checkpoint, SignedBeaconBlock
from anchor.consensus.fork_choice.bellatrix import PayloadStatus
from anchor.consensus.fork_choice.payloads import PayloadRules
from anchor.consensus.fork_choice.phase0 import Imported, require_now
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_choice.tree import NOWHERE, ForkChoiceNode, Place
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import Body, State
from anchor.errors import Misuse
from anchor.params import (
    PAYLOAD_STATUS_EMPTY,
    PAYLOAD_STATUS_FULL,
    PAYLOAD_STATUS_PENDING,
)
from anchor.types import Gwei, Hash32, Root, Slot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class GloasForkChoice(PayloadRules):
    """The fork choice of gloas."""

    statuses: ClassVar[tuple[int, ...]] = (PAYLOAD_STATUS_PENDING, PAYLOAD_STATUS_EMPTY)

    def get_attestation_due_ms(self) -> int:
        return self.get_slot_component_duration_ms(self.config.ATTESTATION_DUE_BPS_GLOAS)

    def get_payload_attestation_due_ms(self) -> int:
        """When, in a slot, the payload committee votes."""
        return self.get_slot_component_duration_ms(self.config.PAYLOAD_ATTESTATION_DUE_BPS)

    def get_deadlines_ms(self) -> tuple[int, ...]:
        return self.get_attestation_due_ms(), self.get_payload_attestation_due_ms()

    # Blocks

    def on_optimistic_block(
        self,
        store: Store,
        signed_block: SignedBeaconBlock,
        status: PayloadStatus,
        latest_valid_hash: Hash32 | None = None,
    ) -> None:
        """Raises Misuse: a block of gloas holds no payload."""
        raise Misuse("A block of gloas holds no payload.", fix="Call on_execution_payload_envelope for it.")

    def verify_block_data(self, store: Store, root: Root, block: BeaconBlock) -> None:
        """Raises Premature when a block builds on a payload that hasn't come; its own comes later."""
        require_now(
            not self.is_parent_node_full(store, block) or self.is_payload_verified(store, block.parent_root),
            lambda: f"The block of slot {block.slot} builds on its parent's payload, which has not come.",
        )

    def verify_block(self, store: Store, root: Root, signed_block: SignedBeaconBlock) -> Imported:
        imported = super().verify_block(store, root, signed_block)
        body: Body = signed_block.message.body
        votes = self.list_payload_votes(store, imported.state, body.payload_attestations)
        return imported._replace(payload_votes=votes)

    def apply_block(self, store: Store, imported: Imported) -> None:
        for vote in imported.payload_votes:
            self.record_payload_vote(store, vote)
        super().apply_block(store, imported)

    def find_parent_node(self, store: Store, block: BeaconBlock) -> ForkChoiceNode:
        if block.parent_root not in store.blocks:
            return ForkChoiceNode(block.parent_root)
        return ForkChoiceNode(block.parent_root, self.get_parent_payload_status(store, block))

    def add_block(
        self,
        store: Store,
        root: Root,
        block: BeaconBlock,
        state: State,
        unrealized_justification: Checkpoint,
        timeliness: tuple[bool, ...],
    ) -> None:
        super().add_block(store, root, block, state, unrealized_justification, timeliness)
        store.payload_timeliness_vote[root] = [None] * self.preset.PTC_SIZE
        store.payload_data_availability_vote[root] = [None] * self.preset.PTC_SIZE

    # Votes

    def verify_vote(self, store: Store, data: AttestationData) -> None:
        super().verify_vote(store, data)
        root, index = data.beacon_block_root, data.index
        is_same_slot = store.blocks[root].slot == data.slot
        require(
            index == 0 or (index == 1 and not is_same_slot),
            lambda: f"A vote of slot {data.slot} has index {index}: it must be 0, or 1 for an older payload.",
        )
        require_now(
            index == 0 or self.is_payload_verified(store, root),
            lambda: f"A vote of slot {data.slot} is for a payload that has not come.",
        )

    def update_latest_messages(self, store: Store, voters: NDArray[np.int64], data: AttestationData) -> None:
        """Lets voters support the block, with its payload or without, unless they have voted later."""
        node = self.get_supported_node(store, data)
        store.votes.cast(store.tree, voters, store.tree.places[node], data.slot)

    def get_supported_node(self, store: Store, data: AttestationData) -> ForkChoiceNode:
        """What a vote is for: who votes in a block's own slot leaves its payload undecided."""
        root, block = data.beacon_block_root, store.blocks[data.beacon_block_root]
        if block.slot == data.slot or self.holds_payload(block):
            return ForkChoiceNode(root)
        return ForkChoiceNode(root, PAYLOAD_STATUS_FULL if data.index == 1 else PAYLOAD_STATUS_EMPTY)

    # Weights

    def get_weight(self, store: Store, node: ForkChoiceNode) -> Gwei:
        """The weight of `node`; none where not weight decides, but the payload committee."""
        return 0 if self.is_previous_slot_payload_decision(store, node) else super().get_weight(store, node)

    def is_previous_slot_payload_decision(self, store: Store, node: ForkChoiceNode) -> bool:
        """Whether a node is a block of the previous slot with or without its payload."""
        is_previous = store.blocks[node.root].slot + 1 == self.get_current_slot(store)
        return is_previous and node.payload_status != PAYLOAD_STATUS_PENDING

    def should_apply_proposer_boost(self, store: Store) -> bool:
        """Whether the boosted block counts more: not if its parent is weak and its proposer made two."""
        if not super().should_apply_proposer_boost(store):
            return False
        block = store.blocks[store.proposer_boost_root]
        parent = store.blocks[block.parent_root]
        if parent.slot + 1 < block.slot or not self.is_head_weak(store, block.parent_root):
            return True
        rivals = [root for root in store.roots_at_slot[parent.slot] if root != block.parent_root]
        return not any(
            store.block_timeliness[root][-1]  # by the last deadline: since gloas, the payload committee's
            and store.blocks[root].proposer_index == parent.proposer_index
            for root in rivals
        )

    # Head

    def get_head(self, store: Store) -> ForkChoiceNode:
        self.settle(store)
        root = store.justified_checkpoint.root
        if not store.tree.viable[self.get_base(store)] and not self.holds_payload(store.blocks[root]):
            return ForkChoiceNode(root, PAYLOAD_STATUS_EMPTY)
        return super().get_head(store)

    def get_best_child(self, store: Store, place: Place) -> Place:
        tree = store.tree
        best = tree.best[place]
        if best == NOWHERE or not self.is_previous_slot_payload_decision(store, tree.nodes[best]):
            return best
        viable = [child for child in tree.children[place] if tree.viable[child]]
        return max(viable, key=lambda child: self.get_payload_status_tiebreaker(store, tree.nodes[child]))

    def get_payload_status_tiebreaker(self, store: Store, node: ForkChoiceNode) -> int:
        """Which of a block's nodes to prefer, of equal weight: the larger one."""
        if not self.is_previous_slot_payload_decision(store, node):
            return node.payload_status
        if node.payload_status == PAYLOAD_STATUS_EMPTY:
            return 1
        return 2 if self.should_extend_payload(store, node.root) else 0

    def should_extend_payload(self, store: Store, root: Root) -> bool:
        """Whether the payload of the previous slot's block counts as there for this slot's votes."""
        if not self.is_payload_verified(store, root):
            return False
        proposed = store.blocks.get(store.proposer_boost_root)
        return (
            (
                self.payload_timeliness(store, root, timely=True)
                and self.payload_data_availability(store, root, available=True)
            )
            or proposed is None
            or proposed.parent_root != root
            or self.is_parent_node_full(store, proposed)
        )

    def should_build_on_full(self, store: Store, head: ForkChoiceNode, slot: Slot) -> bool:
        """Whether the proposer of `slot` builds on the head's payload. Raises Misuse for a pending head."""
        if self.holds_payload(store.blocks[head.root]):
            return True
        if head.payload_status == PAYLOAD_STATUS_PENDING:
            raise Misuse(f"The payload of {head.root.hex()} is undecided: ask for the head first.")
        is_full = head.payload_status == PAYLOAD_STATUS_FULL
        if not is_full or store.blocks[head.root].slot + 1 != slot:
            return is_full
        return not (
            self.payload_timeliness(store, head.root, timely=False)
            or self.payload_data_availability(store, head.root, available=False)
        )
