"""What validators sign (altair/validator): reveals, votes, sync signatures, blocks; and admissions.

Whoever holds several validators' keys signs an identical message once, with the sum of the keys: that is
the aggregate of their signatures. Nothing here reads a clock, draws a random number, or remembers what was
signed: guarding against signing twice is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.consensus.containers.altair import SyncAggregate
from anchor.consensus.containers.entries import Admission, AdmitValidator, SignedEntry
from anchor.consensus.containers.phase0 import (
    Attestation,
    AttestationData,
    BeaconBlock,
    Checkpoint,
    DepositData,
    DepositMessage,
    SignedBeaconBlock,
)
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.admission import compute_admission_signing_root
from anchor.consensus.forks.registry import get_active_flags, get_pubkeys
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.consensus.weak_subjectivity import get_checkpoint_root
from anchor.errors import InvalidTransition, Misuse
from anchor.merkle.bits import Bits
from anchor.merkle.hashing import sha256
from anchor.merkle.lazy import np
from anchor.merkle.scope import hash_tree_root
from anchor.params import (
    BLS_WITHDRAWAL_PREFIX,
    DOMAIN_BEACON_ATTESTER,
    DOMAIN_BEACON_PROPOSER,
    DOMAIN_DEPOSIT,
    DOMAIN_RANDAO,
    DOMAIN_SYNC_COMMITTEE,
    G2_POINT_AT_INFINITY,
)
from anchor.types import CommitteeIndex, Gwei, Root, Version

State = Any
"""A BeaconState of the ledger."""

MAX_TIMESTAMP_SKEW: Final = 60
"""Seconds by which a block's time may differ from a signer's clock."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The secret keys of some validators."""

    bls: Bls
    secret_keys: Mapping[bytes, int]
    """By public key."""

    def __repr__(self) -> str:
        return f"Keyring of {len(self.secret_keys)} keys"

    def find(self, pubkeys: Sequence[bytes]) -> Bits:
        """(len(pubkeys),): for which of them there is a secret key."""
        return Bits([pubkey in self.secret_keys for pubkey in pubkeys])

    def sign(self, pubkeys: Sequence[bytes], message: Root) -> bytes:
        """The aggregate signature, over one message, of those of `pubkeys` that there are secret keys for.

        A key that is given twice signs twice. Without any, the signature of nobody: infinity.
        """
        own = [self.secret_keys[pubkey] for pubkey in pubkeys if pubkey in self.secret_keys]
        return self.bls.sign(sum(own) % ORDER, message) if own else G2_POINT_AT_INFINITY


def compute_deposit(secret_key: int, fork_version: Version, amount: Gwei, bls: Bls) -> DepositData:
    """A new validator's deposit data, with proof that its key is possessed."""
    pubkey = bls.sk_to_pk(secret_key)
    message = DepositMessage(
        pubkey=pubkey,
        withdrawal_credentials=BLS_WITHDRAWAL_PREFIX + sha256(pubkey)[1:],
        amount=amount,
    )
    root = compute_signing_root(hash_tree_root(message), compute_domain(DOMAIN_DEPOSIT, fork_version))
    return DepositData(
        pubkey=pubkey,
        withdrawal_credentials=message.withdrawal_credentials,
        amount=amount,
        signature=bls.sign(secret_key, root),
    )


def compute_admission(ledger: Ledger, state: State, keys: Keyring, admission: Admission) -> AdmitValidator:
    """The admission of a validator, with the consent of everyone in `keys`."""
    pubkeys = get_pubkeys(state.validators, np.arange(len(state.validators)))
    epoch = ledger.get_current_epoch(state)
    flags = get_active_flags(state.validators, epoch) & (state.validators.column("slashed") == 0)
    able = [pubkey if flag else b"" for pubkey, flag in zip(pubkeys, flags.tolist(), strict=True)]
    message = compute_admission_signing_root(ledger, state, admission)
    return AdmitValidator(
        admission=admission, participants=keys.find(able), signature=keys.sign(able, message)
    )


