"""Participation flags, base rewards and sync committees (altair/beacon-chain, helper functions)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import TYPE_CHECKING, Any, ClassVar

from anchor.consensus.bls import Signatures
from anchor.consensus.containers import altair as containers
from anchor.consensus.containers.altair import SyncCommittee
from anchor.consensus.containers.phase0 import AttestationData
from anchor.consensus.execution import ExecutionEngine, accept_payload
from anchor.consensus.forks.cache import Cache
from anchor.consensus.forks.phase0 import Phase0
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.registry import find_validator, get_pubkeys
from anchor.consensus.presets import Config, Preset
from anchor.errors import InvalidTransition
from anchor.merkle.columns import Column
from anchor.merkle.container import Container
from anchor.merkle.lazy import np
from anchor.params import (
    DOMAIN_SYNC_COMMITTEE,
    PROPOSER_WEIGHT,
    TIMELY_HEAD_FLAG_INDEX,
    TIMELY_SOURCE_FLAG_INDEX,
    TIMELY_TARGET_FLAG_INDEX,
    WEIGHT_DENOMINATOR,
)
from anchor.types import Epoch, Gwei, ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AltairAccessors(Phase0):
    """What altair reads of a state beyond phase0."""

    name: ClassVar[str] = "altair"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    def __init__(
        self,
        preset: Preset,
        config: Config,
        signatures: Signatures,
        engine: ExecutionEngine = accept_payload,
    ) -> None:
        super().__init__(preset, config, signatures, engine)
        self._sync_committees: Cache[list[ValidatorIndex]] = Cache(4)

    # Participation

    def get_epoch_participation(self, state: State, epoch: Epoch) -> Column[int]:
        """The flags that validators earned in `epoch`, the current or the previous one."""
        if epoch == self.get_current_epoch(state):
            return state.current_epoch_participation  # type: ignore[no-any-return]
        return state.previous_epoch_participation  # type: ignore[no-any-return]

    def get_unslashed_participating_flags(
        self, state: State, flag_index: int, epoch: Epoch
    ) -> NDArray[np.bool_]:
        """(n,): who was active in `epoch`, earned this flag and isn't slashed.

        (The specification's `get_unslashed_participating_indices`.)
        """
        participation = self.get_epoch_participation(state, epoch).array
        earned: NDArray[np.bool_] = participation & (1 << flag_index) != 0
        earned &= self.get_active_set(state, epoch).flags
        earned &= ~state.validators.column("slashed")
        return earned

    def get_attestation_participation_flag_indices(
        self, state: State, data: AttestationData, inclusion_delay: int
    ) -> list[int]:
        """The flags that a vote earns when it is included after this many slots.

        Raises InvalidTransition when its source is not what is justified.
        """
        self.verify_attestation_source(state, data)
        is_target = data.target.root == self.get_block_root(state, data.target.epoch)
        is_head = is_target and data.beacon_block_root == self.get_block_root_at_slot(state, data.slot)
        flags = []
        if inclusion_delay <= isqrt(self.preset.SLOTS_PER_EPOCH):
            flags.append(TIMELY_SOURCE_FLAG_INDEX)
        if is_target and self.is_timely_target(inclusion_delay):
            flags.append(TIMELY_TARGET_FLAG_INDEX)
        if is_head and inclusion_delay == self.preset.MIN_ATTESTATION_INCLUSION_DELAY:
            flags.append(TIMELY_HEAD_FLAG_INDEX)
        return flags

    def is_timely_target(self, inclusion_delay: int) -> bool:
        """Whether a right vote for the target still counts after this many slots."""
        return inclusion_delay <= self.preset.SLOTS_PER_EPOCH

    # Rewards

    def get_base_reward_per_increment(self, state: State) -> Gwei:
        """The base reward of one increment of effective balance."""
        increment = self.preset.EFFECTIVE_BALANCE_INCREMENT
        return increment * self.preset.BASE_REWARD_FACTOR // isqrt(self.get_total_active_balance(state))

    def get_base_rewards(self, state: State) -> NDArray[np.uint64]:
        """(n,): each validator's base reward (get_base_reward)."""
        increments = state.validators.column("effective_balance") // self.preset.EFFECTIVE_BALANCE_INCREMENT
        return increments * self.get_base_reward_per_increment(state)  # type: ignore[no-any-return]

    def get_slashing_proposer_reward(self, whistleblower_reward: Gwei) -> Gwei:
        return whistleblower_reward * PROPOSER_WEIGHT // WEIGHT_DENOMINATOR

    # Sync committees

    def get_next_sync_committee_indices(self, state: State) -> list[ValidatorIndex]:
        """Who is in the next sync committee, drawn by effective balance; some may be in it twice."""
        epoch = self.get_current_epoch(state) + 1
        seed = self.get_seed(state, epoch, DOMAIN_SYNC_COMMITTEE)
        active = self.get_active_validator_indices(state, epoch)
        return self.compute_balance_weighted_selection(state, active, seed, self.preset.SYNC_COMMITTEE_SIZE)

    def get_next_sync_committee(self, state: State) -> SyncCommittee:
        """The next sync committee."""
        indices = np.array(self.get_next_sync_committee_indices(state), np.int64)
        pubkeys = get_pubkeys(state.validators, indices)
        aggregate = self.signatures.eth_aggregate_pubkeys(pubkeys)
        return SyncCommittee(pubkeys=tuple(pubkeys), aggregate_pubkey=aggregate)

    def get_sync_committee_indices(self, state: State, committee: SyncCommittee) -> list[ValidatorIndex]:
        """The validators behind a sync committee's keys."""
        version = (committee, state.validators.version("pubkey"))
        return self._sync_committees.get(version, lambda: self._find_validators(state, committee.pubkeys))

    def _find_validators(self, state: State, pubkeys: tuple[bytes, ...]) -> list[ValidatorIndex]:
        known: dict[bytes, Any] = {key: find_validator(state.validators, key) for key in set(pubkeys)}
        for key, index in known.items():
            if index is None:
                raise InvalidTransition(f"No validator has the key {key.hex()} of the sync committee.")
        return [known[key] for key in pubkeys]
