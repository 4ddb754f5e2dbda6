"""Records of gloas for light clients and data columns (gloas/light-client, gloas/p2p-interface)."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import altair, collect_records, electra, fulu
from anchor.consensus.containers.fulu import Cell
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.merkle.gindex import get_depth
from anchor.params import (
    CURRENT_SYNC_COMMITTEE_GINDEX_GLOAS,
    EXECUTION_BLOCK_HASH_GINDEX_GLOAS,
    FINALIZED_ROOT_GINDEX_GLOAS,
    NEXT_SYNC_COMMITTEE_GINDEX_GLOAS,
)
from anchor.types import Bytes32, Hash32, KZGProof, Length, Progressive, Root, Slot, uint64


class LightClientHeader(altair.LightClientHeader):
    """Adds the execution block's hash, proven in the block's body."""

    execution_block_hash: Hash32
    execution_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(EXECUTION_BLOCK_HASH_GINDEX_GLOAS))]


class LightClientBootstrap(electra.LightClientBootstrap):
    """The state's tree is progressive."""

    current_sync_committee_branch: Annotated[
        tuple[Bytes32, ...], Length(get_depth(CURRENT_SYNC_COMMITTEE_GINDEX_GLOAS))
    ]


class LightClientUpdate(electra.LightClientUpdate):
    """The state's tree is progressive."""

    next_sync_committee_branch: Annotated[
        tuple[Bytes32, ...], Length(get_depth(NEXT_SYNC_COMMITTEE_GINDEX_GLOAS))
    ]
    finality_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(FINALIZED_ROOT_GINDEX_GLOAS))]


class LightClientFinalityUpdate(electra.LightClientFinalityUpdate):
    """The state's tree is progressive."""

    finality_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(FINALIZED_ROOT_GINDEX_GLOAS))]


class DataColumnSidecar(Container):
    """One cell of every blob of a block, with proofs; the commitments are in the block's bid."""

    index: uint64
    column: Annotated[tuple[Cell, ...], Progressive()]
    kzg_proofs: Annotated[tuple[KZGProof, ...], Progressive()]
    slot: Slot
    beacon_block_root: Root


class PartialDataColumnSidecar(Container):
    """Some cells of a column, and which."""

    cells_present_bitmap: Annotated[Bits, Progressive()]
    partial_column: Annotated[tuple[Cell, ...], Progressive()]
    kzg_proofs: Annotated[tuple[KZGProof, ...], Progressive()]


class PartialDataColumnGroupID(fulu.PartialDataColumnGroupID):
    """Adds the block's slot."""

    slot: Slot


class PartialDataColumnPartsMetadata(Container):
    """Which cells of a column a peer has, and which it asks for."""

    available: Annotated[Bits, Progressive()]
    requests: Annotated[Bits, Progressive()]


RECORDS = collect_records(globals(), fulu.RECORDS)
