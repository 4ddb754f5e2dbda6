"""Checks of fast confirmation: steps as those of the fork choice (tests/formats/fast_confirmation)."""

from __future__ import annotations

from typing import Any, Final

from anchor.consensus.fork_choice.confirmation import FastConfirmation
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare
from anchor.consensus.vectors.fork_choice import Run, check_steps, format_checkpoint, freeze

HANDLERS: Final = {
    "basic",
    "current_epoch",
    "empty_slots",
    "ffg",
    "is_one_confirmed",
    "previous_epoch",
    "reconfirmation",
    "restart_gu",
    "revert_finality",
    "variables",
}
ROOTS: Final = ("previous_slot_head", "current_slot_head", "confirmed_root")
CHECKPOINTS: Final = (
    "previous_epoch_observed_justified_checkpoint",
    "current_epoch_observed_justified_checkpoint",
    "previous_epoch_greatest_unrealized_checkpoint",
)
SAFE_HASH: Final = "safe_execution_block_hash"


def check_fast_confirmation(case: Case) -> Difference | None:
    """Steps that feed a store, and what is confirmed between them."""
    return check_steps(case, ConfirmingRun(case))


class ConfirmingRun(Run):
    """A case being run. The rule runs where the case looks at what it says, which is once a slot."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.confirmation = FastConfirmation(self.choice)
        self.confirmed = self.confirmation.get_fast_confirmation_store(self.store)

    def check(self, step: dict[str, Any]) -> Difference | None:
        checks = dict(step["checks"])
        expected = {name: checks.pop(name) for name in (*ROOTS, *CHECKPOINTS, SAFE_HASH) if name in checks}
        if expected:
            self.confirmation.on_fast_confirmation(self.confirmed)
        for name, value in expected.items():
            difference = compare(freeze(value), freeze(self.describe(name)), name)
            if difference is not None:
                return difference
        return super().check({"checks": checks})

    def describe(self, name: str) -> Any:
        """What the rule's store says."""
        if name == SAFE_HASH:
            return f"0x{self.confirmation.get_safe_execution_block_hash(self.confirmed).hex()}"
        value = getattr(self.confirmed, name)
        return format_checkpoint(value) if name in CHECKPOINTS else f"0x{value.hex()}"
