"""A network of one operator: its genesis, drawn at random, and its committee's keys from one seed."""

from __future__ import annotations

from typing import Final

from anchor.consensus.bls import Bls
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import DepositData, DepositMessage
from anchor.consensus.forks.ledger.genesis import is_known_fork_version
from anchor.consensus.presets import LEDGER
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.merkle.hashing import sha256
from anchor.merkle.scope import hash_tree_root
from anchor.node.keys import Randomness, derive_administrator_key, derive_validator_key
from anchor.params import BLS_WITHDRAWAL_PREFIX, DOMAIN_DEPOSIT, LOGICAL_CLOCK

COMMITTEE_SIZE: Final = 64
"""Validators of an embedded ledger: eight for each slot of an epoch."""
NOMINAL_SECONDS_PER_SLOT: Final = 12


def draw_genesis(seed: bytes, *, now: int, randomness: Randomness) -> Genesis:
    """The genesis of a new network whose committee and administrator have their keys from `seed` (rule 17)."""
    version = _draw_fork_version(randomness)
    bls = Bls()
    deposits = [
        _make_deposit(bls, derive_validator_key(seed, index), version) for index in range(COMMITTEE_SIZE)
    ]
    return Genesis(
        fork_version=version,
        genesis_time=now,
        nonce=randomness(32),
        clock=LOGICAL_CLOCK,
        seconds_per_slot=NOMINAL_SECONDS_PER_SLOT,
        administrators=(derive_administrator_key(seed).public.public_key,),
        deposits=tuple(deposits),
    )


def _draw_fork_version(randomness: Randomness) -> bytes:
    """A version that is no Ethereum network's."""
    while is_known_fork_version(version := randomness(4)):
        pass
    return version


def _make_deposit(bls: Bls, secret_key: int, fork_version: bytes) -> DepositData:
    """A validator's stake, with the proof that its key is possessed."""
    pubkey = bls.sk_to_pk(secret_key)
    message = DepositMessage(
        pubkey=pubkey,
        withdrawal_credentials=BLS_WITHDRAWAL_PREFIX + sha256(pubkey)[1:],
        amount=LEDGER.MAX_EFFECTIVE_BALANCE,
    )
    domain = compute_domain(DOMAIN_DEPOSIT, fork_version)
    return DepositData(
        pubkey=message.pubkey,
        withdrawal_credentials=message.withdrawal_credentials,
        amount=message.amount,
        signature=bls.sign(secret_key, compute_signing_root(hash_tree_root(message), domain)),
    )
