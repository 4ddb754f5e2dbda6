"""Capella and deneb: a block counts once its blobs are there (capella/fork-choice, deneb/fork-choice)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anchor.consensus import kzg
from anchor.consensus.containers.phase0 import BeaconBlock
from anchor.consensus.fork_choice.bellatrix import BellatrixForkChoice
from anchor.consensus.fork_choice.phase0 import require_now
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.deneb import Deneb
from anchor.consensus.forks.phase0.base import Body
from anchor.consensus.forks.schedule import ForkSchedule
from anchor.types import KZGProof, Root


class Blobs(NamedTuple):
    """A block's blobs, each with its proof."""

    blobs: Sequence[bytes]
    proofs: Sequence[KZGProof]


Retrieve = Callable[[Root], Any]
"""All of a block's data that must be there: Blobs, since fulu the columns to sample (a sequence of
DataColumnSidecar). None when it isn't all at hand."""


def retrieve_nothing(root: Root) -> None:
    """The data of who has no source of it: only blocks without blobs count."""


class CapellaForkChoice(BellatrixForkChoice):
    """The fork choice of capella: the merge is past."""

    def verify_block_data(self, store: Store, root: Root, block: BeaconBlock) -> None:
        """Raises an error unless all is there that must come with a block: nothing, here."""

    def is_optimistic_candidate_block(self, store: Store, block: BeaconBlock) -> bool:
        """True: no block can make the merge."""
        return True


class DenebForkChoice(CapellaForkChoice):
    """The fork choice of deneb and electra."""

    rules: Deneb

    def __init__(
        self, rules: Deneb, retrieve: Retrieve = retrieve_nothing, schedule: ForkSchedule | None = None
    ) -> None:
        super().__init__(rules, schedule=schedule)
        self._retrieve = retrieve

    def verify_block_data(self, store: Store, root: Root, block: BeaconBlock) -> None:
        body: Body = block.body
        self.verify_data_available(root, body.blob_kzg_commitments)

    def verify_data_available(self, root: Root, commitments: Sequence[bytes]) -> None:
        """Raises Premature unless a block's blobs are there, and InvalidTransition unless they are right.

        (The specification's `is_data_available`.)
        """
        data = self._retrieve(root)
        if data is None:
            count = len(commitments)
            require_now(count == 0, lambda: f"The {count} blobs of block {root.hex()} are not there.")
        else:
            self.verify_data(root, commitments, data)

    def verify_data(self, root: Root, commitments: Sequence[bytes], data: Any) -> None:
        """Raises InvalidTransition unless a block's data is what it commits to."""
        blobs: Blobs = data
        counts = len(blobs.blobs), len(blobs.proofs), len(commitments)
        require(
            len(set(counts)) == 1,
            lambda: f"There are {counts[0]} blobs and {counts[1]} proofs for {counts[2]} commitments.",
        )
        require(
            kzg.verify_blob_kzg_proof_batch(blobs.blobs, commitments, blobs.proofs),
            lambda: f"The blobs of block {root.hex()} are not what it commits to.",
        )
