"""Finding votes that exclude each other (phase0/beacon-chain, is_slashable_attestation_data).

Votes of WINDOW epochs are remembered, in rows by target epoch: for each validator its vote's source, and
where the vote is. All earlier votes of all voters of a new one are compared with it at once. What is
remembered is bounded: a vote is kept only if it is the first by one of its voters for its target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anchor.consensus.containers.phase0 import AttesterSlashing, IndexedAttestation
from anchor.merkle.lazy import np
from anchor.types import Epoch

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW: Final = 64
"""Target epochs that are remembered."""
NONE: Final = -1


class Slasher:
    """What validators voted for lately."""

    def __init__(self) -> None:
        self._targets = np.full(WINDOW, NONE, np.int64)
        self._votes: list[list[IndexedAttestation]] = [[] for _ in range(WINDOW)]
        self._which = np.full((WINDOW, 0), NONE, np.int32)
        """By row and validator: its vote's place in the row of `_votes`."""
        self._sources = np.full((WINDOW, 0), NONE, np.int64)
        self._caught = np.zeros(0, np.bool_)
        """Of whom there is evidence already."""

    def get_voters(self, target: Epoch) -> NDArray[np.bool_]:
        """(m,): by validator, whether it voted for a target of this epoch; those beyond m did not."""
        row = target % WINDOW
        flags: NDArray[np.bool_] = self._which[row] != NONE
        return flags & bool(self._targets[row] == target)

    def is_news(self, indexed: IndexedAttestation) -> bool:
        """Whether a vote is some voter's first for its target, or new evidence against it."""
        voters = self._make_room(indexed)
        row = self._find_row(indexed.data.target.epoch)
        if row is None:
            return False
        first = self._which[row, voters] == NONE
        return bool(first.any()) or bool(self._find_contradictions(indexed, voters))

    def is_first(self, indexed: IndexedAttestation) -> bool:
        """Whether a vote is some voter's first for its target."""
        voters, row = self._make_room(indexed), self._find_row(indexed.data.target.epoch)
        return row is not None and bool((self._which[row, voters] == NONE).any())

    def observe(self, indexed: IndexedAttestation) -> list[AttesterSlashing]:
        """Remembers a vote, whose signature was checked; returns evidence against voters of two faces."""
        voters = self._make_room(indexed)
        row = self._find_row(indexed.data.target.epoch)
        if row is None:
            return []
        evidence = [
            self._make_slashing(indexed, old, voters) for old in self._find_contradictions(indexed, voters)
        ]
        first = voters[self._which[row, voters] == NONE]
        if len(first):
            self._which[row, first] = len(self._votes[row])
            self._sources[row, first] = indexed.data.source.epoch
            self._votes[row].append(indexed)
        return [slashing for slashing in evidence if slashing is not None]

    def _find_contradictions(
        self, indexed: IndexedAttestation, voters: NDArray[np.int64]
    ) -> list[IndexedAttestation]:
        """Earlier votes that somebody, who is not caught yet, may not have made beside this one."""
        source, target = indexed.data.source.epoch, indexed.data.target.epoch
        voters = voters[~self._caught[voters]]
        sources, targets = self._sources[:, voters], self._targets[:, None]
        amiss = (sources != NONE) & (targets == target)
        amiss |= (targets < target) & (sources > source)
        amiss |= (targets > target) & (sources != NONE) & (sources < source)
        found = {
            (int(row), int(self._which[row, voters[at]])) for row, at in zip(*amiss.nonzero(), strict=True)
        }
        votes = [self._votes[row][place] for row, place in sorted(found)]
        return [vote for vote in votes if vote.data != indexed.data]

    def _make_slashing(
        self, new: IndexedAttestation, old: IndexedAttestation, voters: NDArray[np.int64]
    ) -> AttesterSlashing | None:
        """Evidence against those who made both votes; None when all of them are caught already."""
        both = np.intersect1d(voters, old.attesting_indices)
        if self._caught[both].all():
            return None
        self._caught[both] = True
        first, second = sorted((new, old), key=lambda vote: vote.data.source.epoch)
        return AttesterSlashing(attestation_1=first, attestation_2=second)

    def _find_row(self, target: Epoch) -> int | None:
        """The row of a target epoch, emptied when it held an older one; None when it holds a later one."""
        row = target % WINDOW
        if self._targets[row] > target:
            return None
        if self._targets[row] < target:
            self._targets[row], self._votes[row] = target, []
            self._which[row], self._sources[row] = NONE, NONE
        return row

    def _make_room(self, indexed: IndexedAttestation) -> NDArray[np.int64]:
        """The voters, for whom there is a column each from now on."""
        voters = np.array(indexed.attesting_indices, np.int64)
        missing = int(voters.max(initial=-1)) + 1 - len(self._caught)
        if missing > 0:
            columns = ((0, 0), (0, missing))
            self._which = np.pad(self._which, columns, constant_values=NONE)
            self._sources = np.pad(self._sources, columns, constant_values=NONE)
            self._caught = np.pad(self._caught, (0, missing))
        return voters
