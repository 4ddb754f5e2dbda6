"""Records of deneb (deneb/beacon-chain, deneb/p2p-interface): blobs."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import capella, collect_records
from anchor.consensus.containers.phase0 import SignedBeaconBlockHeader
from anchor.merkle.container import Container
from anchor.params import BYTES_PER_FIELD_ELEMENT
from anchor.types import Bytes32, KZGCommitment, KZGProof, Length, Limit, Root, uint64


class ExecutionPayload(capella.ExecutionPayload):
    """Adds the blobs' gas."""

    blob_gas_used: uint64
    excess_blob_gas: uint64


class ExecutionPayloadHeader(capella.ExecutionPayloadHeader):
    """Adds the blobs' gas."""

    blob_gas_used: uint64
    excess_blob_gas: uint64


class BeaconBlockBody(capella.BeaconBlockBody):
    """Adds commitments to the payload's blobs."""

    blob_kzg_commitments: Annotated[tuple[KZGCommitment, ...], Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]


class BlobIdentifier(Container):
    """Which blob of which block."""

    block_root: Root
    index: uint64


class BlobSidecar(Container):
    """A blob with its proof, and its commitment's branch in the block's body."""

    index: uint64
    blob: Annotated[bytes, Length(f"{BYTES_PER_FIELD_ELEMENT} * FIELD_ELEMENTS_PER_BLOB")]
    kzg_commitment: KZGCommitment
    kzg_proof: KZGProof
    signed_block_header: SignedBeaconBlockHeader
    kzg_commitment_inclusion_proof: Annotated[
        tuple[Bytes32, ...], Length("KZG_COMMITMENT_INCLUSION_PROOF_DEPTH")
    ]


RECORDS = collect_records(globals(), capella.RECORDS)
