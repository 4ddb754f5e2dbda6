"""Records of bellatrix (bellatrix/beacon-chain, bellatrix/fork-choice): execution payloads."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import altair, collect_records
from anchor.merkle.container import Container
from anchor.types import Bytes32, ExecutionAddress, Hash32, Length, Limit, Root, uint64, uint256


class ExecutionPayload(Container):
    """An execution block, as the consensus layer carries it."""

    parent_hash: Hash32
    fee_recipient: ExecutionAddress
    state_root: Bytes32
    receipts_root: Bytes32
    logs_bloom: Annotated[bytes, Length("BYTES_PER_LOGS_BLOOM")]
    prev_randao: Bytes32
    block_number: uint64
    gas_limit: uint64
    gas_used: uint64
    timestamp: uint64
    """Unix seconds."""
    extra_data: Annotated[bytes, Limit("MAX_EXTRA_DATA_BYTES")]
    base_fee_per_gas: uint256
    block_hash: Hash32
    transactions: Annotated[
        tuple[Annotated[bytes, Limit("MAX_BYTES_PER_TRANSACTION")], ...],
        Limit("MAX_TRANSACTIONS_PER_PAYLOAD"),
    ]


class ExecutionPayloadHeader(Container):
    """An execution payload with roots instead of lists: both have the same root."""

    parent_hash: Hash32
    fee_recipient: ExecutionAddress
    state_root: Bytes32
    receipts_root: Bytes32
    logs_bloom: Annotated[bytes, Length("BYTES_PER_LOGS_BLOOM")]
    prev_randao: Bytes32
    block_number: uint64
    gas_limit: uint64
    gas_used: uint64
    timestamp: uint64
    extra_data: Annotated[bytes, Limit("MAX_EXTRA_DATA_BYTES")]
    base_fee_per_gas: uint256
    block_hash: Hash32
    transactions_root: Root


class BeaconBlockBody(altair.BeaconBlockBody):
    """Adds the execution payload, all zero until the merge."""

    execution_payload: ExecutionPayload


class BeaconState(altair.BeaconState):
    """Adds the header of the newest execution payload."""

    latest_execution_payload_header: ExecutionPayloadHeader


class PowBlock(Container):
    """What the merge needs to know of a proof-of-work block."""

    block_hash: Hash32
    parent_hash: Hash32
    total_difficulty: uint256


RECORDS = collect_records(globals(), altair.RECORDS)
