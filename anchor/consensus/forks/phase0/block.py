"""Slots and blocks (phase0/beacon-chain, beacon chain state transition function)."""

from __future__ import annotations

from anchor.consensus.containers.phase0 import BeaconBlock, BeaconBlockHeader, SignedBeaconBlock
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.forks.phase0.operations import Operations
from anchor.consensus.forks.registry import get_validator
from anchor.consensus.signing import compute_signing_root
from anchor.merkle.hashing import sha256
from anchor.params import DOMAIN_BEACON_PROPOSER, DOMAIN_RANDAO
from anchor.types import Slot

MAX_EMPTY_SLOTS = 1 << 16
"""A block this far ahead of its parent's state is refused before any slot is processed: nine days of
mainnet without a block. Without a bound one forged slot number keeps a verifier busy for ever."""


class BlockProcessing(Operations):
    """`state_transition` and what it consists of."""

    def state_transition(
        self, pre_state: State, signed_block: SignedBeaconBlock, validate_result: bool = True
    ) -> State:
        """The state after a block; `pre_state` is left as it is.

        With `validate_result` the block's signature and its state root are checked as well. Raises
        InvalidTransition, with the rule that the block breaks (for an entry of a ledger: InvalidEntry,
        InvalidSignature).
        """
        self.verify_block_distance(pre_state, signed_block.message)
        state = pre_state.copy()
        self.process_slots(state, signed_block.message.slot)
        self.apply_block(state, signed_block, validate_result)
        return state

    def verify_block_distance(self, pre_state: State, block: BeaconBlock) -> None:
        """Raises InvalidTransition for a block that is further ahead than MAX_EMPTY_SLOTS."""
        require(
            block.slot <= pre_state.slot + MAX_EMPTY_SLOTS,
            lambda: f"The block of slot {block.slot} is too far ahead of its state of slot {pre_state.slot}.",
        )

    def apply_block(self, state: State, signed_block: SignedBeaconBlock, validate_result: bool) -> None:
        """Applies a block to the state at its slot, in place: `state_transition` after the slots."""
        block = signed_block.message
        if validate_result:
            self.verify_block_signature(state, signed_block)
        self.process_block(state, block)
        if validate_result:
            root = self.hash_tree_root(state)
            require(
                block.state_root == root,
                lambda: (
                    f"The block of slot {block.slot} leads to state {root.hex()}, "
                    f"and claims {block.state_root.hex()}."
                ),
            )

    def verify_block_signature(self, state: State, signed_block: SignedBeaconBlock) -> None:
        """Raises InvalidTransition unless the block is signed by the proposer it names."""
        block = signed_block.message
        proposer = get_validator(state.validators, block.proposer_index)
        message = self.compute_signing_root(block, self.get_domain(state, DOMAIN_BEACON_PROPOSER))
        self.require_signature(
            proposer.pubkey, message, signed_block.signature, lambda: f"the block of slot {block.slot}"
        )

    def process_slots(self, state: State, slot: Slot) -> None:
        """Lets slots pass, and epochs where they end, until the state is at `slot`."""
        require(
            state.slot < slot, lambda: f"The state is at slot {state.slot}, and cannot advance to {slot}."
        )
        while state.slot < slot:
            self.process_slot(state)
            if (state.slot + 1) % self.preset.SLOTS_PER_EPOCH == 0:
                self.process_epoch(state)
            state.slot += 1

    def process_slot(self, state: State) -> None:
        """Keeps the roots of the slot that ends."""
        place = state.slot % self.preset.SLOTS_PER_HISTORICAL_ROOT
        root = self.hash_tree_root(state)
        state.state_roots[place] = root
        if state.latest_block_header.state_root == bytes(32):
            state.latest_block_header = state.latest_block_header.replace(state_root=root)
        state.block_roots[place] = self.hash_tree_root(state.latest_block_header)

    def process_block(self, state: State, block: BeaconBlock) -> None:
        """Applies a block to the state at its slot."""
        self.process_block_header(state, block)
        self.process_randao(state, block.body)
        self.process_eth1_data(state, block.body)
        self.process_operations(state, block.body)

    def process_block_header(self, state: State, block: BeaconBlock) -> None:
        """Checks that the block follows its parent and is by the right proposer, and keeps its header."""
        slot, latest = block.slot, state.latest_block_header
        require(slot == state.slot, lambda: f"A block of slot {slot} stands at slot {state.slot}.")
        require(
            slot > latest.slot,
            lambda: f"A block of slot {slot} cannot follow the block of slot {latest.slot}.",
        )
        proposer_index = self.get_beacon_proposer_index(state)
        require(
            block.proposer_index == proposer_index,
            lambda: (
                f"Slot {slot} is for proposer {proposer_index}, and the block is by {block.proposer_index}."
            ),
        )
        parent_root = self.hash_tree_root(latest)
        require(
            block.parent_root == parent_root,
            lambda: (
                f"The block of slot {slot} has parent {block.parent_root.hex()}, "
                f"and the latest is {parent_root.hex()}."
            ),
        )
        state.latest_block_header = BeaconBlockHeader(
            slot=slot,
            proposer_index=block.proposer_index,
            parent_root=block.parent_root,
            state_root=bytes(32),  # written when the next slot is processed
            body_root=self.hash_tree_root(block.body),
        )
        slashed = get_validator(state.validators, proposer_index).slashed
        require(not slashed, lambda: f"The proposer of slot {slot}, {proposer_index}, is slashed.")

    def process_randao(self, state: State, body: Body) -> None:
        """Mixes the proposer's reveal into the epoch's randomness."""
        epoch = self.get_current_epoch(state)
        proposer = state.validators[self.get_beacon_proposer_index(state)]
        epoch_root = epoch.to_bytes(32, "little")
        message = compute_signing_root(epoch_root, self.get_domain(state, DOMAIN_RANDAO))
        self.require_signature(
            proposer.pubkey, message, body.randao_reveal, lambda: f"the randao reveal of epoch {epoch}"
        )
        mix = int.from_bytes(self.get_randao_mix(state, epoch), "big")
        mix ^= int.from_bytes(sha256(body.randao_reveal), "big")
        state.randao_mixes[epoch % self.preset.EPOCHS_PER_HISTORICAL_VECTOR] = mix.to_bytes(32, "big")

    def process_eth1_data(self, state: State, body: Body) -> None:
        """Counts the block's vote on the deposit contract's state."""
        state.eth1_data_votes = (*state.eth1_data_votes, body.eth1_data)
        votes = state.eth1_data_votes.count(body.eth1_data)
        if votes * 2 > self.preset.EPOCHS_PER_ETH1_VOTING_PERIOD * self.preset.SLOTS_PER_EPOCH:
            state.eth1_data = body.eth1_data
