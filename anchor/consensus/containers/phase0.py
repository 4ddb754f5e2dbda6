"""Records of phase0 (consensus specifications, phase0/beacon-chain "Containers", phase0/validator)."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import collect_records
from anchor.merkle.bits import Bits
from anchor.merkle.columns import Column
from anchor.merkle.container import Container
from anchor.merkle.state import MutableContainer
from anchor.merkle.table import Table
from anchor.params import DEPOSIT_CONTRACT_TREE_DEPTH, JUSTIFICATION_BITS_LENGTH
from anchor.types import (
    BLSPubkey,
    BLSSignature,
    Bytes32,
    CommitteeIndex,
    Domain,
    Epoch,
    Gwei,
    Hash32,
    Length,
    Limit,
    Root,
    Slot,
    ValidatorIndex,
    Version,
    boolean,
    uint64,
)


class Fork(Container):
    """Which rules hold, and which held before: what signatures are bound to."""

    previous_version: Version
    current_version: Version
    epoch: Epoch


class ForkData(Container):
    """What a fork's digest and its signature domains are computed from."""

    current_version: Version
    genesis_validators_root: Root


class Checkpoint(Container):
    """An epoch, and the block that stood at its start."""

    epoch: Epoch
    root: Root


class SigningData(Container):
    """What is signed: a root, bound to a purpose, a fork and a network."""

    object_root: Root
    domain: Domain


class Validator(Container):
    """An entry of the validator registry; a scheduled epoch is FAR_FUTURE_EPOCH until it is set."""

    pubkey: BLSPubkey
    withdrawal_credentials: Bytes32
    effective_balance: Gwei
    slashed: boolean
    activation_eligibility_epoch: Epoch
    activation_epoch: Epoch
    exit_epoch: Epoch
    withdrawable_epoch: Epoch


class AttestationData(Container):
    """A vote: the head of the chain, and a link from one checkpoint to the next."""

    slot: Slot
    index: CommitteeIndex
    beacon_block_root: Root
    source: Checkpoint
    target: Checkpoint


class Attestation(Container):
    """A vote with the members of a committee who signed it."""

    aggregation_bits: Annotated[Bits, Limit("MAX_VALIDATORS_PER_COMMITTEE")]
    data: AttestationData
    signature: BLSSignature


class IndexedAttestation(Container):
    """A vote with the validators who signed it, ascending."""

    attesting_indices: Annotated[tuple[ValidatorIndex, ...], Limit("MAX_VALIDATORS_PER_COMMITTEE")]
    data: AttestationData
    signature: BLSSignature


class PendingAttestation(Container):
    """A vote that a block brought, kept until its epoch is accounted for."""

    aggregation_bits: Annotated[Bits, Limit("MAX_VALIDATORS_PER_COMMITTEE")]
    data: AttestationData
    inclusion_delay: Slot
    proposer_index: ValidatorIndex


class Eth1Data(Container):
    """The deposit contract's tree at an execution block."""

    deposit_root: Root
    deposit_count: uint64
    block_hash: Hash32


class Eth1Block(Container):
    """What a proposer sees of an execution block."""

    timestamp: uint64
    deposit_root: Root
    deposit_count: uint64


class HistoricalBatch(Container):
    """The roots of one period of SLOTS_PER_HISTORICAL_ROOT slots."""

    block_roots: Annotated[tuple[Root, ...], Length("SLOTS_PER_HISTORICAL_ROOT")]
    state_roots: Annotated[tuple[Root, ...], Length("SLOTS_PER_HISTORICAL_ROOT")]


class DepositMessage(Container):
    """What a depositor signs."""

    pubkey: BLSPubkey
    withdrawal_credentials: Bytes32
    amount: Gwei


class DepositData(Container):
    """A leaf of the deposit contract's tree."""

    pubkey: BLSPubkey
    withdrawal_credentials: Bytes32
    amount: Gwei
    signature: BLSSignature


class Deposit(Container):
    """A deposit with its branch in the contract's tree, the length's mixing in included."""

    proof: Annotated[tuple[Bytes32, ...], Length(DEPOSIT_CONTRACT_TREE_DEPTH + 1)]
    data: DepositData


class BeaconBlockHeader(Container):
    """A block with its body's root instead of the body: both have the same root."""

    slot: Slot
    proposer_index: ValidatorIndex
    parent_root: Root
    state_root: Root
    body_root: Root


class SignedBeaconBlockHeader(Container):
    """A block header with its proposer's signature."""

    message: BeaconBlockHeader
    signature: BLSSignature


