"""Votes that earn flags, and the sync committee's signature (altair/beacon-chain, block processing)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from anchor.consensus.containers.altair import SyncAggregate
from anchor.consensus.containers.phase0 import Attestation, AttestationData, BeaconBlock
from anchor.consensus.forks.altair.epoch import AltairEpochProcessing
from anchor.consensus.forks.arithmetic import require, require_uint64
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.signing import compute_signing_root
from anchor.consensus.sync_committee import is_signed_by
from anchor.merkle.lazy import np
from anchor.params import (
    DOMAIN_SYNC_COMMITTEE,
    PARTICIPATION_FLAG_WEIGHTS,
    PROPOSER_WEIGHT,
    SYNC_REWARD_WEIGHT,
    WEIGHT_DENOMINATOR,
)
from anchor.types import BLSPubkey, Bytes32, Gwei, Slot

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AltairBlockProcessing(AltairEpochProcessing):
    """`process_block` and the parts that altair adds or modifies."""

    def process_block(self, state: State, block: BeaconBlock) -> None:
        super().process_block(state, block)
        body: Body = block.body
        self.process_sync_aggregate(state, body.sync_aggregate)

    def process_attestation(self, state: State, attestation: Attestation) -> None:
        """Gives a vote's makers the flags that it earns, and the proposer its share."""
        data = attestation.data
        self.verify_attestation(state, attestation)
        flag_indices = self.get_attestation_participation_flag_indices(state, data, state.slot - data.slot)
        indexed = self.get_indexed_attestation(state, attestation)
        self.verify_indexed_attestation(state, indexed)
        self.add_participation_flags(state, data, indexed.attesting_indices, flag_indices)

    def add_participation_flags(
        self, state: State, data: AttestationData, indices: tuple[int, ...], flag_indices: list[int]
    ) -> None:
        """Sets flags of validators, and rewards the proposer for those that are new."""
        numerator = self.set_participation_flags(state, data, indices, flag_indices)
        denominator = (WEIGHT_DENOMINATOR - PROPOSER_WEIGHT) * WEIGHT_DENOMINATOR // PROPOSER_WEIGHT
        self.increase_balance(state, self.get_beacon_proposer_index(state), numerator // denominator)

    def set_participation_flags(
        self, state: State, data: AttestationData, indices: tuple[int, ...], flag_indices: list[int]
    ) -> Gwei:
        """Sets flags of validators; returns the base rewards of those that were new, by their weights."""
        participation = self.get_epoch_participation(state, data.target.epoch)
        rows = np.array(indices, np.int64)
        flags = sum([1 << flag_index for flag_index in flag_indices])
        new = ~participation.array[rows] & flags
        if not new.any():
            return 0
        participation[rows] = participation.array[rows] | new
        balances = state.validators.column("effective_balance")[rows]
        increments = balances // self.preset.EFFECTIVE_BALANCE_INCREMENT
        weighted = int((increments * _get_weights()[new]).sum())
        return weighted * self.get_base_reward_per_increment(state)

    def add_validator_to_registry(
        self, state: State, pubkey: BLSPubkey, withdrawal_credentials: Bytes32, amount: Gwei
    ) -> None:
        super().add_validator_to_registry(state, pubkey, withdrawal_credentials, amount)
        state.previous_epoch_participation.append(0)
        state.current_epoch_participation.append(0)
        state.inactivity_scores.append(0)

    # Sync committee

    def process_sync_aggregate(self, state: State, aggregate: SyncAggregate) -> None:
        """Checks the sync committee's signature of the parent, and rewards who signed."""
        self.verify_sync_aggregate(state, aggregate)
        committee = self.get_sync_committee_indices(state, state.current_sync_committee)
        participant_reward, proposer_reward = self.get_sync_rewards(state)
        proposer = self.get_beacon_proposer_index(state)
        rows = np.array([*committee, proposer], np.int64)
        balances = dict(zip(rows.tolist(), state.balances.array[rows].tolist(), strict=True))
        # One after the other: a member may be in the committee twice, or the proposer, and run dry.
        for index, bit in zip(committee, aggregate.sync_committee_bits, strict=True):
            if bit:
                balances[index] += participant_reward
                balances[proposer] += proposer_reward
            else:
                balances[index] = max(balances[index] - participant_reward, 0)
        require_uint64(max(balances.values()), "A balance")
        state.balances[np.fromiter(balances, np.int64)] = np.fromiter(balances.values(), np.uint64)

    def verify_sync_aggregate(self, state: State, aggregate: SyncAggregate) -> None:
        """Raises InvalidTransition unless the members whose bits are set signed the previous slot's block."""
        committee, bits = state.current_sync_committee, aggregate.sync_committee_bits
        slot: Slot = max(state.slot, 1) - 1
        domain = self.get_domain(state, DOMAIN_SYNC_COMMITTEE, self.compute_epoch_at_slot(slot))
        message = compute_signing_root(self.get_block_root_at_slot(state, slot), domain)
        verify, signature = self.signatures.eth_fast_aggregate_verify, aggregate.sync_committee_signature
        require(
            is_signed_by(committee, bits, message, signature, verify),
            lambda: (
                f"The sync committee's signature of slot {slot} is not by the {bits.count_set()} members "
                "that it names."
            ),
        )

    def get_sync_rewards(self, state: State) -> tuple[Gwei, Gwei]:
        """What a member receives for a signature (or loses without), and the proposer for including it."""
        increments = self.get_total_active_balance(state) // self.preset.EFFECTIVE_BALANCE_INCREMENT
        total = self.get_base_reward_per_increment(state) * increments * SYNC_REWARD_WEIGHT
        per_slot = total // WEIGHT_DENOMINATOR // self.preset.SLOTS_PER_EPOCH
        reward = per_slot // self.preset.SYNC_COMMITTEE_SIZE
        return reward, reward * PROPOSER_WEIGHT // (WEIGHT_DENOMINATOR - PROPOSER_WEIGHT)


@cache
def _get_weights() -> NDArray[np.uint64]:
    """By flags: the sum of their weights."""
    sums = [sum([w for i, w in enumerate(PARTICIPATION_FLAG_WEIGHTS) if f >> i & 1]) for f in range(256)]
    return np.array(sums, np.uint64)
