"""LMD-GHOST with Casper FFG: the handlers (phase0/fork-choice).

Each handler first checks and computes, then applies: a refused call leaves the store as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anchor.consensus.containers.phase0 import (
    Attestation,
    AttestationData,
    AttesterSlashing,
    BeaconBlock,
    Checkpoint,
    IndexedAttestation,
    SignedBeaconBlock,
)
from anchor.consensus.fork_choice.proposer import ProposerRules
from anchor.consensus.fork_choice.store import PayloadVote, Store
from anchor.consensus.fork_choice.tree import NOWHERE, ForkChoiceNode
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.hardcoded import TABLES, Table, get_table, look_back, verify_branch
from anchor.errors import InvalidTransition, Misuse, Premature
from anchor.merkle.lazy import np
from anchor.params import GENESIS_EPOCH
from anchor.types import Epoch, Root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


def require_now(condition: bool, message: Callable[[], str]) -> None:
    """Raises Premature with `message()` unless `condition` holds already."""
    if not condition:
        raise Premature(message())


class Imported(NamedTuple):
    """A block that passed all checks, with what follows from it."""

    root: Root
    block: BeaconBlock
    state: State
    """After the block."""
    justified: Checkpoint
    """By the block's state once its epoch ends (unrealised)."""
    finalized: Checkpoint
    """Likewise."""
    head: ForkChoiceNode
    """Before the block."""
    payload_votes: Sequence[PayloadVote] = ()
    """Since gloas: the votes on payloads that the block brings."""


