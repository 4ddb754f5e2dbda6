"""What waits to be put into a block: votes, sync signatures, slashings, exits. Bounded, and pruned by slot.

Everything here was verified before it was added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from anchor.consensus.bls import Bls
from anchor.consensus.containers.altair import SyncAggregate
from anchor.consensus.containers.phase0 import (
    Attestation,
    AttestationData,
    AttesterSlashing,
    IndexedAttestation,
    ProposerSlashing,
    SignedVoluntaryExit,
)
from anchor.merkle.bits import Bits
from anchor.node.network.messages import SyncContribution
from anchor.params import G2_POINT_AT_INFINITY

MAX_VOTES_OF_SLOT: Final = 1024
MAX_OPERATIONS: Final = 256
"""Of each kind."""


class Signed(NamedTuple):
    """Members of a committee, and their aggregate signature over one message."""

    bits: Bits
    signature: bytes


def aggregate(bls: Bls, parts: Sequence[Signed]) -> Signed:
    """As many of `parts` as have no member in common, taken from the largest on, in one.

    There is at least one, and all signed the same message.
    """
    taken: list[Signed] = []
    union = Bits.zeros(len(parts[0].bits))
    for part in sorted(parts, key=lambda part: -part.bits.count_set()):
        both = union | part.bits
        if both.count_set() == union.count_set() + part.bits.count_set():
            taken.append(part)
            union = both
    if len(taken) == 1:
        return taken[0]
    return Signed(union, bls.aggregate([part.signature for part in taken]))


class VotePool:
    """Votes that a block may bring, by slot and by what they are for."""

    def __init__(self) -> None:
        self._votes: dict[int, dict[AttestationData, list[Signed]]] = {}
        self._counts: dict[int, int] = {}
        self._uncounted: list[IndexedAttestation] = []

    def __len__(self) -> int:
        return sum(self._counts.values())

    def add(self, vote: Attestation) -> None:
        """Keeps a vote, unless those who made it are in another one already."""
        slot = vote.data.slot
        parts = self._votes.setdefault(slot, {}).setdefault(vote.data, [])
        if any(vote.aggregation_bits.is_subset_of(part.bits) for part in parts):
            return
        if self._counts.get(slot, 0) < MAX_VOTES_OF_SLOT:
            parts.append(Signed(vote.aggregation_bits, vote.signature))
            self._counts[slot] = self._counts.get(slot, 0) + 1

    def count_later(self, indexed: IndexedAttestation) -> None:
        """Keeps a vote for the fork choice, for which it counts from the next slot on."""
        self._uncounted.append(indexed)

    def take_countable(self, slot: int) -> list[IndexedAttestation]:
        """The votes of slots before `slot` that have not been counted yet."""
        due = [indexed for indexed in self._uncounted if indexed.data.slot < slot]
        self._uncounted = [indexed for indexed in self._uncounted if indexed.data.slot >= slot]
        return due

    def aggregate(self, bls: Bls) -> Iterator[Attestation]:
        """By what was voted for, newest first: aggregates of as many voters as can be."""
        for slot in sorted(self._votes, reverse=True):
            for data, parts in self._votes[slot].items():
                left = list(parts)
                while left:
                    whole = aggregate(bls, left)
                    yield Attestation(aggregation_bits=whole.bits, data=data, signature=whole.signature)
                    left = [part for part in left if not part.bits.is_subset_of(whole.bits)]

    def prune(self, slot: int) -> None:
        """Forgets votes of slots before `slot`."""
        for old in [known for known in self._votes if known < slot]:
            del self._votes[old]
            self._counts.pop(old, None)


class SyncPool:
    """Signatures of sync committees' seats, by slot and block."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: dict[int, dict[bytes, list[Signed]]] = {}
        self._seen: dict[int, Bits] = {}
        """By slot: seats that have signed anything."""

    def is_news(self, contribution: SyncContribution) -> bool:
        """Whether some seat signs for the first time in its slot."""
        seen = self._seen.get(contribution.slot, Bits.zeros(self._size))
        return not contribution.sync_committee_bits.is_subset_of(seen)

    def add(self, contribution: SyncContribution) -> None:
        """Keeps a contribution."""
        slot, bits = contribution.slot, contribution.sync_committee_bits
        self._seen[slot] = self._seen.get(slot, Bits.zeros(self._size)) | bits
        parts = self._parts.setdefault(slot, {}).setdefault(contribution.beacon_block_root, [])
        parts.append(Signed(bits, contribution.signature))

    def aggregate(self, bls: Bls, slot: int, root: bytes) -> SyncAggregate:
        """What a block that follows `root` says of those who signed it in `slot`."""
        parts = self._parts.get(slot, {}).get(root, [])
        none = Signed(Bits.zeros(self._size), G2_POINT_AT_INFINITY)
        whole = aggregate(bls, parts) if parts else none
        return SyncAggregate(sync_committee_bits=whole.bits, sync_committee_signature=whole.signature)

    def prune(self, slot: int) -> None:
        """Forgets what was signed before `slot`."""
        for old in [known for known in self._seen if known < slot]:
            del self._seen[old], self._parts[old]


def get_equivocators(slashing: AttesterSlashing) -> set[int]:
    """Who made both votes."""
    return set(slashing.attestation_1.attesting_indices) & set(slashing.attestation_2.attesting_indices)


class OperationPool:
    """Slashings and exits."""

    def __init__(self) -> None:
        self.proposer_slashings: dict[int, ProposerSlashing] = {}
        """By whom they slash."""
        self.attester_slashings: list[AttesterSlashing] = []
        self.exits: dict[int, SignedVoluntaryExit] = {}
        """By who leaves."""
        self._attesters: set[int] = set()
        """Whom attester slashings here slash."""

    def find_new(self, slashing: AttesterSlashing) -> set[int]:
        """Whom `slashing` slashes, and none that is here does."""
        return get_equivocators(slashing) - self._attesters

    def add_proposer_slashing(self, slashing: ProposerSlashing) -> bool:
        """Keeps evidence; False when it slashes who is slashed by other evidence already."""
        index = slashing.signed_header_1.message.proposer_index
        if index in self.proposer_slashings or len(self.proposer_slashings) >= MAX_OPERATIONS:
            return False
        self.proposer_slashings[index] = slashing
        return True

    def add_attester_slashing(self, slashing: AttesterSlashing) -> bool:
        """Keeps evidence; False when it slashes only who is slashed by other evidence already."""
        new = self.find_new(slashing)
        if not new or len(self.attester_slashings) >= MAX_OPERATIONS:
            return False
        self._attesters |= new
        self.attester_slashings.append(slashing)
        return True

    def add_exit(self, wish: SignedVoluntaryExit) -> bool:
        """Keeps a validator's wish to leave; False when there is one already."""
        index = wish.message.validator_index
        if index in self.exits or len(self.exits) >= MAX_OPERATIONS:
            return False
        self.exits[index] = wish
        return True

    def prune(self, slashed: set[int], leaving: set[int]) -> None:
        """Forgets what has taken effect for good: who is slashed, and who leaves, in a final state."""
        for index in slashed & self.proposer_slashings.keys():
            del self.proposer_slashings[index]
        for index in leaving & self.exits.keys():
            del self.exits[index]
        kept, self.attester_slashings, self._attesters = self.attester_slashings, [], set()
        for slashing in kept:
            if self.find_new(slashing) - slashed:
                self.add_attester_slashing(slashing)
