"""Phase0: proof of stake with Casper FFG. Its parts stand on each other, from constants to genesis."""

from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.phase0.genesis import Genesis
from anchor.errors import Misuse


class Phase0(Genesis):
    """The rules of phase0; every later fork inherits from it."""

    def upgrade(self, pre: State) -> State:
        """The state `pre` of the fork before as a state of this fork. Raises Misuse here: phase0 is first."""
        raise Misuse("No fork comes before phase0, from which a state could be upgraded.")


__all__ = ["Phase0"]
