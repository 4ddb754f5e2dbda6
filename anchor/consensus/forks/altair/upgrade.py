"""From phase0 to altair (altair/fork)."""

from __future__ import annotations

from collections.abc import Iterable

from anchor.consensus.containers.altair import SyncCommittee
from anchor.consensus.containers.phase0 import PendingAttestation
from anchor.consensus.forks.altair.block import AltairBlockProcessing
from anchor.consensus.forks.arithmetic import to_flags
from anchor.consensus.forks.phase0.base import State
from anchor.merkle.columns import Column
from anchor.merkle.lazy import np


class Altair(AltairBlockProcessing):
    """The rules of altair."""

    def upgrade(self, pre: State) -> State:
        """A phase0 state as a state of altair (upgrade_to_altair)."""
        count = len(pre.validators)
        post = self.carry_over(
            pre,
            previous_epoch_participation=Column(np.zeros(count, np.uint8)),
            current_epoch_participation=Column(np.zeros(count, np.uint8)),
            inactivity_scores=Column(np.zeros(count, np.uint64)),
            current_sync_committee=self.scope.schema(SyncCommittee).default(),
            next_sync_committee=self.scope.schema(SyncCommittee).default(),
        )
        self.translate_participation(post, pre.previous_epoch_attestations)
        # As specified, one committee serves the current and the next period at the fork.
        post.current_sync_committee = post.next_sync_committee = self.get_next_sync_committee(post)
        return post

    def translate_participation(self, state: State, attestations: Iterable[PendingAttestation]) -> None:
        """Gives the previous epoch's voters the flags that their pending attestations earned."""
        participation = state.previous_epoch_participation
        for pending in attestations:
            data = pending.data
            flag_indices = self.get_attestation_participation_flag_indices(
                state, data, pending.inclusion_delay
            )
            committee = self.get_beacon_committee(state, data.slot, data.index)
            rows = committee[to_flags(pending.aggregation_bits)]
            flags = sum([1 << flag_index for flag_index in flag_indices])
            participation[rows] = participation.array[rows] | flags
