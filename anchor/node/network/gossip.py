"""Which messages are taken, and which of them forwarded (specs/06-network §3).

Each method takes a message's value. It returns True for what is new and is to be forwarded, and False for
what is known or useless and nobody's fault; it raises Premature for what may be right later, and Malformed
or Invalid for what no honest peer sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import (
    Attestation,
    AttesterSlashing,
    BeaconBlock,
    IndexedAttestation,
    ProposerSlashing,
    SignedBeaconBlock,
    SignedVoluntaryExit,
)
from anchor.consensus.duties import compute_sync_signing_root
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.slasher import Slasher
from anchor.errors import Invalid, InvalidSignature, Premature, Unavailable, UnknownParent
from anchor.merkle.scope import hash_tree_root
from anchor.node.network.branches import MAX_RIVALS, MAX_RIVALS_BUILT_ON, Branches
from anchor.node.network.entries import EntryPool
from anchor.node.network.messages import Kind, SyncContribution
from anchor.node.network.outbox import Outbox
from anchor.node.network.pools import OperationPool, SyncPool, VotePool, get_equivocators
from anchor.params import FAR_FUTURE_EPOCH

State = Any
"""The ledger's BeaconState."""
MAX_AHEAD: Final = 8
"""Slots into the future from which a message is kept until its time comes."""


