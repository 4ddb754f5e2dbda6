"""How much stake supports a block, and how much may turn against it (phase0/fast-confirmation, helpers)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.fork_choice.phase0 import ForkChoice
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_choice.tree import NOWHERE, ForkChoiceNode
from anchor.consensus.forks.phase0.base import State
from anchor.merkle.lazy import np
from anchor.params import COMMITTEE_WEIGHT_ESTIMATION_ADJUSTMENT_FACTOR
from anchor.types import Gwei, Root, Slot

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Support:
    """Sums of stake, over the columns of votes. Ranges of slots include both ends."""

    def __init__(self, choice: ForkChoice) -> None:
        """`choice` is the fork choice of the fork that rules now."""
        self.choice, self.rules = choice, choice.rules
        self._byzantine: int = choice.config.CONFIRMATION_BYZANTINE_THRESHOLD

    # Who

    def get_committee_flags(self, store: Store, first: Slot, last: Slot, count: int) -> NDArray[np.bool_]:
        """(count,): who is in a committee of these slots, by the head's state (get_slot_committee)."""
        state, flags = store.block_states[self.choice.get_head(store).root], np.zeros(count, np.bool_)
        for slot in range(first, last + 1):
            epoch = self.rules.compute_epoch_at_slot(slot)
            for index in range(self.rules.get_committee_count_per_slot(state, epoch)):
                members = self.rules.get_beacon_committee(state, slot, index)
                flags[members[members < count]] = True
        return flags

    def get_active_balances(self, state: State) -> NDArray[np.uint64]:
        """(n,): the effective balance of who is active, slashed or not."""
        active = self.rules.get_active_set(state, self.rules.get_current_epoch(state)).flags
        balances: NDArray[np.uint64] = state.validators.column("effective_balance") * active
        return balances

    def get_voting_balances(self, store: Store, state: State) -> NDArray[np.uint64]:
        """(n,): what each vote counts by `state`: nothing of who is slashed, has no vote, or equivocates."""
        balances, votes = self.get_active_balances(state), store.votes
        known = min(len(balances), len(votes.places))
        counted = (votes.places[:known] != NOWHERE) & ~votes.equivocating[:known]
        balances[:known] *= counted & ~state.validators.column("slashed")[:known]
        balances[known:] = 0
        return balances

    def get_pulled_up_head_state(self, store: Store) -> State:
        """The head's state, at the start of the current epoch at the earliest."""
        epoch, head = self.choice.get_current_store_epoch(store), self.choice.get_head(store).root
        return self.choice.get_checkpoint_state(store, Checkpoint(epoch=epoch, root=head))

    def get_current_target(self, store: Store) -> Checkpoint:
        """What the head's chain has as the target of votes now."""
        epoch, head = self.choice.get_current_store_epoch(store), self.choice.get_head(store).root
        return Checkpoint(epoch=epoch, root=self.choice.get_checkpoint_block(store, head, epoch))

    # Sums

    def get_attestation_score(self, store: Store, node: ForkChoiceNode, state: State) -> Gwei:
        """The weight by `state` of the latest votes for `node` and what descends from it."""
        balances, tree = self.get_voting_balances(store, state), store.tree
        voters = np.flatnonzero(balances)
        places, inverse = np.unique(store.votes.places[voters], return_inverse=True)
        above = tree.places[node]
        supports = np.array([tree.is_ancestor(above, int(place)) for place in places], np.bool_)
        return int(balances[voters[supports[inverse]]].sum()) if len(voters) else 0

    def get_node_support_between_slots(
        self, store: Store, balance_source: State, node: ForkChoiceNode, start_slot: Slot, end_slot: Slot
    ) -> Gwei:
        """The weight of the votes for `node` itself by the committees of these slots."""
        balances = self.get_voting_balances(store, balance_source)
        flags = self.get_committee_flags(store, start_slot, end_slot, len(balances))
        voters = np.flatnonzero(balances * flags)
        chosen = voters[store.votes.places[voters] == store.tree.places[node]]
        return int(balances[chosen].sum())

    def get_equivocation_score(
        self, store: Store, balance_source: State, start_slot: Slot, end_slot: Slot
    ) -> Gwei:
        """The weight of equivocators in the committees of these slots."""
        balances = self.get_active_balances(balance_source)
        flags = self.get_committee_flags(store, start_slot, end_slot, len(balances))
        known = min(len(balances), len(store.votes.equivocating))
        return int((balances[:known] * flags[:known])[store.votes.equivocating[:known]].sum())

    def get_current_target_score(self, store: Store) -> Gwei:
        """The weight of the latest votes that have the current target, as far as their blocks tell."""
        target, votes = self.get_current_target(store), store.votes
        balances = self.get_voting_balances(store, self.get_pulled_up_head_state(store))
        voters = np.flatnonzero(balances)
        size = self.rules.preset.SLOTS_PER_EPOCH
        voters = voters[votes.times[voters] // size == target.epoch]
        total = 0
        for place in np.unique(votes.places[voters]):
            root = store.tree.nodes[place].root
            if self.choice.get_checkpoint_block(store, root, target.epoch) == target.root:
                total += int(balances[voters[votes.places[voters] == place]].sum())
        return total

    # Estimates

    def is_full_validator_set_covered(self, start_slot: Slot, end_slot: Slot) -> bool:
        """Whether a whole epoch lies in these slots."""
        first = self.rules.compute_epoch_at_slot(start_slot + self.rules.preset.SLOTS_PER_EPOCH - 1)
        return first < self.rules.compute_epoch_at_slot(end_slot + 1)

    def estimate_committee_weight_between_slots(
        self, total_active_balance: Gwei, start_slot: Slot, end_slot: Slot
    ) -> Gwei:
        """What the committees of these slots weigh together, with high probability at least."""
        if start_slot > end_slot:
            return 0
        if self.is_full_validator_set_covered(start_slot, end_slot):
            return total_active_balance
        size: int = self.rules.preset.SLOTS_PER_EPOCH
        per_slot = total_active_balance // size
        if start_slot // size == end_slot // size:
            return per_slot * (end_slot - start_slot + 1)
        before, after = size - start_slot % size, end_slot % size + 1
        estimate = per_slot * before // size * (size - after) + per_slot * after
        return -(-estimate // 1000) * (1000 + COMMITTEE_WEIGHT_ESTIMATION_ADJUSTMENT_FACTOR)

    def compute_adversarial_weight(
        self, store: Store, balance_source: State, start_slot: Slot, end_slot: Slot
    ) -> Gwei:
        """What may be adversarial in the committees of these slots, beside who equivocated already."""
        total = self.rules.get_total_active_balance(balance_source)
        weight = self.estimate_committee_weight_between_slots(total, start_slot, end_slot)
        known = self.get_equivocation_score(store, balance_source, start_slot, end_slot)
        return max(weight // 100 * self._byzantine - known, 0)

    def get_adversarial_weight(self, store: Store, balance_source: State, root: Root) -> Gwei:
        """What may be adversarial among those who could have voted for a block."""
        block = store.blocks[root]
        epoch = self.rules.compute_epoch_at_slot(block.slot)
        start = block.slot
        if epoch > self.rules.compute_epoch_at_slot(store.blocks[block.parent_root].slot):
            start = self.rules.compute_start_slot_at_epoch(epoch)
        now = self.choice.get_current_slot(store)
        return self.compute_adversarial_weight(store, balance_source, start, now - 1)

    def compute_empty_slot_support_discount(self, store: Store, balance_source: State, root: Root) -> Gwei:
        """What voted for the parent in the empty slots before a block, adversaries apart."""
        block = store.blocks[root]
        parent_slot = store.blocks[block.parent_root].slot
        if parent_slot + 1 == block.slot:
            return 0
        parent, span = self.choice.get_parent_node(store, root), (parent_slot + 1, block.slot - 1)
        support = self.get_node_support_between_slots(store, balance_source, parent, *span)
        return max(support - self.compute_adversarial_weight(store, balance_source, *span), 0)

    def compute_safety_threshold(self, store: Store, root: Root, balance_source: State) -> Gwei:
        """The weight beyond which no rival of a block can win."""
        total = self.rules.get_total_active_balance(balance_source)
        parent_slot = store.blocks[store.blocks[root].parent_root].slot
        now = self.choice.get_current_slot(store)
        most = self.estimate_committee_weight_between_slots(total, parent_slot + 1, now - 1)
        per_slot = total // self.rules.preset.SLOTS_PER_EPOCH
        boost: Gwei = per_slot * self.choice.config.PROPOSER_SCORE_BOOST // 100
        adversarial = self.get_adversarial_weight(store, balance_source, root)
        discount = self.compute_empty_slot_support_discount(store, balance_source, root)
        return max(most + boost + 2 * adversarial - discount, 0) // 2

    def is_one_confirmed(self, store: Store, balance_source: State, root: Root) -> bool:
        """Whether a block outweighs all its rivals for good, if those before it do (is_one_confirmed)."""
        if root in store.optimistic_roots:
            return False
        support = self.get_attestation_score(store, ForkChoiceNode(root), balance_source)
        return support > self.compute_safety_threshold(store, root, balance_source)

    # Finality

    def compute_honest_ffg_support_for_current_target(self, store: Store) -> Gwei:
        """What honest validators have voted and will vote for the current target, at least."""
        state, slot = self.get_pulled_up_head_state(store), self.choice.get_current_slot(store)
        total = self.rules.get_total_active_balance(state)
        start = slot - slot % self.rules.preset.SLOTS_PER_EPOCH
        voted = self.estimate_committee_weight_between_slots(total, start, slot - 1)
        to_come = (total - voted) // 100 * (100 - self._byzantine)
        adversarial = self.compute_adversarial_weight(store, state, start, slot - 1)
        return max(self.get_current_target_score(store) - adversarial, 0) + to_come

    def will_no_conflicting_checkpoint_be_justified(self, store: Store) -> bool:
        """Whether nothing but the current target can be justified in this epoch."""
        if self.get_current_target(store) == store.unrealized_justified_checkpoint:
            return True
        total = self.rules.get_total_active_balance(self.get_pulled_up_head_state(store))
        return bool(3 * self.compute_honest_ffg_support_for_current_target(store) > total)

    def will_current_target_be_justified(self, store: Store) -> bool:
        """Whether the current target will be justified."""
        total = self.rules.get_total_active_balance(self.get_pulled_up_head_state(store))
        return bool(3 * self.compute_honest_ffg_support_for_current_target(store) >= 2 * total)
