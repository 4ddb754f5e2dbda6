"""What the network's tests share: a network by the wall clock, its nodes in one process, a protection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

from anchor.consensus.bls import Bls, NoSignatures, Signatures
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.duties import Keyring
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.node.folder import new_store
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
    ledger = Ledger(LEDGER, compute_config(genesis), Bls())
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
) -> Simulation:
    """A network at its genesis, its validators shared out evenly."""
    genesis = make_network_genesis(validators)
    made = [
        make_node(folder, number, genesis, range(number, validators, nodes), signs=signs)
        for number in range(nodes)
    ]
    return Simulation(made, GENESIS_TIME * 1000, Random(seed), links or Links())
