"""A network of one operator: its genesis, drawn at random, and its committee's keys from one seed."""

from __future__ import annotations

from typing import Final

from anchor.consensus.bls import Bls
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.duties import compute_deposit
from anchor.consensus.forks.ledger.genesis import is_known_fork_version
from anchor.consensus.presets import LEDGER
from anchor.node.keys import Randomness, derive_administrator_key, derive_validator_key
from anchor.params import LOGICAL_CLOCK

COMMITTEE_SIZE: Final = 64
"""Validators of an embedded ledger: eight for each slot of an epoch."""
NOMINAL_SECONDS_PER_SLOT: Final = 6 * 3600
"""A checkpoint is trusted for 256 epochs of eight slots: 512 days."""


def draw_genesis(seed: bytes, *, now: int, randomness: Randomness) -> Genesis:
    """The genesis of a new network, whose committee and administrator have keys from `seed` (rule 17)."""
    version = draw_fork_version(randomness)
    bls = Bls()
    stake = LEDGER.MAX_EFFECTIVE_BALANCE
    deposits = [
        compute_deposit(derive_validator_key(seed, index), version, stake, bls)
        for index in range(COMMITTEE_SIZE)
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


def draw_fork_version(randomness: Randomness) -> bytes:
    """A version that is no Ethereum network's."""
    while is_known_fork_version(version := randomness(4)):
        pass
    return version
