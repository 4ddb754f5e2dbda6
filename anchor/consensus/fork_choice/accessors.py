"""Reading a store: its time, ancestors, weights and head (phase0/fork-choice, helpers)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_choice.tree import NOWHERE, ForkChoiceNode, Place
from anchor.consensus.forks.cache import Cache
from anchor.consensus.forks.phase0 import Phase0
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.weak_subjectivity import is_within_weak_subjectivity_period
from anchor.merkle.lazy import np
from anchor.params import BASIS_POINTS, GENESIS_EPOCH, PAYLOAD_STATUS_PENDING
from anchor.types import Epoch, Gwei, Root, Slot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anchor.consensus.forks.schedule import ForkSchedule


class Accessors:
    """The specification's `get_` and `is_` functions, under the rules of one fork."""

    statuses: ClassVar[tuple[int, ...]] = (PAYLOAD_STATUS_PENDING,)
    """The nodes that a block brings into the tree, each below the one before."""

    def __init__(self, rules: Phase0, schedule: ForkSchedule | None = None) -> None:
        """`rules` are the fork's. With a `schedule`, states may be of the forks before it."""
        self.rules, self.schedule = rules, schedule
        self.preset, self.config = rules.preset, rules.config
        self._checkpoint_states: Cache[State] = Cache(8)
        self._committee_weights: Cache[Gwei] = Cache(4)

    # Time

    def get_current_slot(self, store: Store) -> Slot:
        """The slot of the store's time."""
        slot: Slot = (store.time_ms - store.genesis_time_ms) // self.config.SLOT_DURATION_MS
        return slot

    def get_current_store_epoch(self, store: Store) -> Epoch:
        """The epoch of the store's time."""
        return self.rules.compute_epoch_at_slot(self.get_current_slot(store))

    def get_time_into_slot_ms(self, store: Store) -> int:
        """Milliseconds since the current slot began."""
        passed: int = (store.time_ms - store.genesis_time_ms) % self.config.SLOT_DURATION_MS
        return passed

    def get_slot_component_duration_ms(self, basis_points: int) -> int:
        """Milliseconds of a part of a slot."""
        duration: int = basis_points * self.config.SLOT_DURATION_MS // BASIS_POINTS
        return duration

    def get_attestation_due_ms(self) -> int:
        """When, in a slot, its attestations are due: a block that comes later is late."""
        return self.get_slot_component_duration_ms(self.config.ATTESTATION_DUE_BPS)

    def get_deadlines_ms(self) -> tuple[int, ...]:
        """The times in a slot at which it matters whether its block has come."""
        return (self.get_attestation_due_ms(),)

    # Ancestors

    def get_ancestor(self, store: Store, node: ForkChoiceNode, slot: Slot) -> ForkChoiceNode:
        """The node at or before `slot` that `node` descends from, or the first that the store holds."""
        place = store.tree.find_ancestor(store.tree.places[node], slot)
        return store.tree.nodes[place]

    def is_ancestor(self, store: Store, node: ForkChoiceNode, ancestor: ForkChoiceNode) -> bool:
        """Whether `node` is `ancestor`, or descends from it."""
        places = store.tree.places
        return store.tree.is_ancestor(places[ancestor], places[node])

    def get_checkpoint_block(self, store: Store, root: Root, epoch: Epoch) -> Root:
        """The block that stood at the start of `epoch`, in the chain of block `root`."""
        start = self.rules.compute_start_slot_at_epoch(epoch)
        return self.get_ancestor(store, ForkChoiceNode(root), start).root

    def get_shuffling_dependent_root(self, store: Store, root: Root, epoch: Epoch) -> Root:
        """The last block before the committees of `epoch` were fixed, in the chain of block `root`."""
        start = self.rules.compute_start_slot_at_epoch(max(epoch - self.preset.MIN_SEED_LOOKAHEAD, 0))
        return self.get_ancestor(store, ForkChoiceNode(root), max(start - 1, 0)).root

    # States

    def process_slots(self, state: State, slot: Slot) -> State:
        """`state` at `slot`, with the upgrades on the way; the given state is used up."""
        if self.schedule is not None:
            return self.schedule.process_slots(state, slot)
        self.rules.process_slots(state, slot)
        return state

    def get_checkpoint_state(self, store: Store, checkpoint: Checkpoint) -> State:
        """The state of a checkpoint's block at the start of its epoch (store_target_checkpoint_state)."""

        def compute() -> State:
            state = store.block_states[checkpoint.root]
            start = self.rules.compute_start_slot_at_epoch(checkpoint.epoch)
            return state if state.slot >= start else self.process_slots(state.copy(), start)

        return self._checkpoint_states.get(checkpoint, compute)

    def get_justified_state(self, store: Store) -> State:
        """The state by which votes are weighed."""
        return self.get_checkpoint_state(store, store.justified_checkpoint)

    def get_voting_balances(self, store: Store) -> NDArray[np.uint64]:
        """(n,): what each validator's vote counts: its effective balance, if active and not slashed."""
        state = self.get_justified_state(store)
        active = self.rules.get_active_set(state, self.rules.get_current_epoch(state)).flags
        validators = state.validators
        counted = active & (validators.column("slashed") == 0)
        balances: NDArray[np.uint64] = validators.column("effective_balance") * counted
        return balances

    def calculate_committee_fraction(self, store: Store, committee_percent: int) -> Gwei:
        """A part of the weight that a slot's committees have on average."""

        def compute() -> Gwei:
            counted = self.get_voting_balances(store) > 0
            total = self.rules.get_total_balance(self.get_justified_state(store), counted)
            return total // self.preset.SLOTS_PER_EPOCH

        weight = self._committee_weights.get(store.justified_checkpoint, compute)
        return weight * committee_percent // 100

    def is_within_weak_subjectivity_period(
        self, store: Store, ws_state: State, ws_checkpoint: Checkpoint
    ) -> bool:
        """Whether a checkpoint, whose state this is, can be trusted now (phase0/weak-subjectivity).

        Raises InvalidTransition when the state is not the checkpoint's.
        """
        rules = self.schedule.get_fork_of(ws_state) if self.schedule else self.rules
        now = self.get_current_slot(store)
        return is_within_weak_subjectivity_period(rules, ws_state, ws_checkpoint, now)

    # Weights

    def settle_votes(self, store: Store) -> None:
        """Brings the tree up to date with votes, checkpoints and time; the boost may be an old one."""
        epoch = self.get_current_store_epoch(store)
        basis = store.justified_checkpoint, store.finalized_checkpoint, epoch
        if basis != store.basis:
            if store.basis is None or store.basis[0] != store.justified_checkpoint:
                store.votes.weigh(self.get_voting_balances(store))
            own = store.votes.count(len(store.tree)).tolist()
            store.tree.rebuild(own, self.get_eligible_nodes(store))
            store.basis = basis
        store.tree.settle()

    def settle(self, store: Store) -> None:
        """Brings the tree up to date."""
        self.settle_votes(store)
        place = NOWHERE
        if self.should_apply_proposer_boost(store):
            place = store.tree.places[ForkChoiceNode(store.proposer_boost_root)]
        store.tree.set_boost(place, self.get_proposer_score(store))
        store.tree.settle()

    def get_attestation_score(self, store: Store, node: ForkChoiceNode) -> Gwei:
        """The weight of the latest votes for `node` and what descends from it."""
        self.settle_votes(store)
        return store.tree.get_score(store.tree.places[node])

    def get_proposer_score(self, store: Store) -> Gwei:
        """The weight of the boost."""
        return self.calculate_committee_fraction(store, self.config.PROPOSER_SCORE_BOOST)

    def should_apply_proposer_boost(self, store: Store) -> bool:
        """Whether a block of this slot came in time, and counts more for it."""
        return store.proposer_boost_root in store.blocks

    def get_weight(self, store: Store, node: ForkChoiceNode) -> Gwei:
        """The weight of `node` and what descends from it: votes and boost."""
        self.settle(store)
        return store.tree.weights[store.tree.places[node]]

    # Viable branches

    def get_voting_source(self, store: Store, block_root: Root) -> Checkpoint:
        """What would be the source of votes, were this block the head."""
        block_epoch = self.rules.compute_epoch_at_slot(store.blocks[block_root].slot)
        if self.get_current_store_epoch(store) > block_epoch:
            return store.unrealized_justifications[block_root]
        source: Checkpoint = store.block_states[block_root].current_justified_checkpoint
        return source

    def is_source_justified(self, store: Store, block_root: Root) -> bool:
        """Whether votes with this block as their head would have a source that agrees with the store's."""
        source = self.get_voting_source(store, block_root).epoch
        return store.justified_checkpoint.epoch in (
            GENESIS_EPOCH,
            source,
        ) or source + 2 >= self.get_current_store_epoch(store)

    def get_eligible_nodes(self, store: Store) -> list[bool]:
        """By place: whether a node can be the head when nothing is below it (filter_node_tree)."""
        tree, finalized = store.tree, store.finalized_checkpoint
        start = self.rules.compute_start_slot_at_epoch(finalized.epoch)
        final: list[bool] = []
        for node, slot, parent in zip(tree.nodes, tree.slots, tree.parents, strict=True):
            # The finalised block is what stood at the start of its epoch: nothing came between.
            follows = parent != NOWHERE and final[parent]
            between = follows and slot <= start and tree.nodes[parent].root == finalized.root
            agrees = finalized.epoch == GENESIS_EPOCH or node.root == finalized.root
            final.append(agrees or (follows and not between))
        justified = {root: self.is_source_justified(store, root) for root in store.blocks}
        return [flag and justified[node.root] for flag, node in zip(final, tree.nodes, strict=True)]

    def get_viable_heads(self, store: Store) -> list[ForkChoiceNode]:
        """The nodes without a viable child that are viable (the leaves of get_filtered_node_tree)."""
        self.settle(store)
        tree = store.tree
        base = self.get_base(store)
        places = [place for place, best in enumerate(tree.best) if best == NOWHERE and tree.viable[place]]
        return [tree.nodes[place] for place in places if tree.is_ancestor(base, place)]

    # Head

    def get_base(self, store: Store) -> Place:
        """Where the search for the head begins: the justified block."""
        return store.tree.places[ForkChoiceNode(store.justified_checkpoint.root)]

    def get_head(self, store: Store) -> ForkChoiceNode:
        """The node to build on and to vote for: from the justified block down to the heaviest child."""
        self.settle(store)
        place = self.get_base(store)
        while (best := self.get_best_child(store, place)) != NOWHERE:
            place = best
        return store.tree.nodes[place]

    def get_best_child(self, store: Store, place: Place) -> Place:
        """Where the heaviest viable child is, or NOWHERE."""
        return store.tree.best[place]
