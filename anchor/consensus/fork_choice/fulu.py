"""Fulu: of a block's data, some columns have to be there (fulu/fork-choice, fulu/p2p-interface)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anchor.consensus import kzg
from anchor.consensus.containers.fulu import DataColumnSidecar
from anchor.consensus.fork_choice.deneb import DenebForkChoice
from anchor.consensus.forks.arithmetic import require
from anchor.types import Root, Slot


class FuluForkChoice(DenebForkChoice):
    """The fork choice of fulu."""

    def is_shuffling_stable(self, slot: Slot) -> bool:
        """True: proposers are known an epoch ahead."""
        return True

    def verify_data(self, root: Root, commitments: Sequence[bytes], data: Any) -> None:
        for sidecar in data:
            self.verify_data_column_sidecar(sidecar, commitments)
            self.verify_data_column_sidecar_kzg_proofs(sidecar, commitments)

    def verify_data_column_sidecar(self, sidecar: DataColumnSidecar, commitments: Sequence[bytes]) -> None:
        """Raises InvalidTransition unless a column is well formed, with the block's commitments."""
        epoch = self.rules.compute_epoch_at_slot(sidecar.signed_block_header.message.slot)
        limit, count = self.rules.get_max_blobs_per_block(epoch), len(sidecar.kzg_commitments)
        require(count <= limit, lambda: f"Column {sidecar.index} is of {count} blobs, of {limit} at most.")
        require(
            tuple(sidecar.kzg_commitments) == tuple(commitments),
            lambda: f"Column {sidecar.index} has other commitments than its block.",
        )
        self.verify_column_form(sidecar, count)

    def verify_column_form(self, sidecar: Any, count: int) -> None:
        """Raises InvalidTransition unless a column is one of those there are, with `count` proven cells."""
        index, columns = sidecar.index, self.preset.NUMBER_OF_COLUMNS
        require(index < columns, lambda: f"There are {columns} columns, and one has index {index}.")
        require(count > 0, lambda: f"Column {index} is of no blobs.")
        cells, proofs = len(sidecar.column), len(sidecar.kzg_proofs)
        require(
            cells == proofs == count,
            lambda: f"Column {index} has {cells} cells and {proofs} proofs of {count} blobs.",
        )

    def verify_data_column_sidecar_kzg_proofs(self, sidecar: Any, commitments: Sequence[bytes]) -> None:
        """Raises InvalidTransition unless the cells of a column are those of the committed blobs."""
        indices = [sidecar.index] * len(sidecar.column)
        require(
            kzg.verify_cell_kzg_proof_batch(commitments, indices, sidecar.column, sidecar.kzg_proofs),
            lambda: f"The cells of column {sidecar.index} are not those of the block's blobs.",
        )