class ForkChoice(ProposerRules):
    """The fork choice of phase0 and altair; every later fork's inherits from it."""

    def get_forkchoice_store(
        self, anchor_state: State, anchor_block: BeaconBlock, tables: Sequence[Table] = TABLES
    ) -> Store:
        """A store that trusts a block and the state after it: genesis, or a checkpoint.

        Raises Misuse unless the two belong together, InvalidCheckpoint where they conflict with one of the
        checkpoints in the code, which `tables` are.
        """
        if anchor_block.state_root != self.rules.hash_tree_root(anchor_state):
            raise Misuse(f"The anchor block of slot {anchor_block.slot} does not lead to the anchor state.")
        root = self.rules.hash_tree_root(anchor_block)
        anchor = Checkpoint(epoch=self.rules.get_current_epoch(anchor_state), root=root)
        table = get_table(anchor_state.genesis_validators_root, tables)
        verify_branch(table, look_back(anchor, anchor_state, self.preset.SLOTS_PER_EPOCH))
        genesis_time_ms = anchor_state.genesis_time * 1000
        store = Store(
            time_ms=genesis_time_ms + anchor_state.slot * self.config.SLOT_DURATION_MS,
            genesis_time_ms=genesis_time_ms,
            justified_checkpoint=anchor,
            finalized_checkpoint=anchor,
            unrealized_justified_checkpoint=anchor,
            unrealized_finalized_checkpoint=anchor,
            table=table,
        )
        timeliness = tuple([True] * len(self.get_deadlines_ms()))
        self.add_block(store, root, anchor_block, anchor_state.copy(), anchor, timeliness)
        return store

    # Time

    def on_tick(self, store: Store, time_ms: int) -> None:
        """Lets time pass until `time_ms`, in Unix milliseconds. Raises Misuse when time runs backwards."""
        if time_ms < store.time_ms:
            raise Misuse(f"Time runs backwards: from {store.time_ms} to {time_ms} milliseconds.")
        slot, epoch = self.get_current_slot(store), self.get_current_store_epoch(store)
        store.time_ms = time_ms
        if self.get_current_slot(store) > slot:
            store.proposer_boost_root = bytes(32)
        if self.get_current_store_epoch(store) > epoch:
            self.update_checkpoints(
                store, store.unrealized_justified_checkpoint, store.unrealized_finalized_checkpoint
            )
            self.prune(store)

    # Checkpoints

    def update_checkpoints(self, store: Store, justified: Checkpoint, finalized: Checkpoint) -> None:
        """Takes over later checkpoints."""
        if justified.epoch > store.justified_checkpoint.epoch:
            store.justified_checkpoint = justified
        if finalized.epoch > store.finalized_checkpoint.epoch:
            store.finalized_checkpoint = finalized

    def update_unrealized_checkpoints(
        self, store: Store, justified: Checkpoint, finalized: Checkpoint
    ) -> None:
        """Takes over later checkpoints for the time when the epoch ends."""
        if justified.epoch > store.unrealized_justified_checkpoint.epoch:
            store.unrealized_justified_checkpoint = justified
        if finalized.epoch > store.unrealized_finalized_checkpoint.epoch:
            store.unrealized_finalized_checkpoint = finalized

    def prune(self, store: Store) -> None:
        """Forgets all that does not descend from the finalised block.

        Nothing of it can be the head any more, nor can what builds on it. Nothing is forgotten while what
        is justified is on another branch: for that, a third of the stake must have equivocated.
        """
        tree = store.tree
        first = tree.places[ForkChoiceNode(store.finalized_checkpoint.root)]
        justified = store.justified_checkpoint, store.unrealized_justified_checkpoint
        tips = [tree.places[ForkChoiceNode(root)] for root in {checkpoint.root for checkpoint in justified}]
        if first == 0 or not all(tree.is_ancestor(first, tip) for tip in tips):
            return
        store.votes.move(tree.prune(first))
        for root in [root for root in store.blocks if ForkChoiceNode(root) not in tree.places]:
            self.forget_block(store, root)

    def forget_block(self, store: Store, root: Root) -> None:
        """Takes a block out of the store."""
        slot = store.blocks.pop(root).slot
        store.roots_at_slot[slot].remove(root)
        if not store.roots_at_slot[slot]:
            del store.roots_at_slot[slot]
        store.optimistic_roots.discard(root)
        for records in (
            store.block_states,
            store.block_timeliness,
            store.unrealized_justifications,
            store.payloads,
            store.payload_timeliness_vote,
            store.payload_data_availability_vote,
        ):
            records.pop(root, None)

    # Blocks

    def on_block(self, store: Store, signed_block: SignedBeaconBlock) -> None:
        """Takes a block; one that is known already changes nothing.

        Raises Premature for a block that may be valid later, another Invalid for one that is not:
        InvalidTransition, InvalidCheckpoint where it conflicts with a checkpoint in the code, or what a
        ledger says of an entry (InvalidEntry, InvalidSignature).
        """
        root = self.rules.hash_tree_root(signed_block.message)
        if root not in store.blocks:
            self.apply_block(store, self.verify_block(store, root, signed_block))

    def verify_block(self, store: Store, root: Root, signed_block: SignedBeaconBlock) -> Imported:
        """Checks a block against the store and its parent's state."""
        block = signed_block.message
        self.verify_block_place(store, block)
        self.verify_block_branch(store, root, block)
        self.verify_block_data(store, root, block)
        transition = (self.schedule or self.rules).state_transition
        state = transition(store.block_states[block.parent_root], signed_block)
        pulled_up = state.copy()
        self.rules.process_justification_and_finalization(pulled_up)
        justified, finalized = pulled_up.current_justified_checkpoint, pulled_up.finalized_checkpoint
        return Imported(root, block, state, justified, finalized, self.get_head(store))

    def verify_block_place(self, store: Store, block: BeaconBlock) -> None:
        """Raises an error unless a block is due, and descends from the finalised one."""
        slot, parent, current_slot = block.slot, block.parent_root, self.get_current_slot(store)
        require_now(
            parent in store.blocks, lambda: f"The parent of the block of {slot}, {parent.hex()}, is unknown."
        )
        require(
            not store.tree.invalid[store.tree.places[ForkChoiceNode(parent)]],
            lambda: f"The block of slot {slot} follows a block whose payload is invalid.",
        )
        require_now(slot <= current_slot, lambda: f"The block is of slot {slot}, and now is {current_slot}.")
        finalized = store.finalized_checkpoint
        start = self.rules.compute_start_slot_at_epoch(finalized.epoch)
        require(slot > start, lambda: f"The block is of slot {slot}, and slot {start} is finalised.")
        ancestor = self.get_checkpoint_block(store, parent, finalized.epoch)
        require(
            ancestor == finalized.root,
            lambda: f"The block of slot {slot} descends from {ancestor.hex()}, not {finalized.root.hex()}.",
        )

    def verify_block_branch(self, store: Store, root: Root, block: BeaconBlock) -> None:
        """Raises InvalidCheckpoint where a block makes its branch conflict with a checkpoint in the code.

        It decides on the epochs that start after its parent, up to its own slot; its ancestors did before.
        """
        after = store.blocks[block.parent_root].slot

        def root_at(epoch: Epoch) -> Root | None:
            start = self.rules.compute_start_slot_at_epoch(epoch)
            if start == block.slot:
                return root
            return block.parent_root if after < start < block.slot else None

        verify_branch(store.table, root_at)

    def verify_block_data(self, store: Store, root: Root, block: BeaconBlock) -> None:
        """Raises an error unless all is there that must come with a block: nothing, here."""

    def apply_block(self, store: Store, imported: Imported) -> None:
        """Adds a block that passed all checks."""
        root, block, state = imported.root, imported.block, imported.state
        self.add_block(store, root, block, state, imported.justified, self.get_block_timeliness(store, block))
        self.update_proposer_boost_root(store, imported.head.root, root)
        self.update_checkpoints(store, state.current_justified_checkpoint, state.finalized_checkpoint)
        self.update_unrealized_checkpoints(store, imported.justified, imported.finalized)
        if self.rules.compute_epoch_at_slot(block.slot) < self.get_current_store_epoch(store):
            self.update_checkpoints(store, imported.justified, imported.finalized)
        self.prune(store)

    def add_block(
        self,
        store: Store,
        root: Root,
        block: BeaconBlock,
        state: State,
        unrealized_justification: Checkpoint,
        timeliness: tuple[bool, ...],
    ) -> None:
        """Adds a block's records, and its nodes to the tree."""
        store.blocks[root], store.block_states[root] = block, state
        store.block_timeliness[root] = timeliness
        store.unrealized_justifications[root] = unrealized_justification
        store.roots_at_slot.setdefault(block.slot, []).append(root)
        place = store.tree.places.get(self.find_parent_node(store, block), NOWHERE)
        # It descends from the finalised block, so only its source can be amiss.
        eligible = self.is_source_justified(store, root)
        for status in self.statuses:
            place = store.tree.add(ForkChoiceNode(root, status), block.slot, place, eligible)

    def find_parent_node(self, store: Store, block: BeaconBlock) -> ForkChoiceNode:
        """The node that a block builds on; the store may not hold it."""
        return ForkChoiceNode(block.parent_root)

    def get_block_timeliness(self, store: Store, block: BeaconBlock) -> tuple[bool, ...]:
        """Whether a block that comes now comes before each of its slot's deadlines."""
        is_current, passed = self.get_current_slot(store) == block.slot, self.get_time_into_slot_ms(store)
        return tuple([is_current and passed < deadline for deadline in self.get_deadlines_ms()])

    def update_proposer_boost_root(self, store: Store, head: Root, root: Root) -> None:
        """Boosts the first block of a slot that comes in time, and agrees with the head on committees."""
        if self.is_head_late(store, root) or store.proposer_boost_root != bytes(32):
            return
        epoch = self.get_current_store_epoch(store)
        dependent, expected = [self.get_shuffling_dependent_root(store, tip, epoch) for tip in (root, head)]
        if dependent == expected:
            store.proposer_boost_root = root

    # Votes

    def on_attestation(self, store: Store, attestation: Attestation, is_from_block: bool = False) -> None:
        """Takes a vote, from a block or alone.

        Raises Premature for a vote that may count later, InvalidTransition for another that does not count.
        """
        data = attestation.data
        self.verify_attestation(store, data, is_from_block)
        state = self.get_checkpoint_state(store, data.target)
        indexed = self.rules.get_indexed_attestation(state, attestation)
        self.rules.verify_indexed_attestation(state, indexed)
        self.update_latest_messages(store, np.array(indexed.attesting_indices, np.int64), data)

    def verify_attestation(self, store: Store, data: AttestationData, is_from_block: bool) -> None:
        """Raises an error unless a vote fits the store's time and blocks (validate_on_attestation)."""
        if not is_from_block:
            self.verify_target_epoch(store, data)
        self.verify_voted_blocks(store, data)
        slot, current_slot = data.slot, self.get_current_slot(store)
        require_now(slot < current_slot, lambda: f"A vote of {slot} counts after it: now is {current_slot}.")

    def verify_voted_blocks(self, store: Store, data: AttestationData) -> None:
        """Raises an error unless the blocks that a vote names are known, and belong together."""
        slot, root, target = data.slot, data.beacon_block_root, data.target
        epoch = self.rules.compute_epoch_at_slot(slot)
        require(target.epoch == epoch, lambda: f"A vote of slot {slot} has a target of epoch {target.epoch}.")
        for known in (target.root, root):
            require_now(known in store.blocks, lambda: f"A vote of slot {slot} is for an unknown block.")
        self.verify_vote(store, data)
        checkpoint_block = self.get_checkpoint_block(store, root, target.epoch)
        require(
            target.root == checkpoint_block,
            lambda: f"A vote's target is {target.root.hex()}, and its head follows {checkpoint_block.hex()}.",
        )

    def verify_target_epoch(self, store: Store, data: AttestationData) -> None:
        """Raises an error unless a vote's target is of this epoch or the previous one."""
        epoch, current = data.target.epoch, self.get_current_store_epoch(store)
        require_now(epoch <= current, lambda: f"A vote's target is of epoch {epoch}, and now is {current}.")
        oldest = max(current, GENESIS_EPOCH + 1) - 1
        require(epoch >= oldest, lambda: f"A vote's target is of epoch {epoch}, and now is {current}.")

    def verify_vote(self, store: Store, data: AttestationData) -> None:
        """Raises an error unless a block is not later than a vote for it."""
        slot = store.blocks[data.beacon_block_root].slot
        require(slot <= data.slot, lambda: f"A vote of slot {data.slot} is for a block of slot {slot}.")

    def update_latest_messages(self, store: Store, voters: NDArray[np.int64], data: AttestationData) -> None:
        """Lets voters support the block that they vote for, unless they have voted for a later target.

        The vote's time is the last slot of its target: so it compares with those of gloas, which are slots.
        """
        place = store.tree.places[ForkChoiceNode(data.beacon_block_root)]
        time = self.rules.compute_start_slot_at_epoch(data.target.epoch + 1) - 1
        store.votes.cast(store.tree, voters, place, time)

    def on_attester_slashing(self, store: Store, attester_slashing: AttesterSlashing) -> None:
        """Takes evidence that validators equivocate: their votes count no more."""
        first, second = attester_slashing.attestation_1, attester_slashing.attestation_2
        if not self.rules.is_slashable_attestation_data(first.data, second.data):
            raise InvalidTransition(
                f"The votes of slots {first.data.slot} and {second.data.slot} do not contradict each other."
            )
        state = store.block_states[store.justified_checkpoint.root]
        for indexed in (first, second):
            self.rules.verify_indexed_attestation(state, indexed)
        store.votes.exclude(store.tree, self.get_equivocators(first, second))

    def get_equivocators(self, first: IndexedAttestation, second: IndexedAttestation) -> NDArray[np.int64]:
        """Who made both votes."""
        both = set(first.attesting_indices) & set(second.attesting_indices)
        return np.array(sorted(both), np.int64)
