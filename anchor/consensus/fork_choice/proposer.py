"""When a proposer builds on the parent of a late and weak head (phase0/fork-choice)."""

from __future__ import annotations

from anchor.consensus.fork_choice.accessors import Accessors
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.errors import Misuse
from anchor.merkle.lazy import np
from anchor.params import ATTESTATION_TIMELINESS_INDEX
from anchor.types import Gwei, Root, Slot


class ProposerRules(Accessors):
    """`get_proposer_head` and the questions that it asks."""

    def is_head_late(self, store: Store, head_root: Root) -> bool:
        """Whether a block came after its attestations were due."""
        return not store.block_timeliness[head_root][ATTESTATION_TIMELINESS_INDEX]

    def is_shuffling_stable(self, slot: Slot) -> bool:
        """Whether proposers don't change with the block of `slot`."""
        return slot % self.preset.SLOTS_PER_EPOCH != 0

    def is_ffg_competitive(self, store: Store, head_root: Root, parent_root: Root) -> bool:
        """Whether the parent justifies as much as the head."""
        return store.unrealized_justifications[head_root] == store.unrealized_justifications[parent_root]

    def is_finalization_ok(self, store: Store, slot: Slot) -> bool:
        """Whether the chain finalises often enough for a reorganisation to be harmless."""
        passed = self.rules.compute_epoch_at_slot(slot) - store.finalized_checkpoint.epoch
        allowed: int = self.config.REORG_MAX_EPOCHS_SINCE_FINALIZATION
        return passed <= allowed

    def is_proposing_on_time(self, store: Store) -> bool:
        """Whether there is time enough left in the slot."""
        cutoff = self.get_slot_component_duration_ms(self.config.PROPOSER_REORG_CUTOFF_BPS)
        return self.get_time_into_slot_ms(store) <= cutoff

    def is_head_weak(self, store: Store, head_root: Root) -> bool:
        """Whether few votes support a block, those of equivocators in its slot included."""
        weight = self.get_attestation_score(store, ForkChoiceNode(head_root))
        weight += self.get_equivocating_weight(store, head_root)
        return weight < self.calculate_committee_fraction(store, self.config.REORG_HEAD_WEIGHT_THRESHOLD)

    def get_equivocating_weight(self, store: Store, root: Root) -> Gwei:
        """The effective balance of equivocators in the committees of a block's slot."""
        flags = store.votes.equivocating
        if not flags.any():
            return 0
        state, slot = store.block_states[root], store.blocks[root].slot
        count = self.rules.get_committee_count_per_slot(state, self.rules.compute_epoch_at_slot(slot))
        committees = [self.rules.get_beacon_committee(state, slot, index) for index in range(count)]
        members = np.concatenate(committees)
        balances = self.get_justified_state(store).validators.column("effective_balance")
        known = members[members < min(len(flags), len(balances))]
        return int(balances[known[flags[known]]].sum())

    def is_parent_strong(self, store: Store, root: Root) -> bool:
        """Whether many votes support a block's parent: none are held back."""
        parent = ForkChoiceNode(store.blocks[root].parent_root)
        threshold = self.calculate_committee_fraction(store, self.config.REORG_PARENT_WEIGHT_THRESHOLD)
        return self.get_attestation_score(store, parent) > threshold

    def is_proposer_equivocation(self, store: Store, root: Root) -> bool:
        """Whether a block's proposer made another one for the slot."""
        block = store.blocks[root]
        rivals = [store.blocks[other] for other in store.roots_at_slot[block.slot]]
        return [rival.proposer_index for rival in rivals].count(block.proposer_index) > 1

    def get_parent_node(self, store: Store, root: Root) -> ForkChoiceNode:
        """The node that a block builds on."""
        tree = store.tree
        return tree.nodes[tree.parents[tree.places[ForkChoiceNode(root)]]]

    def get_proposer_head(self, store: Store, head_node: ForkChoiceNode, slot: Slot) -> ForkChoiceNode:
        """What the proposer of `slot` builds on: the head, or its parent.

        Raises Misuse while the head has the boost: that is in the head's own slot.
        """
        root, head = head_node.root, store.blocks[head_node.root]
        if store.proposer_boost_root == root:
            raise Misuse(f"The head of slot {head.slot} is still boosted, so {slot} has no proposer yet.")
        if head.parent_root not in store.blocks:  # the first block of the store
            return head_node
        parent, is_next = self.get_parent_node(store, root), head.slot + 1 == slot
        weak = self.is_head_weak(store, root)
        if is_next and weak and self.is_proposer_equivocation(store, root):
            return parent
        reorganises = (
            self.is_head_late(store, root)
            and self.is_shuffling_stable(slot)
            and self.is_ffg_competitive(store, root, parent.root)
            and self.is_finalization_ok(store, slot)
            and self.is_proposing_on_time(store)
            and store.blocks[parent.root].slot + 1 == head.slot
            and is_next
            and weak
            and self.is_parent_strong(store, root)
        )
        return parent if reorganises else head_node
