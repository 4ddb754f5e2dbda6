"""Blocks, and the headers that come with sidecars (phase0/p2p-interface; changed by later forks)."""

from __future__ import annotations

from anchor.consensus.containers.phase0 import BeaconBlock, BeaconBlockHeader, SignedBeaconBlock
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.gossip.base import NO_STATUSES, Base, Statuses, ignore_unless
from anchor.params import DOMAIN_BEACON_PROPOSER

Header = BeaconBlock | BeaconBlockHeader
"""What says whose block it is, and has the block's root."""


class Blocks(Base):
    """The topic beacon_block."""

    def validate_beacon_block(
        self, store: Store, signed_block: SignedBeaconBlock, time_ms: int, statuses: Statuses = NO_STATUSES
    ) -> None:
        """The first block of its slot and proposer, which its state will judge."""
        block = signed_block.message
        key = "beacon_block", block.slot, block.proposer_index
        self.ignore_seen(key)
        self.verify_header_time(store, block, time_ms)
        self.verify_block_limits(block)
        self.verify_block_parent(store, block, statuses)
        self.verify_header(store, block, signed_block.signature)
        self.verify_block_content(store, block, statuses)
        self.verify_block_on_parent(store, block, self.verify_expected_proposer(store, block))
        self.seen.keys.add(key)

    def verify_block_limits(self, block: BeaconBlock) -> None:
        """Raises InvalidTransition for lists that are too long: here their types say so."""

    def verify_block_parent(self, store: Store, block: BeaconBlock, statuses: Statuses) -> None:
        """Raises an error unless the parent is imported."""
        self.verify_known(store, block.parent_root)

    def verify_block_content(self, store: Store, block: BeaconBlock, statuses: Statuses) -> None:
        """Raises an error for what the body alone shows to be wrong: nothing, here."""

    def verify_block_on_parent(self, store: Store, block: BeaconBlock, state: State) -> None:
        """Raises an error for what the parent's state at the block's slot shows: nothing, here."""

    # Headers

    def verify_header_time(self, store: Store, header: Header, time_ms: int) -> None:
        """Raises Ignored for a block that is not due, or not later than what is finalised."""
        slot = header.slot
        self.ignore_future(store, slot, time_ms)
        start = self.rules.compute_start_slot_at_epoch(store.finalized_checkpoint.epoch)
        ignore_unless(slot > start, lambda: f"The block is of slot {slot}, and slot {start} is finalised.")

    def verify_header(self, store: Store, header: Header, signature: bytes) -> None:
        """Raises InvalidTransition unless a block is signed, and follows its parent and what is finalised."""
        slot, parent, state = header.slot, header.parent_root, self.get_head_state(store)
        epoch = self.rules.compute_epoch_at_slot(slot)
        message = self.compute_message(state, header, DOMAIN_BEACON_PROPOSER, epoch)
        self.verify_signature(state, header.proposer_index, message, signature, f"the block of slot {slot}")
        before = store.blocks[parent].slot
        require(slot > before, lambda: f"The block of slot {slot} follows one of slot {before}.")
        require(
            self.is_finalized_followed(store, parent),
            lambda: f"The block of slot {slot} does not descend from the finalised one.",
        )

    def verify_expected_proposer(self, store: Store, header: Header) -> State:
        """The parent's state at the block's slot. Raises InvalidTransition unless that is its proposer's."""
        slot, index = header.slot, header.proposer_index
        state = self.choice.process_slots(store.block_states[header.parent_root].copy(), slot)
        expected = self.rules.get_beacon_proposer_index(state)
        require(index == expected, lambda: f"Slot {slot} is for proposer {expected}, not for {index}.")
        return state
