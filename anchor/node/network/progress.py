"""Whether the network goes on: blocks, votes, finality. Facts for health; no peers are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anchor.consensus.slasher import Slasher
from anchor.merkle.lazy import np
from anchor.node.network.branches import Branches

if TYPE_CHECKING:
    from numpy.typing import NDArray

PATIENCE_EPOCHS: Final = 4
"""Epochs behind the clock at which finality has stopped; two are usual."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How the network looks from here."""

    slot: int
    """Now."""
    slots_since_block: int
    epochs_since_finality: int
    voting: int
    """Gwei of the stake whose votes for the previous epoch came here."""
    stake: int
    """Gwei; of which two thirds must vote."""

    @property
    def is_final(self) -> bool:
        """Whether finality keeps up."""
        return self.epochs_since_finality <= PATIENCE_EPOCHS

    @property
    def words(self) -> str:
        """One sentence for people."""
        share = f"{self.voting / self.stake:.1%} of stake votes"
        if self.is_final:
            return f"Finality keeps up: {share}."
        return (
            f"Finality has stopped {self.epochs_since_finality} epochs ago: {share}, and two thirds must. "
            "See that their nodes are up and reach each other."
        )


def get_progress(branches: Branches, slasher: Slasher) -> Progress:
    """How the network looks at the time that was told last."""
    slot, ledger = branches.get_slot(), branches.ledger
    epoch = ledger.compute_epoch_at_slot(slot)
    state = branches.get_head_state()
    counted = ledger.get_active_set(state, epoch).flags & (state.validators.column("slashed") == 0)
    votes: NDArray[np.bool_] = np.zeros(len(counted), np.bool_)
    known = slasher.get_voters(max(epoch, 1) - 1)[: len(counted)]
    votes[: len(known)] = known
    balances = state.validators.column("effective_balance")
    return Progress(
        slot=slot,
        slots_since_block=slot - int(branches.view.blocks[branches.head].slot),
        epochs_since_finality=epoch - int(branches.view.finalized_checkpoint.epoch),
        voting=int(balances[counted & votes].sum()),
        stake=int(balances[counted].sum()),
    )
