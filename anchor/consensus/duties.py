"""What validators sign (altair/validator): reveals, votes, sync signatures, blocks; and admissions.

Whoever holds several validators' keys signs an identical message once, with the sum of the keys: that is
the aggregate of their signatures. Nothing here reads a clock, draws a random number, or remembers what was
signed: guarding against signing twice is the caller's, who learns what is to be signed before it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.consensus.containers.altair import SyncAggregate
from anchor.consensus.containers.entries import Admission, AdmitValidator, SignedEntry
from anchor.consensus.containers.phase0 import (
    Attestation,
    AttestationData,
    AttesterSlashing,
    BeaconBlock,
    Checkpoint,
    DepositData,
    DepositMessage,
    ProposerSlashing,
    SignedBeaconBlock,
    SignedVoluntaryExit,
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
from anchor.types import CommitteeIndex, Gwei, Root, Slot, Version

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
    votes = []
    for index in range(ledger.get_committee_count_per_slot(state, ledger.get_current_epoch(state))):
        committee = get_committee_pubkeys(ledger, state, index)
        votes.append(sign_attestation(ledger, state, keys, index, committee))
    return tuple([vote for vote in votes if vote.aggregation_bits.count_set()])


def get_committee_pubkeys(ledger: Ledger, state: State, index: CommitteeIndex) -> list[bytes]:
    """The keys of a committee of the state's slot, in its order."""
    return get_pubkeys(state.validators, ledger.get_beacon_committee(state, state.slot, index))


def compute_attestation_data(ledger: Ledger, state: State, index: CommitteeIndex) -> AttestationData:
    """What members of a committee of the state's slot vote for."""
    epoch = ledger.get_current_epoch(state)
    return AttestationData(
        slot=state.slot,
        index=index,
        beacon_block_root=ledger.get_latest_block_root(state),
        source=state.current_justified_checkpoint,
        target=Checkpoint(epoch=epoch, root=get_checkpoint_root(ledger, state)),
    )


def compute_attestation_signing_root(ledger: Ledger, state: State, data: AttestationData) -> Root:
    """What who votes for `data` signs."""
    return ledger.compute_signing_root(
        data, ledger.get_domain(state, DOMAIN_BEACON_ATTESTER, data.target.epoch)
    )


def sign_attestation(
    ledger: Ledger, state: State, keys: Keyring, index: CommitteeIndex, committee: Sequence[bytes]
) -> Attestation:
    """The vote of a committee's members who are in `keys`. Who is not to vote is left out of `committee`.

    `committee` is as `get_committee_pubkeys` gives it; somebody who is left out has an empty key there.
    """
    data = compute_attestation_data(ledger, state, index)
    message = compute_attestation_signing_root(ledger, state, data)
    return Attestation(
        aggregation_bits=keys.find(committee), data=data, signature=keys.sign(committee, message)
    )


def compute_sync_aggregate(ledger: Ledger, state: State, keys: Keyring) -> SyncAggregate:
    """The sync committee's signature for the block of the state's slot, of those in `keys`."""
    slot = max(state.slot, 1) - 1
    message = compute_sync_signing_root(ledger, state, slot, ledger.get_block_root_at_slot(state, slot))
    pubkeys = state.current_sync_committee.pubkeys
    return SyncAggregate(
        sync_committee_bits=keys.find(pubkeys), sync_committee_signature=keys.sign(pubkeys, message)
    )


def compute_sync_signing_root(ledger: Ledger, state: State, slot: Slot, root: Root) -> Root:
    """What members of the sync committee sign in `slot` about the block that they then see as the head."""
    domain = ledger.get_domain(state, DOMAIN_SYNC_COMMITTEE, ledger.compute_epoch_at_slot(slot))
    return compute_signing_root(root, domain)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a block brings."""

    timestamp: int
    """Unix time, seconds."""
    sync_aggregate: SyncAggregate
    proposer_slashings: tuple[ProposerSlashing, ...] = ()
    attester_slashings: tuple[AttesterSlashing, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    voluntary_exits: tuple[SignedVoluntaryExit, ...] = ()
    entries: tuple[SignedEntry, ...] = ()


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
    contents = Contents(
        timestamp,
        compute_sync_aggregate(ledger, state, keys),
        attestations=tuple(attestations),
        entries=tuple(entries),
    )
    block, post = compute_unsigned_block(ledger, state, keys, contents)
    return sign_block(ledger, state, keys, block), post


def compute_unsigned_block(
    ledger: Ledger, state: State, keys: Keyring, contents: Contents
) -> tuple[BeaconBlock, State]:
    """The block of the state's slot, not signed yet, and the state after it. Raises as `compute_block`."""
    index = ledger.get_beacon_proposer_index(state)
    proposer = state.validators[index].pubkey
    if proposer not in keys.secret_keys:
        raise Misuse(f"Slot {state.slot} is proposer {index}'s, whose key is not here.")
    reveal = keys.sign([proposer], _get_randao_message(ledger, state))
    block = BeaconBlock(
        slot=state.slot,
        proposer_index=index,
        parent_root=ledger.get_latest_block_root(state),
        state_root=bytes(32),
        body=_compute_body(ledger, state, reveal, contents),
    )
    post = state.copy()
    ledger.process_block(post, block)
    return block.replace(state_root=ledger.hash_tree_root(post)), post


def compute_block_signing_root(ledger: Ledger, state: State, block: BeaconBlock) -> Root:
    """What the proposer of a block of the state's epoch signs."""
    return ledger.compute_signing_root(block, ledger.get_domain(state, DOMAIN_BEACON_PROPOSER))


def sign_block(ledger: Ledger, state: State, keys: Keyring, block: BeaconBlock) -> SignedBeaconBlock:
    """A block of the state's slot, with its proposer's signature."""
    proposer = state.validators[block.proposer_index].pubkey
    message = compute_block_signing_root(ledger, state, block)
    return SignedBeaconBlock(message=block, signature=keys.sign([proposer], message))


def _get_randao_message(ledger: Ledger, state: State) -> Root:
    epoch_root = ledger.get_current_epoch(state).to_bytes(32, "little")
    return compute_signing_root(epoch_root, ledger.get_domain(state, DOMAIN_RANDAO))


def _compute_body(ledger: Ledger, state: State, reveal: bytes, contents: Contents) -> Any:
    body = ledger.scope.schema("BeaconBlockBody").default()
    brought = {field.name: getattr(contents, field.name) for field in fields(contents)}
    return body.replace(randao_reveal=reveal, eth1_data=state.eth1_data, **brought)


def verify_timestamp(timestamp: int, now: int) -> None:
    """Raises InvalidTransition when a block's time is too far from `now` to vote for it (rule 18)."""
    if abs(timestamp - now) > MAX_TIMESTAMP_SKEW:
        raise InvalidTransition(
            f"The block's time is {timestamp}, and here it is {now}: they differ by more than "
            f"{MAX_TIMESTAMP_SKEW} seconds."
        )
