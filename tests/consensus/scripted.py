"""A world for the fork choice: blocks whose effects on a state are scripted, and everything that may come.

The rules are a fork's own, but for the transition: a block's graffiti names an entry of a script, which says
what its state justifies and finalises. So thousands of chains with every kind of history are made in seconds.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache
from random import Random
from typing import Any, NamedTuple

from anchor.consensus.bls import NoSignatures
from anchor.consensus.containers.electra import Attestation as ElectraAttestation
from anchor.consensus.containers.gloas import PayloadAttestation, PayloadAttestationData
from anchor.consensus.containers.phase0 import (
    Attestation,
    AttestationData,
    AttesterSlashing,
    Checkpoint,
    SignedBeaconBlock,
)
from anchor.consensus.forks.altair import Altair
from anchor.consensus.forks.gloas import Gloas
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.errors import InvalidTransition
from anchor.merkle.bits import Bits
from anchor.params import FAR_FUTURE_EPOCH

PRESET = MINIMAL.replace("scripted", SLOTS_PER_EPOCH=4)
CONFIG = MINIMAL_CONFIG.replace("scripted", GLOAS_FORK_EPOCH=0)
VALIDATORS = 24
ETHER = 10**9
INVALID = 2**32 - 1
"""The entry of a block that the rules refuse."""


class Entry(NamedTuple):
    """What a block does to a state."""

    justified: Checkpoint
    finalized: Checkpoint
    unrealized_justified: Checkpoint
    unrealized_finalized: Checkpoint
    balance: int
    """In ether, of the validator who proposed it."""


class Scripted:
    """Rules whose transition follows `script`."""

    script: list[Entry]

    def state_transition(self, pre_state: Any, signed_block: Any, validate_result: bool = True) -> Any:
        block = signed_block.message
        number = int.from_bytes(block.body.graffiti, "big")
        if number == INVALID or block.slot <= pre_state.slot:
            raise InvalidTransition("The script refuses the block.")
        state, entry = pre_state.copy(), self.script[number]
        state.slot, state.eth1_deposit_index = block.slot, number
        state.current_justified_checkpoint, state.finalized_checkpoint = entry.justified, entry.finalized
        state.validators.write("effective_balance", block.proposer_index, entry.balance * ETHER)
        state.validators.write("slashed", block.proposer_index, entry.balance % 2)
        return state

    def process_justification_and_finalization(self, state: Any) -> None:
        entry = self.script[state.eth1_deposit_index]
        state.current_justified_checkpoint = entry.unrealized_justified
        state.finalized_checkpoint = entry.unrealized_finalized

    def process_slots(self, state: Any, slot: int) -> None:
        state.slot = slot

    def verify_execution_payload_envelope(self, state: Any, signed: Any, engine: Any) -> None:
        if signed.message.builder_index == INVALID:
            raise InvalidTransition("The script refuses the payload.")


class ScriptedAltair(Scripted, Altair):
    """Altair, scripted."""


class ScriptedGloas(Scripted, Gloas):
    """Gloas, scripted. Its payload committees come round again."""

    def state_transition(self, pre_state: Any, signed_block: Any, validate_result: bool = True) -> Any:
        state = super().state_transition(pre_state, signed_block, validate_result)
        passed = self.get_current_epoch(state) - self.get_current_epoch(pre_state)
        rows = passed * PRESET.SLOTS_PER_EPOCH % len(state.ptc_window)
        state.ptc_window = state.ptc_window[rows:] + state.ptc_window[:rows]
        return state


KINDS: dict[str, Any] = {"altair": ScriptedAltair, "gloas": ScriptedGloas}


@cache
def make_rules(fork: str) -> Any:
    """The rules; a world gives them its script."""
    return KINDS[fork](PRESET, CONFIG, NoSignatures())


@cache
def make_anchor(fork: str) -> tuple[Any, Any]:
    """A genesis state and its block."""
    rules = make_rules(fork)
    state = rules.scope.schema("BeaconState").default()
    for index in range(VALIDATORS):
        rules.add_validator_to_registry(state, index.to_bytes(48, "big"), bytes(32), 32 * ETHER)
    state.validators.write("activation_epoch", slice(None), 0)
    state.validators.write("activation_epoch", slice(20, 24), 2)
    state.validators.write("exit_epoch", slice(0, 2), 3)
    state.validators.write("exit_epoch", slice(2, None), FAR_FUTURE_EPOCH)
    state.validators.write("effective_balance", slice(None), 32 * ETHER)
    if fork == "gloas":
        chance = Random(1)
        rows = [[chance.randrange(VALIDATORS) for _ in range(PRESET.PTC_SIZE)] for _ in state.ptc_window]
        state.ptc_window = tuple([tuple(row) for row in rows])
    block = rules.scope.schema("BeaconBlock").default().replace(state_root=rules.hash_tree_root(state))
    return state, block


class World:
    """Makes what comes: blocks on known and unknown ones, votes right and wrong, evidence, payloads."""

    def __init__(self, fork: str) -> None:
        self.fork, self.rules = fork, make_rules(fork)
        self.state, self.anchor = make_anchor(fork)
        self.root = self.rules.hash_tree_root(self.anchor)
        start = Checkpoint(epoch=0, root=self.root)
        self.rules.script = [Entry(start, start, start, start, 32)]
        self.blocks: dict[bytes, Any] = {self.root: self.anchor}
        self.entries = {self.root: self.rules.script[0]}
        self.lost: dict[bytes, Any] = {}
        """Blocks that were refused, or forgotten: they aren't built on."""

    # Blocks

    def get_ancestor(self, root: bytes, slot: int) -> bytes:
        blocks = self.lost | self.blocks
        while blocks[root].slot > slot:
            root = blocks[root].parent_root
        return root

    def make_checkpoint(self, root: bytes, epoch: int) -> Checkpoint:
        return Checkpoint(epoch=epoch, root=self.get_ancestor(root, epoch * PRESET.SLOTS_PER_EPOCH))

    def make_entry(self, parent: bytes, slot: int, chance: Random) -> Entry:
        """Checkpoints that grow along the chain, of its own blocks."""
        before, epoch = self.entries[parent], slot // PRESET.SLOTS_PER_EPOCH
        kept = epoch == self.blocks[parent].slot // PRESET.SLOTS_PER_EPOCH
        justified = before.justified if kept else before.unrealized_justified
        finalized = before.finalized if kept else before.unrealized_finalized
        pulled_up, final = before.unrealized_justified, before.unrealized_finalized
        if chance.random() < 0.4 and pulled_up.epoch < epoch:
            target = self.make_checkpoint(parent, chance.randint(pulled_up.epoch + 1, epoch))
            if chance.random() < 0.5:
                final = pulled_up
            pulled_up = target
        return Entry(justified, finalized, pulled_up, final, chance.choice([32, 32, 32, 17, 16, 1]))

    def make_block(self, chance: Random, now: int) -> Any:
        """A block, often of the slot that is now."""
        parent = chance.choice(list(self.blocks)[-6:]) if chance.random() < 0.95 else bytes([7]) * 32
        slot = chance.choice([1, 1, 1, 1, 2, 4])
        number = INVALID
        if parent in self.blocks:
            slot = max(now, self.blocks[parent].slot + 1) if slot == 1 else slot + self.blocks[parent].slot
            if chance.random() < 0.95:
                number = len(self.rules.script)
                self.rules.script.append(self.make_entry(parent, slot, chance))
        block = self.anchor.replace(
            slot=slot,
            parent_root=parent,
            proposer_index=chance.randrange(3),
            body=self.make_body(parent, slot, number, chance),
        )
        if number != INVALID:
            root = self.rules.hash_tree_root(block)
            self.blocks[root], self.entries[root] = block, self.rules.script[number]
        return SignedBeaconBlock(message=block, signature=bytes(96))

    def keep(self, known: Container[bytes]) -> None:
        """Forgets blocks that nobody took."""
        self.lost |= {root: block for root, block in self.blocks.items() if root not in known}
        self.blocks = {root: block for root, block in self.blocks.items() if root in known}

    def make_body(self, parent: bytes, slot: int, number: int, chance: Random) -> Any:
        body = self.anchor.body.replace(graffiti=number.to_bytes(32, "big"))
        if self.fork != "gloas" or parent not in self.blocks:
            return body
        parent_bid = self.blocks[parent].body.signed_execution_payload_bid.message
        hashes = [parent_bid.block_hash, parent_bid.parent_block_hash]
        bid = parent_bid.replace(
            parent_block_hash=chance.choice(hashes), block_hash=(number + 1).to_bytes(32, "big")
        )
        body = body.replace(
            signed_execution_payload_bid=body.signed_execution_payload_bid.replace(message=bid)
        )
        if slot != self.blocks[parent].slot + 1:
            return body  # the rules take votes on the previous slot's payload only
        attestation = PayloadAttestation(
            aggregation_bits=Bits([chance.random() < 0.5 for _ in range(PRESET.PTC_SIZE)]),
            data=self.make_payload_data(parent, chance),
            signature=bytes(96),
        )
        return body.replace(payload_attestations=(attestation,))

    # Votes

    def make_vote(self, chance: Random) -> AttestationData:
        root = chance.choice(list(self.blocks)[-8:])
        slot = self.blocks[root].slot + chance.choice([0, 0, 1, 1, 2, 3, 5])
        epoch = slot // PRESET.SLOTS_PER_EPOCH
        target = self.make_checkpoint(root, epoch)
        if chance.random() < 0.1:
            target = target.replace(root=chance.choice(list(self.blocks)))
        if chance.random() < 0.05:
            target = target.replace(epoch=epoch + 1)
        index = chance.choice([0, 0, 1, 2]) if self.fork == "gloas" else 0
        if chance.random() < 0.05:
            root = bytes([9]) * 32
        return AttestationData(slot=slot, index=index, beacon_block_root=root, source=target, target=target)

    def make_attestation(self, chance: Random) -> Any:
        data = self.make_vote(chance)
        voters = [chance.random() < 0.6 for _ in range(VALIDATORS // PRESET.SLOTS_PER_EPOCH)]
        size = len(voters) - (chance.random() < 0.05)
        values = {"aggregation_bits": Bits(voters[:size]), "data": data, "signature": bytes(96)}
        if self.fork != "gloas":
            return Attestation(**values)
        kind: type[ElectraAttestation] = self.rules.records["Attestation"]
        return kind(**values, committee_bits=Bits([True, False, False, False]))

    def make_slashing(self, chance: Random) -> AttesterSlashing:
        first = self.make_vote(chance)
        other = first.replace(beacon_block_root=bytes([chance.randrange(2)]) * 32)
        if chance.random() < 0.2:
            other = first
        record = self.rules.records["IndexedAttestation"]
        indexed = []
        for data in (first, other):
            indices = sorted(chance.sample(range(VALIDATORS + (chance.random() < 0.1)), 5))
            indexed.append(record(attesting_indices=tuple(indices), data=data, signature=bytes(96)))
        return AttesterSlashing(attestation_1=indexed[0], attestation_2=indexed[1])

    # Payloads

    def make_payload_data(self, root: bytes, chance: Random) -> PayloadAttestationData:
        slot = self.blocks[root].slot + (chance.random() < 0.1)
        present, available = chance.random() < 0.6, chance.random() < 0.6
        return PayloadAttestationData(
            beacon_block_root=root, slot=slot, payload_present=present, blob_data_available=available
        )

    def make_envelope(self, chance: Random) -> Any:
        root = chance.choice(list(self.blocks)[-6:]) if chance.random() < 0.95 else bytes([7]) * 32
        schema = self.rules.scope.schema("SignedExecutionPayloadEnvelope")
        signed = schema.default()
        index = INVALID if chance.random() < 0.1 else 0
        message = signed.message.replace(beacon_block_root=root, builder_index=index)
        return signed.replace(message=message)

    def make_payload_vote(self, chance: Random) -> Any:
        root = chance.choice(list(self.blocks)[-6:])
        message = self.rules.scope.schema("PayloadAttestationMessage").default()
        data = self.make_payload_data(root, chance)
        return message.replace(validator_index=chance.randrange(VALIDATORS + 1), data=data)


def take_snapshot(choice: Any, store: Any) -> Any:
    """All that a refused call must leave as it is."""
    choice.get_head(store)
    tree, votes = store.tree, store.votes
    return (
        store.time_ms,
        store.justified_checkpoint,
        store.finalized_checkpoint,
        store.unrealized_justified_checkpoint,
        store.unrealized_finalized_checkpoint,
        store.proposer_boost_root,
        dict(store.blocks),
        {root: choice.rules.hash_tree_root(state) for root, state in store.block_states.items()},
        dict(store.block_timeliness),
        dict(store.unrealized_justifications),
        set(store.payloads),
        {root: list(votes) for root, votes in store.payload_timeliness_vote.items()},
        {root: list(votes) for root, votes in store.payload_data_availability_vote.items()},
        set(store.optimistic_roots),
        {slot: list(roots) for slot, roots in store.roots_at_slot.items()},
        (list(tree.nodes), list(tree.parents), list(tree.weights), list(tree.best), list(tree.viable)),
        [array.tolist() for array in (votes.times, votes.places, votes.weights, votes.equivocating)],
    )
