"""The fork choice of a node that takes part: runs of blocks, and votes whose signatures were checked before.

What follows from the specification's handlers is the same. A block's votes count with the block, states are
advanced once for all who ask, and a run of blocks is verified as a whole before any of it is applied.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from anchor.consensus.containers.phase0 import (
    Attestation,
    AttesterSlashing,
    IndexedAttestation,
    SignedBeaconBlock,
)
from anchor.consensus.fork_choice.phase0 import ForkChoice, Imported
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0 import Phase0
from anchor.consensus.forks.phase0.base import State
from anchor.errors import InvalidTransition
from anchor.merkle.lazy import np
from anchor.types import Root, Slot

KEPT_STATES: Final = 8
"""Branches whose newest state is kept, as it is in a later slot."""


class LedgerForkChoice(ForkChoice):
    """`ForkChoice`, and what an engine asks beyond it."""

    def __init__(self, rules: Phase0) -> None:
        super().__init__(rules)
        self._ahead: OrderedDict[Root, State] = OrderedDict()

    def get_state_at(self, store: Store, root: Root, slot: Slot) -> State:
        """The state of block `root` once it is `slot`, not to be written to."""
        state = store.block_states[root]
        if state.slot >= slot:
            return state
        ahead = self._ahead.get(root)
        if ahead is None or ahead.slot > slot:
            ahead = state
        if ahead.slot < slot:
            ahead = ahead.copy()
            self.rules.process_slots(ahead, slot)
        self._ahead[root] = ahead
        self._ahead.move_to_end(root)
        if len(self._ahead) > KEPT_STATES:
            self._ahead.popitem(last=False)
        return ahead

    # Blocks

    def verify_run(self, store: Store, blocks: Sequence[SignedBeaconBlock]) -> list[Imported]:
        """Checks blocks of which each is the next one's parent. Raises as `on_block` does."""
        head, run = self.get_head(store), list[Imported]()
        for signed in blocks:
            block = signed.message
            if run:
                self._verify_follows(store, run[-1], signed)
                state = self.rules.state_transition(run[-1].state, signed)
            else:
                self.verify_block_place(store, block)
                self.rules.verify_block_distance(store.block_states[block.parent_root], block)
                state = self.get_state_at(store, block.parent_root, block.slot).copy()
                self.rules.apply_block(state, signed, True)
            pulled_up = state.copy()
            self.rules.process_justification_and_finalization(pulled_up)
            checkpoints = pulled_up.current_justified_checkpoint, pulled_up.finalized_checkpoint
            run.append(Imported(self.rules.hash_tree_root(block), block, state, *checkpoints, head))
        return run

    def _verify_follows(self, store: Store, parent: Imported, signed: SignedBeaconBlock) -> None:
        """Raises InvalidTransition unless a block can come after its parent, by root and time."""
        block, current = signed.message, self.get_current_slot(store)
        require(
            block.parent_root == parent.root,
            lambda: f"The block of slot {block.slot} does not follow that of slot {parent.block.slot}.",
        )
        require(
            parent.block.slot < block.slot <= current,
            lambda: (
                f"The block of slot {block.slot} follows that of {parent.block.slot}, and now is {current}."
            ),
        )

    def apply_run(self, store: Store, run: Sequence[Imported]) -> None:
        """Adds blocks that passed all checks, and counts the votes that they bring."""
        for imported in run:
            self.apply_block(store, imported._replace(head=self.get_head(store)))
            for vote in imported.block.body.attestations:
                self.count_vote(store, self.rules.get_indexed_attestation(imported.state, vote))
            for slashing in imported.block.body.attester_slashings:
                self.exclude_equivocators(store, slashing)

    # Votes

    def get_indexed_vote(self, store: Store, vote: Attestation) -> IndexedAttestation:
        """A vote with its voters, by the committees of its target's chain. The target must be known.

        Raises InvalidTransition for a committee that there is not, or is not of that size.
        """
        state = self.get_checkpoint_state(store, vote.data.target)
        count = self.rules.get_committee_count_per_slot(state, vote.data.target.epoch)
        require(
            vote.data.index < count,
            lambda: (
                f"Slot {vote.data.slot} has {count} committees, and a vote names number {vote.data.index}."
            ),
        )
        return self.rules.get_indexed_attestation(state, vote)

    def count_vote(self, store: Store, indexed: IndexedAttestation) -> bool:
        """Lets verified voters support the block that they vote for; False where this vote cannot count."""
        try:
            self.verify_attestation(store, indexed.data, is_from_block=True)
        except InvalidTransition:
            return False  # of a block or target that is forgotten, or that do not belong together
        self.update_latest_messages(store, np.array(indexed.attesting_indices, np.int64), indexed.data)
        return True

    def exclude_equivocators(self, store: Store, slashing: AttesterSlashing) -> None:
        """Lets the votes of those count no more whom verified evidence slashes."""
        voters = self.get_equivocators(slashing.attestation_1, slashing.attestation_2)
        store.votes.exclude(store.tree, voters)
