"""Columns of a block's data, whole and in part (fulu/p2p-interface, fulu/partial-columns)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anchor.consensus import kzg
from anchor.consensus.containers.fulu import (
    DataColumnSidecar,
    PartialDataColumnGroupID,
    PartialDataColumnHeader,
    PartialDataColumnSidecar,
)
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.gossip.blocks import Blocks
from anchor.errors import Ignored
from anchor.merkle.proof import verify_merkle_branch
from anchor.merkle.ssz import get_generalized_index


class Columns(Blocks):
    """The topic data_column_sidecar_{subnet_id}, and its partial messages."""

    def verify_column_subnet(self, index: int, subnet_id: int) -> None:
        """Raises InvalidTransition unless a column is for this subnet."""
        subnet = index % self.config.DATA_COLUMN_SIDECAR_SUBNET_COUNT
        require(subnet_id == subnet, lambda: f"Column {index} is for subnet {subnet}, not {subnet_id}.")

    def validate_data_column_sidecar(
        self, store: Store, sidecar: DataColumnSidecar, time_ms: int, subnet_id: int
    ) -> None:
        """The first column of its block's slot, proposer and index, proven to be the block's."""
        signed, commitments = sidecar.signed_block_header, sidecar.kzg_commitments
        header = signed.message
        key = "data_column_sidecar", header.slot, header.proposer_index, sidecar.index
        self.ignore_seen(key)
        self.choice.verify_data_column_sidecar(sidecar, commitments)
        self.verify_column_subnet(sidecar.index, subnet_id)
        self.verify_header_time(store, header, time_ms)
        self.verify_known(store, header.parent_root)
        self.verify_header(store, header, signed.signature)
        self.verify_inclusion(sidecar)
        self.choice.verify_data_column_sidecar_kzg_proofs(sidecar, commitments)
        self.verify_expected_proposer(store, header)
        self.seen.keys.add(key)

    def verify_inclusion(self, given: DataColumnSidecar | PartialDataColumnHeader) -> None:
        """Raises InvalidProof unless the block's body holds these commitments."""
        body = self.rules.scope.schema("BeaconBlockBody")
        root = body.schemas["blob_kzg_commitments"].hash_tree_root(given.kzg_commitments)
        place = get_generalized_index(body, "blob_kzg_commitments")
        block = given.signed_block_header.message.body_root
        verify_merkle_branch(root, given.kzg_commitments_inclusion_proof, place, block, "the commitments")

    # Partial columns

    def validate_partial_data_column_sidecar(
        self,
        store: Store,
        sidecar: PartialDataColumnSidecar,
        time_ms: int,
        group_id: PartialDataColumnGroupID,
        column_index: int,
    ) -> None:
        """Some cells of a column whose block's header has come, or comes with them."""
        root = group_id.beacon_block_root
        count = self.verify_cell_counts(sidecar)
        require(count > 0 or len(sidecar.header) > 0, lambda: "A partial column is empty.")
        for header in sidecar.header:
            self.verify_partial_header(store, header, root, time_ms)
            self.seen.headers[root] = header
        if count > 0:
            known = self.seen.headers.get(root)
            if known is None:
                raise Ignored(f"The header of block {root.hex()} has not come.")
            self.verify_header_time(store, known.signed_block_header.message, time_ms)
            self.verify_cells(sidecar, known.kzg_commitments, column_index)

    def verify_cell_counts(self, sidecar: Any) -> int:
        """How many cells there are. Raises InvalidTransition unless bits and proofs are as many."""
        count, cells = sidecar.cells_present_bitmap.count_set(), len(sidecar.partial_column)
        proofs = len(sidecar.kzg_proofs)
        require(
            cells == proofs == count,
            lambda: f"A partial column has {cells} cells and {proofs} proofs, and {count} bits set.",
        )
        return int(count)

    def verify_partial_header(
        self, store: Store, header: PartialDataColumnHeader, root: bytes, time_ms: int
    ) -> None:
        """Raises an error unless a header is the group's block's, and the block may be imported."""
        signed = header.signed_block_header
        block = signed.message
        known = self.seen.headers.get(root)
        require(known in (None, header), lambda: f"The header of block {root.hex()} is another one.")
        computed = self.rules.hash_tree_root(block)
        require(computed == root, lambda: f"A header is of {computed.hex()}, not of {root.hex()}.")
        require(len(header.kzg_commitments) > 0, lambda: f"Block {root.hex()} has no blobs.")
        self.verify_header_time(store, block, time_ms)
        self.verify_known(store, block.parent_root)
        self.verify_header(store, block, signed.signature)
        self.verify_inclusion(header)
        self.verify_expected_proposer(store, block)

    def verify_cells(self, sidecar: Any, commitments: Sequence[bytes], index: int) -> None:
        """Raises InvalidTransition unless the cells are those of the committed blobs."""
        bits = sidecar.cells_present_bitmap
        require(
            len(bits) == len(commitments),
            lambda: f"A partial column has {len(bits)} bits of {len(commitments)} blobs.",
        )
        chosen = [commitments[place] for place in bits.get_set_indices()]
        places = [index] * len(chosen)
        require(
            kzg.verify_cell_kzg_proof_batch(chosen, places, sidecar.partial_column, sidecar.kzg_proofs),
            lambda: f"The cells of column {index} are not those of the block's blobs.",
        )
