"""A small ledger network for tests: everyone's keys at hand, blocks made on demand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.consensus.containers.entries import KINDS, Entry, SignedEntry
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.duties import Keyring, compute_attestations, compute_block, compute_deposit
from anchor.consensus.entries import sign_entry
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
SIGNING = (make_key("alice"),)
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


class Chain:
    """A ledger that grows: the state after its newest block, and its blocks."""

    def __init__(self, genesis: Genesis | None = None) -> None:
        genesis = genesis or make_genesis()
        self.keys = make_keyring()
        self.ledger = Ledger(LEDGER, compute_config(genesis), BLS)
        self.state = self.ledger.initialize_ledger_state(genesis)
        self.blocks: list[SignedBeaconBlock] = []
        self.sequences: dict[tuple[bytes, str], int] = {}

    def make_entry(
        self, keys: Sequence[SigningKey], author: SigningKey, body: Container, **changes: Any
    ) -> SignedEntry:
        """`body` as the author's next entry, signed; `changes` replace the entry's fields."""
        counter = identity(author), "root" if author in keys else "keys"
        self.sequences[counter] = self.sequences.get(counter, 0) + 1
        entry = Entry(
            schema_version=1,
            author=identity(author),
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

    def add_block(self, *entries: SignedEntry, timestamp: int | None = None) -> None:
        """The next slot's block, with everyone's votes for the one before and these entries."""
        attestations = compute_attestations(self.ledger, self.state, self.keys)
        at_slot = self.state.copy()
        self.ledger.process_slots(at_slot, self.state.slot + 1)
        time = self.state.timestamp + 60 if timestamp is None else timestamp
        block, post = compute_block(self.ledger, at_slot, self.keys, time, entries, attestations)
        self.blocks.append(block)
        self.state = post
