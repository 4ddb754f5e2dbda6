"""Making a node misbehave, for tests of a devnet: cut off from peers, with a wrong clock."""

from __future__ import annotations

import re
from typing import Any, Final

from anchor.errors import Misuse, NoSuchRecord
from anchor.node.network.company import Company

MAX_SKEW_MS: Final = 86_400_000


class Faults:
    """What is wrong with a node on purpose; nothing, unless it was started for that."""

    def __init__(self, company: Company, *, are_allowed: bool) -> None:
        self._company, self._are_allowed = company, are_allowed
        self.skew_ms = 0
        """By which its clock is ahead."""

    def require(self) -> None:
        """Raises NoSuchRecord on a node that is none of a devnet."""
        if not self._are_allowed:
            raise NoSuchRecord("This node keeps to the rules.", fix="On a devnet, start it with: --faults")

    def inject(self, unheard: str, skew_ms: str) -> dict[str, Any]:
        """Cuts off these identities and addresses, separated by commas, and sets the clock wrong.

        Raises Misuse for what is no number, or too large a one.
        """
        self.require()
        if not re.fullmatch("-?[0-9]{1,9}", skew_ms, re.ASCII) or abs(int(skew_ms)) > MAX_SKEW_MS:
            raise Misuse(f"{skew_ms[:20]!a} is no number of milliseconds up to {MAX_SKEW_MS}.")
        self.skew_ms = int(skew_ms)
        self._company.cut_off(frozenset(filter(None, unheard.split(","))))
        return self.show()

    def show(self) -> dict[str, Any]:
        """What is wrong now."""
        return {"unheard": ",".join(sorted(self._company.unheard)), "skew_ms": str(self.skew_ms)}
