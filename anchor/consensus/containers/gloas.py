"""Records of gloas (gloas/beacon-chain): builders, bids, payloads apart from blocks, progressive trees.

What light clients and data columns need is in `gloas_network`.
"""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import altair, collect_records, deneb, electra, fulu, gloas_network
from anchor.consensus.containers.capella import SignedBLSToExecutionChange, Withdrawal
from anchor.consensus.containers.electra import (
    ConsolidationRequest,
    DepositRequest,
    PendingConsolidation,
    PendingDeposit,
    PendingPartialWithdrawal,
    WithdrawalRequest,
)
from anchor.consensus.containers.phase0 import (
    AttesterSlashing,
    Deposit,
    ProposerSlashing,
    SignedVoluntaryExit,
    Validator,
)
from anchor.merkle.bits import Bits
from anchor.merkle.columns import Column
from anchor.merkle.container import Container
from anchor.merkle.table import Table
from anchor.types import (
    BLSPubkey,
    BLSSignature,
    BuilderIndex,
    Bytes32,
    Epoch,
    ExecutionAddress,
    Gwei,
    Hash32,
    KZGCommitment,
    Length,
    Limit,
    ParticipationFlags,
    Progressive,
    Root,
    Slot,
    ValidatorIndex,
    boolean,
    uint8,
    uint64,
)


class Builder(Container):
    """An entry of the builder registry."""

    pubkey: BLSPubkey
    version: uint8
    execution_address: ExecutionAddress
    balance: Gwei
    deposit_epoch: Epoch
    withdrawable_epoch: Epoch


class BuilderPendingWithdrawal(Container):
    """A payment that leaves a builder's balance."""

    fee_recipient: ExecutionAddress
    amount: Gwei
    builder_index: BuilderIndex


class BuilderPendingPayment(Container):
    """A builder's payment that attesters have yet to confirm with their weight."""

    weight: Gwei
    withdrawal: BuilderPendingWithdrawal
    proposer_index: ValidatorIndex


class BuilderDepositRequest(Container):
    """A builder's deposit that the execution layer reports."""

    pubkey: BLSPubkey
    withdrawal_credentials: Bytes32
    amount: Gwei
    signature: BLSSignature


class BuilderExitRequest(Container):
    """A builder's wish to leave."""

    source_address: ExecutionAddress
    pubkey: BLSPubkey


class ExecutionRequests(electra.ExecutionRequests, active_fields="1" * 5):
    """Adds builders' deposits and exits; lists are progressive."""

    deposits: Annotated[tuple[DepositRequest, ...], Progressive()]
    withdrawals: Annotated[tuple[WithdrawalRequest, ...], Progressive()]
    consolidations: Annotated[tuple[ConsolidationRequest, ...], Progressive()]
    builder_deposits: Annotated[tuple[BuilderDepositRequest, ...], Progressive()]
    builder_exits: Annotated[tuple[BuilderExitRequest, ...], Progressive()]


class Attestation(electra.Attestation, active_fields="1" * 4):
    """The bits are progressive."""

    aggregation_bits: Annotated[Bits, Progressive()]


class IndexedAttestation(electra.IndexedAttestation, active_fields="1" * 3):
    """The indices are progressive."""

    attesting_indices: Annotated[tuple[ValidatorIndex, ...], Progressive()]


class PayloadAttestationData(Container):
    """A vote on whether a block's payload and blobs were there in time."""

    beacon_block_root: Root
    slot: Slot
    payload_present: boolean
    blob_data_available: boolean


class PayloadAttestation(Container, active_fields="1" * 3):
    """A vote on a payload with the members of the payload committee who signed it."""

    aggregation_bits: Annotated[Bits, Length("PTC_SIZE")]
    data: PayloadAttestationData
    signature: BLSSignature


class PayloadAttestationMessage(Container):
    """One member's vote on a payload."""

    validator_index: ValidatorIndex
    data: PayloadAttestationData
    signature: BLSSignature


class IndexedPayloadAttestation(Container, active_fields="1" * 3):
    """A vote on a payload with the validators who signed it."""

    attesting_indices: Annotated[tuple[ValidatorIndex, ...], Limit("PTC_SIZE")]
    data: PayloadAttestationData
    signature: BLSSignature


class ExecutionPayload(deneb.ExecutionPayload, active_fields="1" * 19):
    """Adds the block access list and the slot; lists are progressive."""

    transactions: Annotated[tuple[Annotated[bytes, Progressive()], ...], Progressive()]
    withdrawals: Annotated[tuple[Withdrawal, ...], Progressive()]
    block_access_list: Annotated[bytes, Progressive()]
    slot_number: uint64


