"""Records of electra (electra/beacon-chain, electra/validator, electra/light-client/sync-protocol)."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import altair, capella, collect_records, deneb, phase0
from anchor.consensus.containers.phase0 import AttestationData, AttesterSlashing
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.merkle.gindex import get_depth
from anchor.params import (
    CURRENT_SYNC_COMMITTEE_GINDEX_ELECTRA,
    FINALIZED_ROOT_GINDEX_ELECTRA,
    NEXT_SYNC_COMMITTEE_GINDEX_ELECTRA,
)
from anchor.types import (
    BLSPubkey,
    BLSSignature,
    Bytes32,
    CommitteeIndex,
    Epoch,
    ExecutionAddress,
    Gwei,
    Length,
    Limit,
    Slot,
    ValidatorIndex,
    uint64,
)


class DepositRequest(Container):
    """A deposit that the execution layer reports."""

    pubkey: BLSPubkey
    withdrawal_credentials: Bytes32
    amount: Gwei
    signature: BLSSignature
    index: uint64


class WithdrawalRequest(Container):
    """An execution address's wish to withdraw `amount`, or to exit where it is zero."""

    source_address: ExecutionAddress
    validator_pubkey: BLSPubkey
    amount: Gwei


class ConsolidationRequest(Container):
    """An execution address's wish to merge one validator into another."""

    source_address: ExecutionAddress
    source_pubkey: BLSPubkey
    target_pubkey: BLSPubkey


class ExecutionRequests(Container):
    """What the execution layer asks of the consensus layer in a block."""

    deposits: Annotated[tuple[DepositRequest, ...], Limit("MAX_DEPOSIT_REQUESTS_PER_PAYLOAD")]
    withdrawals: Annotated[tuple[WithdrawalRequest, ...], Limit("MAX_WITHDRAWAL_REQUESTS_PER_PAYLOAD")]
    consolidations: Annotated[
        tuple[ConsolidationRequest, ...], Limit("MAX_CONSOLIDATION_REQUESTS_PER_PAYLOAD")
    ]


class PendingDeposit(Container):
    """A deposit that waits for its turn."""

    pubkey: BLSPubkey
    withdrawal_credentials: Bytes32
    amount: Gwei
    signature: BLSSignature
    slot: Slot
    """The slot of its request; GENESIS_SLOT for one that came over the old bridge."""


class PendingPartialWithdrawal(Container):
    """A part of a validator's balance that leaves once its epoch has come."""

    validator_index: ValidatorIndex
    amount: Gwei
    withdrawable_epoch: Epoch


class PendingConsolidation(Container):
    """A validator that merges into another once it is withdrawable."""

    source_index: ValidatorIndex
    target_index: ValidatorIndex


class Attestation(phase0.Attestation):
    """Carries the votes of several committees of a slot: their members' bits follow each other."""

    aggregation_bits: Annotated[Bits, Limit("MAX_VALIDATORS_PER_COMMITTEE * MAX_COMMITTEES_PER_SLOT")]
    committee_bits: Annotated[Bits, Length("MAX_COMMITTEES_PER_SLOT")]


class IndexedAttestation(phase0.IndexedAttestation):
    """Holds the members of all committees of a slot."""

    attesting_indices: Annotated[
        tuple[ValidatorIndex, ...], Limit("MAX_VALIDATORS_PER_COMMITTEE * MAX_COMMITTEES_PER_SLOT")
    ]


class SingleAttestation(Container):
    """One validator's vote, as it is gossiped."""

    committee_index: CommitteeIndex
    attester_index: ValidatorIndex
    data: AttestationData
    signature: BLSSignature


class BeaconBlockBody(deneb.BeaconBlockBody):
    """Adds the execution layer's requests; fewer, larger attestations."""

    attester_slashings: Annotated[tuple[AttesterSlashing, ...], Limit("MAX_ATTESTER_SLASHINGS_ELECTRA")]
    attestations: Annotated[tuple[Attestation, ...], Limit("MAX_ATTESTATIONS_ELECTRA")]
    execution_requests: ExecutionRequests


class BeaconState(capella.BeaconState):
    """Adds the queues, and the churn of stake instead of heads."""

    deposit_requests_start_index: uint64
    deposit_balance_to_consume: Gwei
    exit_balance_to_consume: Gwei
    earliest_exit_epoch: Epoch
    consolidation_balance_to_consume: Gwei
    earliest_consolidation_epoch: Epoch
    pending_deposits: Annotated[tuple[PendingDeposit, ...], Limit("PENDING_DEPOSITS_LIMIT")]
    pending_partial_withdrawals: Annotated[
        tuple[PendingPartialWithdrawal, ...], Limit("PENDING_PARTIAL_WITHDRAWALS_LIMIT")
    ]
    pending_consolidations: Annotated[tuple[PendingConsolidation, ...], Limit("PENDING_CONSOLIDATIONS_LIMIT")]


class LightClientBootstrap(altair.LightClientBootstrap):
    """The state's tree is one level deeper."""

    current_sync_committee_branch: Annotated[
        tuple[Bytes32, ...], Length(get_depth(CURRENT_SYNC_COMMITTEE_GINDEX_ELECTRA))
    ]


class LightClientUpdate(altair.LightClientUpdate):
    """The state's tree is one level deeper."""

    next_sync_committee_branch: Annotated[
        tuple[Bytes32, ...], Length(get_depth(NEXT_SYNC_COMMITTEE_GINDEX_ELECTRA))
    ]
    finality_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(FINALIZED_ROOT_GINDEX_ELECTRA))]


class LightClientFinalityUpdate(altair.LightClientFinalityUpdate):
    """The state's tree is one level deeper."""

    finality_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(FINALIZED_ROOT_GINDEX_ELECTRA))]


RECORDS = collect_records(globals(), deneb.RECORDS)