class Gossip:
    """Judges messages, and puts what is right into the tree and the pools."""

    def __init__(
        self,
        branches: Branches,
        entries: EntryPool,
        outbox: Outbox,
        is_built_on: Callable[[bytes], bool],
    ) -> None:
        self._branches, self._entries, self._outbox = branches, entries, outbox
        self._is_built_on = is_built_on
        """Whether a block waits for the one with this root."""
        self._ledger, self._choice = branches.ledger, branches.choice
        self.votes = VotePool()
        self.syncs = SyncPool(branches.ledger.preset.SYNC_COMMITTEE_SIZE)
        self.operations = OperationPool()
        self.slasher = Slasher()
        self.handlers: dict[Kind, Callable[[Any], bool]] = {
            Kind.BLOCK: self.on_block,
            Kind.ATTESTATION: self.on_attestation,
            Kind.CONTRIBUTION: self.on_contribution,
            Kind.ENTRY: self.on_entry,
            Kind.PROPOSER_SLASHING: self.on_proposer_slashing,
            Kind.ATTESTER_SLASHING: self.on_attester_slashing,
            Kind.EXIT: self.on_exit,
        }

    # Blocks

    def on_block(self, signed: SignedBeaconBlock) -> bool:
        """The first block of its proposer for its slot is forwarded; a second is taken, and is evidence."""
        block, branches = signed.message, self._branches
        root = self._ledger.hash_tree_root(block)
        if branches.is_known(root) or block.slot <= branches.get_final_slot():
            return False
        rivals = branches.find_rivals(block, root)
        if len(rivals) >= (MAX_RIVALS_BUILT_ON if self._is_built_on(root) else MAX_RIVALS):
            return False
        if block.parent_root not in branches.view.blocks or block.slot > branches.get_slot():
            self._verify_proposer(signed)
        if block.parent_root not in branches.view.blocks:
            self._require_no_conflict(block)
            what = f"The parent of the block of slot {block.slot}, {block.parent_root.hex()}, is unknown."
            raise UnknownParent(what, root=block.parent_root)
        self._require_time(block.slot)
        self.import_run([signed])
        return not rivals

    def _verify_proposer(self, signed: SignedBeaconBlock) -> None:
        """Raises InvalidTransition unless a proposer whom the head knows signed: before anyone is asked."""
        state, block = self._branches.get_head_state(), signed.message
        if block.proposer_index < len(state.validators):
            self._ledger.verify_block_signature(state, signed)

    def _require_no_conflict(self, block: BeaconBlock) -> None:
        """Raises InvalidTransition for a block upon one that finality has left behind."""
        require(
            not self._branches.is_known(block.parent_root),
            lambda: f"The block of slot {block.slot} leaves the chain before its final block.",
        )

    def import_run(self, blocks: Sequence[SignedBeaconBlock]) -> None:
        """Takes blocks that follow each other, and looks for those who contradict themselves in them."""
        for imported, signed in zip(self._branches.import_run(blocks), blocks, strict=True):
            self._learn(imported.root, signed, imported.state)

    def recall(self) -> None:
        """Learns again, after a restart, what the blocks of the tree tell."""
        for root, signed in self._branches.signed.items():
            self._learn(root, signed, self._branches.view.block_states[root])

    def _learn(self, root: bytes, signed: SignedBeaconBlock, state: State) -> None:
        for rival in self._branches.find_rivals(signed.message, root):
            self._accuse_proposer(self._branches.get_signed(rival), signed)
        body: Any = signed.message.body
        for vote in body.attestations:
            self.votes.add(vote)
            self._watch(self._ledger.get_indexed_attestation(state, vote))

    def _accuse_proposer(self, first: SignedBeaconBlock, second: SignedBeaconBlock) -> None:
        headers = [self._branches.get_header(signed) for signed in (first, second)]
        slashing = ProposerSlashing(signed_header_1=headers[0], signed_header_2=headers[1])
        if self.operations.add_proposer_slashing(slashing):
            self._outbox.publish(Kind.PROPOSER_SLASHING, slashing)

    def _require_time(self, slot: int) -> None:
        now = self._branches.get_slot()
        if slot > now:
            raise Premature(f"It is of slot {slot}, and now is {now}.")

    # Votes

    def on_attestation(self, vote: Attestation) -> bool:
        """Votes of this epoch and the one before, each with somebody's first vote for its target."""
        data, view = vote.data, self._branches.view
        if data.target.epoch + 1 < self._choice.get_current_store_epoch(view):
            return False
        for root in (data.beacon_block_root, data.target.root):
            if root not in view.blocks and self._branches.is_known(root):
                return False  # finality has passed it
        if data.beacon_block_root not in view.blocks:
            what = f"A vote of slot {data.slot} is for an unknown block, {data.beacon_block_root.hex()}."
            raise UnknownParent(what, root=data.beacon_block_root)
        self._require_time(data.slot)
        self._choice.verify_voted_blocks(view, data)
        indexed = self._choice.get_indexed_vote(view, vote)
        if not self.slasher.is_news(indexed):
            return False
        state = self._choice.get_checkpoint_state(view, data.target)
        self._ledger.verify_indexed_attestation(state, indexed)
        return self.take_vote(vote, indexed)

    def take_vote(self, vote: Attestation, indexed: IndexedAttestation) -> bool:
        """Keeps a verified vote; says whether it is somebody's first for its target."""
        is_first = self.slasher.is_first(indexed)
        self._watch(indexed)
        if is_first:
            self.votes.add(vote)
            self.votes.count_later(indexed)
        return is_first

    def _watch(self, indexed: IndexedAttestation) -> None:
        """Compares a vote with its makers' earlier ones."""
        for slashing in self.slasher.observe(indexed):
            self._choice.exclude_equivocators(self._branches.view, slashing)
            if self.operations.add_attester_slashing(slashing):
                self._outbox.publish(Kind.ATTESTER_SLASHING, slashing)

    def on_contribution(self, contribution: SyncContribution) -> bool:
        """Signatures of this slot and the one before, each with some seat's first in its slot."""
        slot, root, branches = contribution.slot, contribution.beacon_block_root, self._branches
        if slot + 1 < branches.get_slot():
            return False
        self._require_time(slot)
        if root not in branches.view.blocks:
            raise UnknownParent(f"A signature of slot {slot} is for an unknown block.", root=root)
        if not self.syncs.is_news(contribution):
            return False
        self._verify_contribution(contribution)
        self.syncs.add(contribution)
        return True

    def _verify_contribution(self, contribution: SyncContribution) -> None:
        """Raises InvalidTransition unless the seats that are named signed; there is at least one."""
        state = self._branches.get_state_at(self._branches.head, contribution.slot)
        pubkeys = get_sync_pubkeys(self._ledger, state, contribution.slot)
        seats = [pubkeys[seat] for seat in contribution.sync_committee_bits.get_set_indices()]
        message = compute_sync_signing_root(
            self._ledger, state, contribution.slot, contribution.beacon_block_root
        )
        require(
            self._ledger.signatures.fast_aggregate_verify(seats, message, contribution.signature),
            lambda: f"The signature of slot {contribution.slot} is not by the {len(seats)} seats it names.",
        )

    # Entries and operations

    def on_entry(self, signed: SignedEntry) -> bool:
        """Entries that can come after all that wait. What differs by branch is nobody's fault."""
        if self._entries.is_known(hash_tree_root(signed)) or self._entries.is_too_late(signed):
            return False
        try:
            self._entries.add(signed)
        except Unavailable:
            return False
        except Invalid as error:
            self._require_right_anywhere(signed)
            raise Premature(f"An entry does not fit this chain: {error.what}") from None
        return True

    def _require_right_anywhere(self, signed: SignedEntry) -> None:
        """Raises InvalidSignature when an entry is not by its author, whom everybody knows."""
        view = self._branches.view
        try:
            self._ledger.verify_entry(view.block_states[view.finalized_checkpoint.root], signed)
        except InvalidSignature:
            raise
        except Invalid:
            return

    def on_proposer_slashing(self, slashing: ProposerSlashing) -> bool:
        """Evidence against a proposer against whom there is none."""
        state, index = self._get_state(), slashing.signed_header_1.message.proposer_index
        if index in self.operations.proposer_slashings or self._is_slashed(state, index):
            return False
        self._ledger.process_proposer_slashing(state, slashing)
        return self.operations.add_proposer_slashing(slashing)

    def on_attester_slashing(self, slashing: AttesterSlashing) -> bool:
        """Evidence against voters, of whom there is none against one at least."""
        state, named = self._get_state(), get_equivocators(slashing)
        if named and all(self._is_slashed(state, index) for index in self.operations.find_new(slashing)):
            return False
        self._ledger.process_attester_slashing(state, slashing)
        self._choice.exclude_equivocators(self._branches.view, slashing)
        return self.operations.add_attester_slashing(slashing)

    def on_exit(self, wish: SignedVoluntaryExit) -> bool:
        """The first wish of a validator to leave, when it may."""
        state, index = self._get_state(), wish.message.validator_index
        if index in self.operations.exits or self._is_leaving(state, index):
            return False
        self._ledger.process_voluntary_exit(state, wish)
        return self.operations.add_exit(wish)

    def _get_state(self) -> State:
        """The head's state now, to be written to."""
        return self._branches.get_state_at(self._branches.head, self._branches.get_slot()).copy()

    def _is_slashed(self, state: State, index: int) -> bool:
        return index < len(state.validators) and bool(state.validators[index].slashed)

    def _is_leaving(self, state: State, index: int) -> bool:
        return index < len(state.validators) and state.validators[index].exit_epoch != FAR_FUTURE_EPOCH


def get_sync_pubkeys(ledger: Ledger, state: State, slot: int) -> tuple[bytes, ...]:
    """The keys of the seats that sign in `slot`: those whose signatures the next slot's block counts."""
    length = ledger.preset.SLOTS_PER_EPOCH * ledger.preset.EPOCHS_PER_SYNC_COMMITTEE_PERIOD
    is_next = (slot + 1) // length > state.slot // length
    committee = state.next_sync_committee if is_next else state.current_sync_committee
    pubkeys: tuple[bytes, ...] = committee.pubkeys
    return pubkeys