class ExecutionPayloadEnvelope(Container, active_fields="1" * 5):
    """The payload that a builder reveals for a block."""

    payload: ExecutionPayload
    execution_requests: ExecutionRequests
    builder_index: BuilderIndex
    beacon_block_root: Root
    parent_beacon_block_root: Root


class SignedExecutionPayloadEnvelope(Container):
    """A payload with its builder's signature."""

    message: ExecutionPayloadEnvelope
    signature: BLSSignature


class ExecutionPayloadBid(Container, active_fields="1" * 12):
    """What a builder offers for the right to make a block's payload."""

    parent_block_hash: Hash32
    parent_block_root: Root
    block_hash: Hash32
    prev_randao: Bytes32
    fee_recipient: ExecutionAddress
    gas_limit: uint64
    builder_index: BuilderIndex
    slot: Slot
    value: Gwei
    execution_payment: Gwei
    blob_kzg_commitments: Annotated[tuple[KZGCommitment, ...], Progressive()]
    execution_requests_root: Root


class SignedExecutionPayloadBid(Container):
    """An offer with its builder's signature."""

    message: ExecutionPayloadBid
    signature: BLSSignature


class ProposerPreferences(Container):
    """What a proposer tells builders beforehand."""

    dependent_root: Root
    proposal_slot: Slot
    validator_index: ValidatorIndex
    fee_recipient: ExecutionAddress
    target_gas_limit: uint64


class SignedProposerPreferences(Container):
    """A proposer's preferences with its signature."""

    message: ProposerPreferences
    signature: BLSSignature


class BeaconBlockBody(altair.BeaconBlockBody, active_fields="1" * 13):
    """Holds a bid instead of the payload, and votes on the payload before; lists are progressive."""

    proposer_slashings: Annotated[tuple[ProposerSlashing, ...], Progressive()]
    attester_slashings: Annotated[tuple[AttesterSlashing, ...], Progressive()]
    attestations: Annotated[tuple[Attestation, ...], Progressive()]
    deposits: Annotated[tuple[Deposit, ...], Progressive()]
    voluntary_exits: Annotated[tuple[SignedVoluntaryExit, ...], Progressive()]
    bls_to_execution_changes: Annotated[tuple[SignedBLSToExecutionChange, ...], Progressive()]
    signed_execution_payload_bid: SignedExecutionPayloadBid
    payload_attestations: Annotated[tuple[PayloadAttestation, ...], Progressive()]
    parent_execution_requests: ExecutionRequests


class BeaconState(
    fulu.BeaconState,
    renames={"latest_execution_payload_header": "latest_block_hash"},
    active_fields="1" * 46,
):
    """Adds builders, their payments and the payload committees; lists are progressive."""

    validators: Annotated[Table[Validator], Progressive()]
    balances: Annotated[Column[Gwei], Progressive()]
    previous_epoch_participation: Annotated[Column[ParticipationFlags], Progressive()]
    current_epoch_participation: Annotated[Column[ParticipationFlags], Progressive()]
    inactivity_scores: Annotated[Column[uint64], Progressive()]
    latest_block_hash: Hash32
    """The newest execution block that the chain holds."""
    pending_deposits: Annotated[tuple[PendingDeposit, ...], Progressive()]
    pending_partial_withdrawals: Annotated[tuple[PendingPartialWithdrawal, ...], Progressive()]
    pending_consolidations: Annotated[tuple[PendingConsolidation, ...], Progressive()]
    builders: Annotated[tuple[Builder, ...], Progressive()]
    next_withdrawal_builder_index: BuilderIndex
    execution_payload_availability: Annotated[Bits, Length("SLOTS_PER_HISTORICAL_ROOT")]
    """Whether a slot's payload came, by slot modulo the length."""
    builder_pending_payments: Annotated[tuple[BuilderPendingPayment, ...], Length("2 * SLOTS_PER_EPOCH")]
    """Of the previous epoch, then of this one, by slot."""
    builder_pending_withdrawals: Annotated[tuple[BuilderPendingWithdrawal, ...], Progressive()]
    latest_execution_payload_bid: ExecutionPayloadBid
    payload_expected_withdrawals: Annotated[tuple[Withdrawal, ...], Progressive()]
    ptc_window: Annotated[
        tuple[Annotated[tuple[ValidatorIndex, ...], Length("PTC_SIZE")], ...],
        Length("MIN_SEED_LOOKAHEAD * SLOTS_PER_EPOCH + 2 * SLOTS_PER_EPOCH"),
    ]
    """Payload committees of the previous epoch, this one and those to come, by slot."""


RECORDS = collect_records(globals(), gloas_network.RECORDS)
