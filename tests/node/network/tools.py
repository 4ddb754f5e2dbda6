"""What the network's tests share: a network by the wall clock, its nodes in one process, a protection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from anchor.consensus.bls import Bls, NoSignatures, Signatures
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.duties import (
    Keyring,
    compute_attestation_signing_root,
    get_committee_pubkeys,
    sign_block,
)
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.node.folder import new_store
from anchor.node.network.engine import Engine
from anchor.node.network.messages import Kind, Message
from anchor.node.network.outbox import Send
from anchor.node.network.simulator import Links, SimulatedNode, Simulation
from anchor.node.places import FILE
from anchor.node.store import Store
from anchor.params import WALL_CLOCK
from tests.consensus.ledgers import GENESIS_TIME, make_genesis, make_secret_key

SLOT = 2
"""Seconds."""


class Unsigned(NoSignatures):
    """Signs at once what nobody verifies."""

    def sign(self, secret_key: int, message: bytes) -> bytes:
        return (sha256(message).digest() * 3)[:96]

    def aggregate(self, signatures: Sequence[bytes]) -> bytes:
        return signatures[0]


@dataclass
class StrictProtection:
    """Remembers everything; for ever, as what is on disk does."""

    blocks: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    votes: dict[bytes, list[tuple[int, int, bytes]]] = field(default_factory=dict)

    def allow_block(self, pubkey: bytes, slot: int, signing_root: bytes) -> bool:
        return self.blocks.setdefault((pubkey, slot), signing_root) == signing_root

    def allow_attestation(
        self, pubkeys: Sequence[bytes], source: int, target: int, signing_root: bytes
    ) -> list[bytes]:
        vote = (source, target, signing_root)
        allowed = [pubkey for pubkey in pubkeys if not self._is_offence(pubkey, vote)]
        for pubkey in allowed:
            self.votes.setdefault(pubkey, []).append(vote)
        return allowed

    def _is_offence(self, pubkey: bytes, vote: tuple[int, int, bytes]) -> bool:
        source, target, root = vote
        return any(
            (t == target and r != root) or (s < source and target < t) or (source < s and t < target)
            for s, t, r in self.votes.get(pubkey, ())
        )


@dataclass
class Hands:
    """Some validators' keys, and what they signed."""

    keyring: Keyring
    protection: StrictProtection = field(default_factory=StrictProtection)


def make_network_genesis(validators: int) -> Genesis:
    """A network by the wall clock."""
    return make_genesis(WALL_CLOCK, validators).replace(seconds_per_slot=SLOT)


def make_hands(bls: Bls, indices: Sequence[int]) -> Hands:
    """The keys of the validators with these numbers."""
    secrets = [make_secret_key(index) for index in indices]
    return Hands(Keyring(bls, {Bls().sk_to_pk(secret): secret for secret in secrets}))


def make_store(folder: Path, genesis: Genesis) -> None:
    """A new store in `folder`, which is made."""
    folder.mkdir()
    ledger = Ledger(LEDGER, compute_config(genesis), NoSignatures())
    state = ledger.initialize_ledger_state(genesis)
    with new_store(folder / FILE, "net", genesis, ledger, state, reserved=0, may_sign=True):
        pass


def open_store(folder: Path) -> Store:
    """The store in `folder`."""
    return Store.open(folder / FILE, writable=True)


def make_node(
    folder: Path, number: int, genesis: Genesis, indices: Sequence[int], *, signs: bool
) -> SimulatedNode:
    """A node with the keys of validators `indices`, and a store of its own."""
    home = folder / str(number)
    if not home.exists():
        make_store(home, genesis)
    bls: Bls = Bls() if signs else Unsigned()
    signatures: Signatures | None = None if signs else bls
    return SimulatedNode(number, lambda: open_store(home), make_hands(bls, indices), signatures)


def make_simulation(
    folder: Path,
    nodes: int = 4,
    validators: int = 16,
    *,
    signs: bool = False,
    seed: int = 1,
    links: Links | None = None,
    at: int = 0,
) -> Simulation:
    """A network at slot `at`, its validators shared out evenly; at its genesis its stores are made."""
    genesis = make_network_genesis(validators)
    made = [
        make_node(folder, number, genesis, range(number, validators, nodes), signs=signs)
        for number in range(nodes)
    ]
    return Simulation(made, (GENESIS_TIME + at * SLOT) * 1000, Random(seed), links or Links())


class Equivocator:
    """What a node without shame sends: two blocks for a slot, two votes for a target, one to each half."""

    def __init__(self, node: SimulatedNode, simulation: Simulation) -> None:
        self._keys = node.validators.keyring if node.validators else None
        self._peers = [peer.number for peer in simulation.nodes if peer is not node]

    def __call__(self, engine: Engine, send: Send) -> list[tuple[int, Message]]:
        second = self._contradict(engine, send.message) if send.but is None else None
        if second is None:
            return [(number, send.message) for number in self._peers]
        halves = self._peers[::2], self._peers[1::2]
        return [(n, send.message) for n in halves[0]] + [(n, second) for n in halves[1]]

    def _contradict(self, engine: Engine, message: Message) -> Message | None:
        if message.kind == Kind.BLOCK:
            return Message(Kind.BLOCK, self._change_block(engine, message.value.message))
        if message.kind == Kind.ATTESTATION:
            return self._change_vote(engine, message.value)
        return None

    def _change_block(self, engine: Engine, block: Any) -> SignedBeaconBlock:
        branches = engine._branches
        state = branches.get_state_at(block.parent_root, block.slot)
        other = block.replace(body=block.body.replace(graffiti=b"\1" * 32))
        post = state.copy()
        branches.trusting_ledger.process_block(post, other)
        other = other.replace(state_root=engine.ledger.hash_tree_root(post))
        return sign_block(engine.ledger, state, self._keys, other)

    def _change_vote(self, engine: Engine, vote: Any) -> Message | None:
        data = vote.data
        if data.beacon_block_root == data.target.root:
            return None
        state = engine._branches.get_state_at(data.beacon_block_root, data.slot)
        other = data.replace(beacon_block_root=data.target.root)
        committee = get_committee_pubkeys(engine.ledger, state, data.index)
        signature = self._keys.sign(committee, compute_attestation_signing_root(engine.ledger, state, other))
        return Message(Kind.ATTESTATION, vote.replace(data=other, signature=signature))