def compute_attestations(ledger: Ledger, state: State, keys: Keyring) -> tuple[Attestation, ...]:
    """The votes, in the state's slot, of those in `keys`: one a committee that any of them is in.

    The state is the head's, at the slot of the votes: they are for its newest block.
    """
    count = ledger.get_committee_count_per_slot(state, ledger.get_current_epoch(state))
    votes = [_compute_attestation(ledger, state, keys, index) for index in range(count)]
    return tuple([vote for vote in votes if vote.aggregation_bits.count_set()])


def _compute_attestation(ledger: Ledger, state: State, keys: Keyring, index: CommitteeIndex) -> Attestation:
    epoch = ledger.get_current_epoch(state)
    data = AttestationData(
        slot=state.slot,
        index=index,
        beacon_block_root=ledger.get_latest_block_root(state),
        source=state.current_justified_checkpoint,
        target=Checkpoint(epoch=epoch, root=get_checkpoint_root(ledger, state)),
    )
    committee = get_pubkeys(state.validators, ledger.get_beacon_committee(state, state.slot, index))
    message = ledger.compute_signing_root(data, ledger.get_domain(state, DOMAIN_BEACON_ATTESTER, epoch))
    return Attestation(
        aggregation_bits=keys.find(committee), data=data, signature=keys.sign(committee, message)
    )


def compute_sync_aggregate(ledger: Ledger, state: State, keys: Keyring) -> SyncAggregate:
    """The sync committee's signature for the block of the state's slot, of those in `keys`."""
    slot = max(state.slot, 1) - 1
    domain = ledger.get_domain(state, DOMAIN_SYNC_COMMITTEE, ledger.compute_epoch_at_slot(slot))
    message = compute_signing_root(ledger.get_block_root_at_slot(state, slot), domain)
    pubkeys = state.current_sync_committee.pubkeys
    return SyncAggregate(
        sync_committee_bits=keys.find(pubkeys), sync_committee_signature=keys.sign(pubkeys, message)
    )


def compute_block(
    ledger: Ledger,
    state: State,
    keys: Keyring,
    timestamp: int,
    entries: Sequence[SignedEntry] = (),
    attestations: Sequence[Attestation] = (),
) -> tuple[SignedBeaconBlock, State]:
    """The block of the state's slot, signed, and the state after it; `state` is left as it is.

    Raises Misuse when the proposer's key is not in `keys`, Invalid when what it is to hold breaks a rule.
    """
    index = ledger.get_beacon_proposer_index(state)
    proposer = state.validators[index].pubkey
    if proposer not in keys.secret_keys:
        raise Misuse(f"Slot {state.slot} is proposer {index}'s, whose key is not here.")
    block = BeaconBlock(
        slot=state.slot,
        proposer_index=index,
        parent_root=ledger.get_latest_block_root(state),
        state_root=bytes(32),
        body=_compute_body(ledger, state, keys, proposer, timestamp, entries, attestations),
    )
    post = state.copy()
    ledger.process_block(post, block)
    block = block.replace(state_root=ledger.hash_tree_root(post))
    message = ledger.compute_signing_root(block, ledger.get_domain(state, DOMAIN_BEACON_PROPOSER))
    return SignedBeaconBlock(message=block, signature=keys.sign([proposer], message)), post


def _compute_body(
    ledger: Ledger,
    state: State,
    keys: Keyring,
    proposer: bytes,
    timestamp: int,
    entries: Sequence[SignedEntry],
    attestations: Sequence[Attestation],
) -> Any:
    epoch_root = ledger.get_current_epoch(state).to_bytes(32, "little")
    reveal = compute_signing_root(epoch_root, ledger.get_domain(state, DOMAIN_RANDAO))
    body = ledger.scope.schema("BeaconBlockBody").default()
    return body.replace(
        randao_reveal=keys.sign([proposer], reveal),
        eth1_data=state.eth1_data,
        attestations=tuple(attestations),
        sync_aggregate=compute_sync_aggregate(ledger, state, keys),
        entries=tuple(entries),
        timestamp=timestamp,
    )


def verify_timestamp(timestamp: int, now: int) -> None:
    """Raises InvalidTransition when a block's time is too far from `now` to vote for it (rule 18)."""
    if abs(timestamp - now) > MAX_TIMESTAMP_SKEW:
        raise InvalidTransition(
            f"The block's time is {timestamp}, and here it is {now}: they differ by more than "
            f"{MAX_TIMESTAMP_SKEW} seconds."
        )
