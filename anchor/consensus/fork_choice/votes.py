"""The validators' latest votes, in columns: a million of them are cast or weighed by array arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.consensus.fork_choice.tree import NOWHERE, Place, Tree
from anchor.merkle.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = -1
"""The time of the latest vote of who has not voted."""


class Votes:
    """By validator, (n,) each; n grows with the indices that occur."""

    def __init__(self) -> None:
        self.times = np.empty(0, np.int64)
        """The slot of the latest vote (before gloas: the last slot of its target epoch), or NEVER."""
        self.places = np.empty(0, np.int64)
        """The node of the tree that it supports, or NOWHERE when that node is forgotten."""
        self.weights = np.empty(0, np.int64)
        """The Gwei that it counts: none by who is not active, is slashed, or equivocates."""
        self.equivocating = np.empty(0, np.bool_)
        """Who made slashable votes: their votes count no more."""

    def cast(self, tree: Tree, voters: NDArray[np.int64], place: Place, time: int) -> None:
        """Lets distinct `voters` support `place`, where their latest votes are older than `time`."""
        self._grow(int(voters.max(initial=-1)) + 1)
        voters = voters[(self.times[voters] < time) & ~self.equivocating[voters]]
        self._withdraw(tree, voters)
        self.places[voters], self.times[voters] = place, time
        tree.add_weight(place, int(self.weights[voters].sum()))

    def exclude(self, tree: Tree, equivocators: NDArray[np.int64]) -> None:
        """Lets the votes of `equivocators` count no more."""
        self._grow(int(equivocators.max(initial=-1)) + 1)
        self._withdraw(tree, equivocators)
        self.weights[equivocators] = 0
        self.equivocating[equivocators] = True

    def weigh(self, balances: NDArray[np.uint64]) -> None:
        """Sets what each vote counts; (m,) Gwei, zero for who does not count. The tree has to be rebuilt."""
        self._grow(len(balances))
        self.weights[: len(balances)] = balances
        self.weights[len(balances) :] = 0
        self.weights[self.equivocating] = 0

    def count(self, size: int) -> NDArray[np.int64]:
        """(size,): the weight of the votes for each node itself."""
        return self._sum(np.flatnonzero(self.places != NOWHERE), size)

    def move(self, moved: NDArray[np.int64]) -> None:
        """Follows nodes to new places, given by their old ones."""
        known = self.places != NOWHERE
        self.places[known] = moved[self.places[known]]

    def _withdraw(self, tree: Tree, voters: NDArray[np.int64]) -> None:
        voters = voters[self.places[voters] != NOWHERE]
        sums = self._sum(voters, len(tree))
        for place in np.flatnonzero(sums):
            tree.add_weight(int(place), -int(sums[place]))

    def _sum(self, voters: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        sums = np.zeros(size, np.int64)
        np.add.at(sums, self.places[voters], self.weights[voters])
        return sums

    def _grow(self, count: int) -> None:
        added = count - len(self.times)
        if added > 0:
            self.times = np.append(self.times, np.full(added, NEVER, np.int64))
            self.places = np.append(self.places, np.full(added, NOWHERE, np.int64))
            self.weights = np.append(self.weights, np.zeros(added, np.int64))
            self.equivocating = np.append(self.equivocating, np.zeros(added, np.bool_))