class ProposerSlashing(Container):
    """Two different blocks that one proposer signed for one slot."""

    signed_header_1: SignedBeaconBlockHeader
    signed_header_2: SignedBeaconBlockHeader


class AttesterSlashing(Container):
    """Two votes, of which nobody may sign both."""

    attestation_1: IndexedAttestation
    attestation_2: IndexedAttestation


class VoluntaryExit(Container):
    """A validator's wish to leave, from this epoch on."""

    epoch: Epoch
    validator_index: ValidatorIndex


class SignedVoluntaryExit(Container):
    """A wish to leave with the validator's signature."""

    message: VoluntaryExit
    signature: BLSSignature


class BeaconBlockBody(Container):
    """What a block brings."""

    randao_reveal: BLSSignature
    """The proposer's signature of the epoch: its share of the randomness."""
    eth1_data: Eth1Data
    graffiti: Bytes32
    proposer_slashings: Annotated[tuple[ProposerSlashing, ...], Limit("MAX_PROPOSER_SLASHINGS")]
    attester_slashings: Annotated[tuple[AttesterSlashing, ...], Limit("MAX_ATTESTER_SLASHINGS")]
    attestations: Annotated[tuple[Attestation, ...], Limit("MAX_ATTESTATIONS")]
    deposits: Annotated[tuple[Deposit, ...], Limit("MAX_DEPOSITS")]
    voluntary_exits: Annotated[tuple[SignedVoluntaryExit, ...], Limit("MAX_VOLUNTARY_EXITS")]


class BeaconBlock(Container):
    """A step of the chain, leading to the state whose root it names."""

    slot: Slot
    proposer_index: ValidatorIndex
    parent_root: Root
    state_root: Root
    body: BeaconBlockBody


class SignedBeaconBlock(Container):
    """A block with its proposer's signature."""

    message: BeaconBlock
    signature: BLSSignature


class AggregateAndProof(Container):
    """An aggregate, with the proof that its maker was chosen to aggregate."""

    aggregator_index: ValidatorIndex
    aggregate: Attestation
    selection_proof: BLSSignature


class SignedAggregateAndProof(Container):
    """An aggregate with its aggregator's signature."""

    message: AggregateAndProof
    signature: BLSSignature


class BeaconState(MutableContainer):
    """All that the rules depend on, after a slot."""

    genesis_time: uint64
    """Unix seconds."""
    genesis_validators_root: Root
    slot: Slot
    fork: Fork
    latest_block_header: BeaconBlockHeader
    """Its state_root stays zero until the next slot is processed."""
    block_roots: Annotated[Column[Root], Length("SLOTS_PER_HISTORICAL_ROOT")]
    """By slot modulo the length."""
    state_roots: Annotated[Column[Root], Length("SLOTS_PER_HISTORICAL_ROOT")]
    """By slot modulo the length."""
    historical_roots: Annotated[tuple[Root, ...], Limit("HISTORICAL_ROOTS_LIMIT")]
    """Roots of HistoricalBatch; frozen since capella."""
    eth1_data: Eth1Data
    eth1_data_votes: Annotated[tuple[Eth1Data, ...], Limit("EPOCHS_PER_ETH1_VOTING_PERIOD * SLOTS_PER_EPOCH")]
    eth1_deposit_index: uint64
    """Deposits processed so far."""
    validators: Annotated[Table[Validator], Limit("VALIDATOR_REGISTRY_LIMIT")]
    balances: Annotated[Column[Gwei], Limit("VALIDATOR_REGISTRY_LIMIT")]
    randao_mixes: Annotated[Column[Bytes32], Length("EPOCHS_PER_HISTORICAL_VECTOR")]
    """By epoch modulo the length."""
    slashings: Annotated[Column[Gwei], Length("EPOCHS_PER_SLASHINGS_VECTOR")]
    """Slashed effective balance, by epoch modulo the length."""
    previous_epoch_attestations: Annotated[
        tuple[PendingAttestation, ...], Limit("MAX_ATTESTATIONS * SLOTS_PER_EPOCH")
    ]
    current_epoch_attestations: Annotated[
        tuple[PendingAttestation, ...], Limit("MAX_ATTESTATIONS * SLOTS_PER_EPOCH")
    ]
    justification_bits: Annotated[Bits, Length(JUSTIFICATION_BITS_LENGTH)]
    """Which of the last epochs are justified, the newest first."""
    previous_justified_checkpoint: Checkpoint
    current_justified_checkpoint: Checkpoint
    finalized_checkpoint: Checkpoint


RECORDS = collect_records(globals())
