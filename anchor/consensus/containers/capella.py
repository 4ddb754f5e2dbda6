"""Records of capella (capella/beacon-chain, capella/light-client/sync-protocol): withdrawals."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import altair, bellatrix, collect_records
from anchor.merkle.container import Container
from anchor.merkle.gindex import get_depth
from anchor.params import EXECUTION_PAYLOAD_GINDEX
from anchor.types import (
    BLSPubkey,
    BLSSignature,
    Bytes32,
    ExecutionAddress,
    Gwei,
    Length,
    Limit,
    Root,
    ValidatorIndex,
    WithdrawalIndex,
)


class Withdrawal(Container):
    """Stake that leaves for an execution address."""

    index: WithdrawalIndex
    validator_index: ValidatorIndex
    address: ExecutionAddress
    amount: Gwei


class BLSToExecutionChange(Container):
    """A validator's change of its withdrawal credentials, from a BLS key to an address."""

    validator_index: ValidatorIndex
    from_bls_pubkey: BLSPubkey
    to_execution_address: ExecutionAddress


class SignedBLSToExecutionChange(Container):
    """A change of credentials, signed with the withdrawal key."""

    message: BLSToExecutionChange
    signature: BLSSignature


class HistoricalSummary(Container):
    """The roots of a HistoricalBatch's two vectors."""

    block_summary_root: Root
    state_summary_root: Root


class ExecutionPayload(bellatrix.ExecutionPayload):
    """Adds withdrawals."""

    withdrawals: Annotated[tuple[Withdrawal, ...], Limit("MAX_WITHDRAWALS_PER_PAYLOAD")]


class ExecutionPayloadHeader(bellatrix.ExecutionPayloadHeader):
    """Adds the withdrawals' root."""

    withdrawals_root: Root


class BeaconBlockBody(bellatrix.BeaconBlockBody):
    """Adds changes of withdrawal credentials."""

    bls_to_execution_changes: Annotated[
        tuple[SignedBLSToExecutionChange, ...], Limit("MAX_BLS_TO_EXECUTION_CHANGES")
    ]


class BeaconState(bellatrix.BeaconState):
    """Adds the position of the withdrawals' sweep, and historical summaries."""

    next_withdrawal_index: WithdrawalIndex
    next_withdrawal_validator_index: ValidatorIndex
    historical_summaries: Annotated[tuple[HistoricalSummary, ...], Limit("HISTORICAL_ROOTS_LIMIT")]


class LightClientHeader(altair.LightClientHeader):
    """Adds the execution header, proven in the block's body."""

    execution: ExecutionPayloadHeader
    execution_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(EXECUTION_PAYLOAD_GINDEX))]


RECORDS = collect_records(globals(), bellatrix.RECORDS)
