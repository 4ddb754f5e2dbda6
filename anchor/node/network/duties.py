"""What this node's validators do: propose, vote, and sign as the sync committee. Ask, record, then sign.

Nothing is signed that the protection, which remembers on disk, does not allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from anchor.consensus.containers.phase0 import Attestation, SignedBeaconBlock
from anchor.consensus.duties import (
    Keyring,
    compute_attestation_data,
    compute_attestation_signing_root,
    compute_block_signing_root,
    compute_sync_signing_root,
    compute_unsigned_block,
    get_committee_pubkeys,
    sign_attestation,
    sign_block,
)
from anchor.node.network.branches import Branches
from anchor.node.network.entries import EntryPool
from anchor.node.network.gossip import Gossip, get_sync_pubkeys
from anchor.node.network.messages import Kind, SyncContribution
from anchor.node.network.outbox import Outbox
from anchor.node.network.proposing import select_contents

State = Any
"""The ledger's BeaconState."""


class Protection(Protocol):
    """Remembers on disk what was signed."""

    def allow_block(self, pubkey: bytes, slot: int, signing_root: bytes) -> bool:
        """Whether a block may be signed; then that is recorded, durably."""

    def allow_attestation(
        self, pubkeys: Sequence[bytes], source: int, target: int, signing_root: bytes
    ) -> list[bytes]:
        """Whose vote may be signed; then that is recorded, durably."""


class Validators(Protocol):
    """Keys that this node signs with, and what they signed."""

    @property
    def keyring(self) -> Keyring:
        """The keys."""

    @property
    def protection(self) -> Protection:
        """What they signed."""


class Duties:
    """Does what is due, once a slot each."""

    def __init__(
        self,
        branches: Branches,
        gossip: Gossip,
        entries: EntryPool,
        validators: Validators,
        outbox: Outbox,
    ) -> None:
        self._branches, self._gossip, self._entries = branches, gossip, entries
        self._validators, self._outbox = validators, outbox
        self._ledger, self._maker = branches.ledger, branches.trusting_ledger
        self._proposed = self._voted = 0
        """Slots of the last block and the last votes."""

    def perform(self) -> None:
        """Does what is due now. Slot 0 has its block, and nobody votes for it."""
        slot, branches = self._branches.get_slot(), self._branches
        if slot > self._proposed:
            self._proposed = slot
            self._propose(slot)
        if slot > self._voted and self._is_time_to_vote(slot):
            self._voted = slot
            state = branches.get_state_at(branches.head, slot)
            self._vote(state)
            self._sign_head(state)

    def _is_time_to_vote(self, slot: int) -> bool:
        """A third into the slot, or as soon as its block is here."""
        branches = self._branches
        passed = branches.choice.get_time_into_slot_ms(branches.view)
        has_block = bool(branches.view.blocks[branches.head].slot == slot)
        return has_block or passed >= branches.choice.get_attestation_due_ms()

    # Blocks

    def _propose(self, slot: int) -> None:
        branches = self._branches
        if branches.view.blocks[branches.head].slot >= slot:
            return
        parent = branches.choice.get_proposer_head(branches.view, branches.get_head_node(), slot).root
        state = branches.get_state_at(parent, slot)
        proposer = state.validators[self._ledger.get_beacon_proposer_index(state)]
        if proposer.pubkey not in self._validators.keyring.secret_keys or proposer.slashed:
            return
        signed = self._make_block(state, parent, proposer.pubkey)
        if signed is not None:
            self._gossip.import_run([signed])
            self._outbox.publish(Kind.BLOCK, signed)

    def _make_block(self, state: State, parent: bytes, pubkey: bytes) -> SignedBeaconBlock | None:
        """The block of the state's slot; None when the proposer signed another one."""
        keys = self._validators.keyring
        contents = select_contents(self._ledger, state, keys.bls, self._gossip, self._entries, parent)
        block, _ = compute_unsigned_block(self._maker, state, keys, contents)
        message = compute_block_signing_root(self._maker, state, block)
        if not self._validators.protection.allow_block(pubkey, block.slot, message):
            return None
        return sign_block(self._maker, state, keys, block)

    # Votes

    def _vote(self, state: State) -> None:
        for index in range(
            self._ledger.get_committee_count_per_slot(state, self._ledger.get_current_epoch(state))
        ):
            vote = self._make_vote(state, index)
            if vote is not None:
                indexed = self._ledger.get_indexed_attestation(state, vote)
                self._gossip.take_vote(vote, indexed)
                self._outbox.publish(Kind.ATTESTATION, vote)

    def _make_vote(self, state: State, index: int) -> Attestation | None:
        """The vote of our members of a committee who may make it; None when there are none."""
        keys, committee = self._validators.keyring, get_committee_pubkeys(self._ledger, state, index)
        own = [pubkey for pubkey in committee if pubkey in keys.secret_keys]
        if not own:
            return None
        data = compute_attestation_data(self._ledger, state, index)
        message = compute_attestation_signing_root(self._ledger, state, data)
        protection = self._validators.protection
        allowed = set(protection.allow_attestation(own, data.source.epoch, data.target.epoch, message))
        if not allowed:
            return None
        signers = [pubkey if pubkey in allowed else b"" for pubkey in committee]
        return sign_attestation(self._ledger, state, keys, index, signers)

    def _sign_head(self, state: State) -> None:
        """Signs the head as those of the sync committee's seats that are ours."""
        keys, root = self._validators.keyring, self._branches.head
        pubkeys = get_sync_pubkeys(self._ledger, state, state.slot)
        bits = keys.find(pubkeys)
        if not bits.count_set():
            return
        message = compute_sync_signing_root(self._ledger, state, state.slot, root)
        contribution = SyncContribution(
            slot=state.slot,
            beacon_block_root=root,
            sync_committee_bits=bits,
            signature=keys.sign(pubkeys, message),
        )
        self._gossip.syncs.add(contribution)
        self._outbox.publish(Kind.CONTRIBUTION, contribution)
