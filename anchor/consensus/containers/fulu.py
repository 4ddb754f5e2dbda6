"""Records of fulu (fulu/beacon-chain, fulu/das-core, fulu/p2p-interface): columns of blobs' cells."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import collect_records, electra
from anchor.consensus.containers.phase0 import SignedBeaconBlockHeader
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.params import BYTES_PER_FIELD_ELEMENT
from anchor.types import Bytes32, KZGCommitment, KZGProof, Length, Limit, Root, ValidatorIndex, uint64

Cell = Annotated[bytes, Length(f"{BYTES_PER_FIELD_ELEMENT} * FIELD_ELEMENTS_PER_CELL")]
"""A piece of an extended blob."""


class BeaconState(electra.BeaconState):
    """Adds the proposers of this epoch and of those to come."""

    proposer_lookahead: Annotated[
        tuple[ValidatorIndex, ...], Length("MIN_SEED_LOOKAHEAD * SLOTS_PER_EPOCH + SLOTS_PER_EPOCH")
    ]


class DataColumnSidecar(Container):
    """One cell of every blob of a block, with proofs."""

    index: uint64
    column: Annotated[tuple[Cell, ...], Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    kzg_commitments: Annotated[tuple[KZGCommitment, ...], Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    kzg_proofs: Annotated[tuple[KZGProof, ...], Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    signed_block_header: SignedBeaconBlockHeader
    kzg_commitments_inclusion_proof: Annotated[
        tuple[Bytes32, ...], Length("KZG_COMMITMENTS_INCLUSION_PROOF_DEPTH")
    ]


class MatrixEntry(Container):
    """A cell with its place: a blob's row, a column."""

    cell: Cell
    kzg_proof: KZGProof
    column_index: uint64
    row_index: uint64


class DataColumnsByRootIdentifier(Container):
    """Which columns of which block."""

    block_root: Root
    columns: Annotated[tuple[uint64, ...], Limit("NUMBER_OF_COLUMNS")]


class PartialDataColumnHeader(Container):
    """What the cells of a partial column are verified against."""

    kzg_commitments: Annotated[tuple[KZGCommitment, ...], Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    signed_block_header: SignedBeaconBlockHeader
    kzg_commitments_inclusion_proof: Annotated[
        tuple[Bytes32, ...], Length("KZG_COMMITMENTS_INCLUSION_PROOF_DEPTH")
    ]


class PartialDataColumnSidecar(Container):
    """Some cells of a column, and which."""

    cells_present_bitmap: Annotated[Bits, Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    partial_column: Annotated[tuple[Cell, ...], Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    kzg_proofs: Annotated[tuple[KZGProof, ...], Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    header: Annotated[tuple[PartialDataColumnHeader, ...], Limit(1)]


class PartialDataColumnGroupID(Container):
    """Which block partial columns belong to."""

    beacon_block_root: Root


class PartialDataColumnPartsMetadata(Container):
    """Which cells of a column a peer has, and which it asks for."""

    available: Annotated[Bits, Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]
    requests: Annotated[Bits, Limit("MAX_BLOB_COMMITMENTS_PER_BLOCK")]


RECORDS = collect_records(globals(), electra.RECORDS)
