"""Fulu: proposers are known an epoch ahead, blobs are scheduled (fulu/beacon-chain, fulu/fork)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from anchor.consensus.containers import fulu as containers
from anchor.consensus.containers.electra import DepositRequest, PendingDeposit
from anchor.consensus.forks.electra import Electra
from anchor.consensus.forks.phase0.base import State
from anchor.merkle.container import Container
from anchor.merkle.hashing import sha256
from anchor.merkle.lazy import np
from anchor.params import DOMAIN_BEACON_PROPOSER
from anchor.types import Epoch, ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BlobParameters(NamedTuple):
    """How many blobs a block may carry, and since when."""

    epoch: Epoch
    max_blobs_per_block: int


class Fulu(Electra):
    """The rules of fulu."""

    name: ClassVar[str] = "fulu"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    def get_blob_parameters(self, epoch: Epoch) -> BlobParameters:
        """What the network's schedule says for `epoch`."""
        entries = [(entry["EPOCH"], entry["MAX_BLOBS_PER_BLOCK"]) for entry in self.config.BLOB_SCHEDULE]
        first = self.config.ELECTRA_FORK_EPOCH, self.config.MAX_BLOBS_PER_BLOCK_ELECTRA
        begun = [entry for entry in sorted(entries) if entry[0] <= epoch]
        return BlobParameters(*(begun[-1] if begun else first))

    def get_max_blobs_per_block(self, epoch: Epoch) -> int:
        return self.get_blob_parameters(epoch).max_blobs_per_block

    # Proposers

    def get_beacon_proposer_index(self, state: State) -> ValidatorIndex:
        index: ValidatorIndex = state.proposer_lookahead[state.slot % self.preset.SLOTS_PER_EPOCH]
        return index

    def get_beacon_proposer_indices(self, state: State, epoch: Epoch) -> tuple[ValidatorIndex, ...]:
        """Who proposes in the slots of `epoch`."""
        indices = self.get_proposer_candidates(state, epoch)
        seed = self.get_seed(state, epoch, DOMAIN_BEACON_PROPOSER)
        start = self.compute_start_slot_at_epoch(epoch)
        slots = range(start, start + self.preset.SLOTS_PER_EPOCH)
        seeds = [sha256(seed + slot.to_bytes(8, "little")) for slot in slots]
        return tuple([self.compute_proposer_index(state, indices, slot_seed) for slot_seed in seeds])

    def get_proposer_candidates(self, state: State, epoch: Epoch) -> NDArray[np.int64]:
        """Who may propose in `epoch`."""
        return self.get_active_validator_indices(state, epoch)

    def process_epoch(self, state: State) -> None:
        super().process_epoch(state)
        self.process_proposer_lookahead(state)

    def process_proposer_lookahead(self, state: State) -> None:
        """Adds the proposers of the epoch that comes into view."""
        epoch = self.get_current_epoch(state) + self.preset.MIN_SEED_LOOKAHEAD + 1
        kept = state.proposer_lookahead[self.preset.SLOTS_PER_EPOCH :]
        state.proposer_lookahead = kept + self.get_beacon_proposer_indices(state, epoch)

    # Deposits: the old bridge is closed

    def get_outstanding_deposits(self, state: State) -> int:
        return 0

    def is_deposit_due(self, state: State, deposit: PendingDeposit) -> bool:
        """Whether a deposit is final."""
        finalized_slot = self.compute_start_slot_at_epoch(state.finalized_checkpoint.epoch)
        return deposit.slot <= finalized_slot

    def process_deposit_request(self, state: State, request: DepositRequest) -> None:
        """Queues a deposit."""
        self.queue_deposit_request(state, request)

    def upgrade(self, pre: State) -> State:
        """A state of electra as a state of fulu (upgrade_to_fulu)."""
        post = self.carry_over(pre, proposer_lookahead=())
        epoch = self.get_current_epoch(post)
        for ahead in range(self.preset.MIN_SEED_LOOKAHEAD + 1):
            post.proposer_lookahead += self.get_beacon_proposer_indices(post, epoch + ahead)
        return post
