"""A small ledger network for tests: everyone's keys at hand, blocks made on demand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.consensus.containers.entries import (
    KINDS,
    ClaimOrganisation,
    Entry,
    Publish,
    RegisterPublisher,
    RotateKeys,
    SignedEntry,
)
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.duties import Keyring, compute_attestations, compute_block, compute_deposit
from anchor.consensus.entries import ROOT_KEY_KINDS, sign_entry
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.consensus.schemes import SigningKey
from anchor.merkle.container import Container
from anchor.merkle.union import Selected
from anchor.params import LOGICAL_CLOCK, SCHEME_ED25519, SCHEME_ML_DSA_65

BLS = Bls()
GENESIS_TIME = 1_800_000_000
VALIDATORS = 64


def make_key(name: str, scheme: int = SCHEME_ED25519) -> SigningKey:
    """A signing key that depends on its name only."""
    return SigningKey(scheme, sha256(name.encode()).digest())


ADMINISTRATOR = make_key("administrator")
ROOT = make_key("root of alice")
ALICE = (make_key("alice"),)
BOB_ROOT = make_key("root of bob")
BOB = (make_key("bob"), make_key("bob, for decades", SCHEME_ML_DSA_65))


def make_secret_key(index: int) -> int:
    """The secret key of validator `index`."""
    return int.from_bytes(sha256(b"validator %d" % index).digest()) % ORDER


def identity(key: SigningKey) -> bytes:
    """A root or administrator's key as an identity."""
    return key.public.public_key


@cache
def make_genesis(clock: int = LOGICAL_CLOCK, validators: int = VALIDATORS, nonce: int = 7) -> Genesis:
    """A network's genesis; always the same."""
    version = bytes.fromhex("5a5b5c5d")
    stake = LEDGER.MAX_EFFECTIVE_BALANCE
    deposits = [compute_deposit(make_secret_key(i), version, stake, BLS) for i in range(validators)]
    return Genesis(
        fork_version=version,
        genesis_time=GENESIS_TIME,
        nonce=bytes([nonce]) * 32,
        clock=clock,
        seconds_per_slot=3600,
        administrators=(identity(ADMINISTRATOR),),
        deposits=tuple(deposits),
    )


@cache
def make_keyring(validators: int = VALIDATORS) -> Keyring:
    """The keys of the first `validators` validators."""
    secrets = [make_secret_key(i) for i in range(validators)]
    return Keyring(BLS, {BLS.sk_to_pk(secret): secret for secret in secrets})


@cache
def _initialize(genesis: Genesis) -> tuple[Ledger, Any]:
    ledger = Ledger(LEDGER, compute_config(genesis), BLS)
    return ledger, ledger.initialize_ledger_state(genesis)


class Chain:
    """A ledger that grows: the state after its newest block, and its blocks."""

    def __init__(self, genesis: Genesis | None = None) -> None:
        genesis = genesis or make_genesis()
        self.keys = make_keyring()
        self.ledger, first = _initialize(genesis)
        self.state = first.copy()
        self.blocks: list[SignedBeaconBlock] = []
        self.sequences: dict[tuple[bytes, bool], int] = {}

    def make_entry(
        self, keys: Sequence[SigningKey], by: SigningKey, body: Container, **changes: Any
    ) -> SignedEntry:
        """`body` as the next entry of the author `by`, signed; `changes` replace the entry's fields."""
        counter = identity(by), isinstance(body, ROOT_KEY_KINDS)
        self.sequences[counter] = self.sequences.get(counter, 0) + 1
        entry = Entry(
            schema_version=1,
            author=identity(by),
            sequence=self.sequences[counter],
            expiry_epoch=1000,
            body=Selected(KINDS.index(type(body)), body),
        ).replace(**changes)
        return sign_entry(entry, keys, self.state.fork.current_version, self.state.genesis_validators_root)

    def add(self, *entries: SignedEntry) -> None:
        """Verifies and applies entries, without a block."""
        for signed in entries:
            self.ledger.verify_entry(self.state, signed)
            self.ledger.apply_entry(self.state, signed)

    def at_next_slot(self) -> Any:
        """A copy of the state, one slot on."""
        state = self.state.copy()
        self.ledger.process_slots(state, state.slot + 1)
        return state

    def add_block(self, *entries: SignedEntry, timestamp: int | None = None) -> None:
        """The next slot's block, with everyone's votes for the one before and these entries."""
        attestations = compute_attestations(self.ledger, self.state, self.keys)
        time = self.state.timestamp + 60 if timestamp is None else timestamp
        block, post = compute_block(self.ledger, self.at_next_slot(), self.keys, time, entries, attestations)
        self.blocks.append(block)
        self.state = post

    def make_registration(self, root: SigningKey, keys: Sequence[SigningKey]) -> list[SignedEntry]:
        """What makes a publisher with these signing keys."""
        body = RegisterPublisher(root_key=identity(root))
        rotation = RotateKeys(keys=tuple([key.public for key in keys]))
        return [
            self.make_entry([ADMINISTRATOR], ADMINISTRATOR, body),
            self.make_entry([root], root, rotation),
        ]

    def register(self, root: SigningKey, keys: Sequence[SigningKey]) -> None:
        """Makes a publisher with these signing keys."""
        self.add(*self.make_registration(root, keys))

    def make_alice(self) -> list[SignedEntry]:
        """Alice is registered, claims acme, and publishes acme/net 1.0."""
        return [
            *self.make_registration(ROOT, ALICE),
            self.make_entry(ALICE, ROOT, ClaimOrganisation(name=b"acme")),
            self.make_entry(ALICE, ROOT, PUBLICATION),
        ]

    def add_alice(self) -> None:
        """Applies Alice's entries, without a block."""
        self.add(*self.make_alice())


PUBLICATION = Publish(model=b"acme/net", version=b"1.0", manifest_root=b"\x11" * 32)
