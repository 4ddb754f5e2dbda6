"""Reading a state: who is active, who attests and proposes, how much stake that is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from anchor.consensus.bls import Signatures
from anchor.consensus.containers.phase0 import Attestation, AttestationData, IndexedAttestation, Validator
from anchor.consensus.execution import ExecutionEngine, accept_payload
from anchor.consensus.forks.arithmetic import multiply, require, to_flags, total
from anchor.consensus.forks.cache import Cache
from anchor.consensus.forks.phase0.base import Base, State
from anchor.consensus.forks.registry import ActiveSet, get_active_flags, get_pubkeys, get_set_version
from anchor.consensus.presets import Config, Preset
from anchor.consensus.shuffling import compute_shuffled_index, compute_shuffled_permutation
from anchor.errors import InvalidTransition
from anchor.merkle.hashing import sha256
from anchor.merkle.lazy import np
from anchor.params import DOMAIN_BEACON_ATTESTER, DOMAIN_BEACON_PROPOSER
from anchor.types import Bytes32, CommitteeIndex, DomainType, Epoch, Gwei, Root, Slot, ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


MAX_BATCH = 1 << 14
"""Candidates looked at together at most."""
SHUFFLED_AT_ONCE = 1000
"""Shuffling one index alone takes about as long as this many in a whole permutation."""


class Accessors(Base):
    """The specification's `is_` and `get_`. What is costly is kept, by what it depends on."""

    random_dtype: ClassVar[str] = "u1"
    """The random numbers that decide whom to take."""

    def __init__(
        self,
        preset: Preset,
        config: Config,
        signatures: Signatures,
        engine: ExecutionEngine = accept_payload,
    ) -> None:
        super().__init__(preset, config, signatures, engine)
        self._active_sets: Cache[ActiveSet] = Cache(16)
        self._balances: Cache[Gwei] = Cache(16)
        self._shufflings: Cache[NDArray[np.int64]] = Cache(16)
        self._proposers: Cache[ValidatorIndex] = Cache(64)

    # Validators

    def is_active_validator(self, validator: Validator, epoch: Epoch) -> bool:
        """Whether `validator` is active in `epoch`."""
        return validator.activation_epoch <= epoch < validator.exit_epoch

    def is_slashable_validator(self, validator: Validator, epoch: Epoch) -> bool:
        """Whether `validator` can still be slashed in `epoch`."""
        return not validator.slashed and validator.activation_epoch <= epoch < validator.withdrawable_epoch

    def get_active_set(self, state: State, epoch: Epoch) -> ActiveSet:
        """Who is active in `epoch`."""
        validators = state.validators
        version = get_set_version(validators, epoch)
        return self._active_sets.get(version, lambda: ActiveSet(get_active_flags(validators, epoch)))

    def get_active_validator_indices(self, state: State, epoch: Epoch) -> NDArray[np.int64]:
        """The indices of the validators that are active in `epoch`, ascending; not to be written to."""
        return self.get_active_set(state, epoch).indices

    def get_validator_churn_limit(self, state: State) -> int:
        """How many validators may exit, or be activated, in an epoch."""
        active = len(self.get_active_validator_indices(state, self.get_current_epoch(state)))
        limit: int = max(self.config.MIN_PER_EPOCH_CHURN_LIMIT, active // self.config.CHURN_LIMIT_QUOTIENT)
        return limit

    def get_total_balance(self, state: State, rows: NDArray[Any]) -> Gwei:
        """Effective balance of the validators at `rows` (indices or flags), at least one increment."""
        balances = state.validators.column("effective_balance")[rows]
        return max(self.preset.EFFECTIVE_BALANCE_INCREMENT, total(balances))

    def get_total_active_balance(self, state: State) -> Gwei:
        """Effective balance of all validators that are active now."""
        epoch = self.get_current_epoch(state)
        version = (get_set_version(state.validators, epoch), state.validators.version("effective_balance"))
        return self._balances.get(
            version, lambda: self.get_total_balance(state, self.get_active_set(state, epoch).flags)
        )

    def get_max_effective_balance(self, withdrawal_credentials: Bytes32) -> Gwei:
        """The most that the effective balance of a validator with these credentials may be."""
        return self.preset.MAX_EFFECTIVE_BALANCE

    def get_max_effective_balances(self, state: State, rows: NDArray[np.int64]) -> NDArray[np.uint64] | int:
        """`get_max_effective_balance` of the validators at `rows`, or one number for all."""
        return self.preset.MAX_EFFECTIVE_BALANCE

    # Randomness and history

    def get_block_root(self, state: State, epoch: Epoch) -> Root:
        """The root of the latest block at the start of a recent epoch."""
        return self.get_block_root_at_slot(state, self.compute_start_slot_at_epoch(epoch))

    def get_block_root_at_slot(self, state: State, slot: Slot) -> Root:
        """The root of the latest block at a recent slot."""
        kept = self.preset.SLOTS_PER_HISTORICAL_ROOT
        require(
            slot < state.slot <= slot + kept,
            lambda: f"The block root of slot {slot} is not known at slot {state.slot}.",
        )
        root: bytes = state.block_roots[slot % kept]
        return root

    def get_latest_block_root(self, state: State) -> Root:
        """The root of the newest block that the state comes from."""
        header = state.latest_block_header
        if header.state_root == bytes(32):  # no slot has passed since
            header = header.replace(state_root=self.hash_tree_root(state))
        return self.hash_tree_root(header)

    def get_randao_mix(self, state: State, epoch: Epoch) -> bytes:
        """The randomness of a recent epoch."""
        mix: bytes = state.randao_mixes[epoch % self.preset.EPOCHS_PER_HISTORICAL_VECTOR]
        return mix

    def get_seed(self, state: State, epoch: Epoch, domain_type: DomainType) -> bytes:
        """The seed of `epoch` for one use."""
        # The added length of the vector keeps the sum from going below zero.
        back = self.preset.EPOCHS_PER_HISTORICAL_VECTOR - self.preset.MIN_SEED_LOOKAHEAD - 1
        return sha256(domain_type + epoch.to_bytes(8, "little") + self.get_randao_mix(state, epoch + back))

    # Committees and proposers

    def get_committee_count_per_slot(self, state: State, epoch: Epoch) -> int:
        """How many committees attest in every slot of `epoch`."""
        active = len(self.get_active_validator_indices(state, epoch))
        wanted = active // self.preset.SLOTS_PER_EPOCH // self.preset.TARGET_COMMITTEE_SIZE
        return max(1, min(self.preset.MAX_COMMITTEES_PER_SLOT, wanted))

    def get_beacon_committee(self, state: State, slot: Slot, index: CommitteeIndex) -> NDArray[np.int64]:
        """The validators of committee `index` of `slot`, in their order."""
        epoch = self.compute_epoch_at_slot(slot)
        per_slot = self.get_committee_count_per_slot(state, epoch)
        shuffled = self._get_shuffling(state, epoch)
        place = slot % self.preset.SLOTS_PER_EPOCH * per_slot + index
        count = per_slot * self.preset.SLOTS_PER_EPOCH
        return shuffled[len(shuffled) * place // count : len(shuffled) * (place + 1) // count]

    def _get_shuffling(self, state: State, epoch: Epoch) -> NDArray[np.int64]:
        """The active validators of `epoch` in the order in which committees take them."""
        active = self.get_active_set(state, epoch)
        seed = self.get_seed(state, epoch, DOMAIN_BEACON_ATTESTER)

        def shuffle() -> NDArray[np.int64]:
            rounds = self.preset.SHUFFLE_ROUND_COUNT
            return active.indices[compute_shuffled_permutation(len(active.indices), seed, rounds)]

        return self._shufflings.get((seed, active.digest), shuffle)

    def get_beacon_proposer_index(self, state: State) -> ValidatorIndex:
        """Who proposes in the state's slot."""
        epoch = self.get_current_epoch(state)
        seed = sha256(self.get_seed(state, epoch, DOMAIN_BEACON_PROPOSER) + state.slot.to_bytes(8, "little"))
        version = get_set_version(state.validators, epoch), state.validators.version("effective_balance")
        return self._proposers.get(
            (seed, version),
            lambda: self.compute_proposer_index(state, self.get_active_validator_indices(state, epoch), seed),
        )

    def compute_proposer_index(self, state: State, indices: NDArray[np.int64], seed: bytes) -> ValidatorIndex:
        """One of `indices`, drawn with a chance in proportion to its effective balance."""
        return self.compute_balance_weighted_selection(state, indices, seed, 1)[0]

    def compute_balance_weighted_selection(
        self, state: State, indices: NDArray[np.int64], seed: bytes, size: int, shuffle: bool = True
    ) -> list[ValidatorIndex]:
        """`size` of `indices`, possibly repeated, drawn with chances in proportion to effective balance.

        Candidates come in shuffled order, or as they are; a random number against its effective balance
        decides whether one is taken. Raises InvalidTransition when there are no candidates.
        """
        count, largest_number = len(indices), int(np.iinfo(self.random_dtype).max)
        require(count > 0, lambda: f"No validator is active around slot {state.slot}.")
        order = self._get_order(count, seed) if shuffle else lambda places: places
        balances = state.validators.column("effective_balance")
        largest_weight = int(balances.max()) * largest_number
        selected: list[ValidatorIndex] = []
        first, batch = 0, size
        while len(selected) < size:
            thresholds = self._get_random_numbers(seed, first, batch) * np.uint64(self.max_drawn_balance)
            draws = np.flatnonzero(thresholds <= largest_weight)  # nobody passes the others: not looked at
            candidates = indices[order((first + draws) % count)]
            taken = multiply(balances[candidates], largest_number) >= thresholds[draws]
            selected += candidates[taken].tolist()
            first, batch = first + batch, min(2 * batch, MAX_BATCH)
        return selected[:size]

    def _get_order(self, count: int, seed: bytes) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
        """A function from places to their shuffled places."""
        rounds = self.preset.SHUFFLE_ROUND_COUNT
        permute = cache(lambda: compute_shuffled_permutation(count, seed, rounds))

        def order(places: NDArray[np.int64]) -> NDArray[Any]:
            if count <= SHUFFLED_AT_ONCE * len(places):
                return permute()[places]
            shuffled = [compute_shuffled_index(place, count, seed, rounds) for place in places.tolist()]
            return np.array(shuffled, np.int64)

        return order

    def _get_random_numbers(self, seed: bytes, first: int, count: int) -> NDArray[np.uint64]:
        """Random numbers `first`, `first + 1`, …: those that follow from `seed`, one a draw."""
        per_hash = 32 // np.dtype(self.random_dtype).itemsize
        hashes = range(first // per_hash, (first + count - 1) // per_hash + 1)
        data = b"".join([sha256(seed + number.to_bytes(8, "little")) for number in hashes])
        skipped = first % per_hash
        return np.frombuffer(data, self.random_dtype)[skipped : skipped + count].astype(np.uint64)

    @property
    def max_drawn_balance(self) -> Gwei:
        """The effective balance with which a candidate is always taken."""
        return self.preset.MAX_EFFECTIVE_BALANCE

    # Attestations

    def is_slashable_attestation_data(self, data_1: AttestationData, data_2: AttestationData) -> bool:
        """Whether who voted for both has made a double vote, or `data_1` surrounds `data_2`."""
        double = data_1 != data_2 and data_1.target.epoch == data_2.target.epoch
        surround = data_1.source.epoch < data_2.source.epoch and data_2.target.epoch < data_1.target.epoch
        return double or surround

    def get_attesting_indices(self, state: State, attestation: Attestation) -> NDArray[np.int64]:
        """The validators whose votes `attestation` aggregates, in committee order."""
        data, bits = attestation.data, attestation.aggregation_bits
        committee = self.get_beacon_committee(state, data.slot, data.index)
        require(
            len(bits) == len(committee),
            lambda: (
                f"Committee {data.index} of slot {data.slot} has {len(committee)} members, "
                f"and the attestation has {len(bits)} bits."
            ),
        )
        voters: NDArray[np.int64] = committee[to_flags(bits)]
        return voters

    def get_indexed_attestation(self, state: State, attestation: Attestation) -> IndexedAttestation:
        """`attestation` with its voters' indices, ascending, in place of bits."""
        indices = np.sort(self.get_attesting_indices(state, attestation))
        values = tuple(indices.tolist()), attestation.data, attestation.signature
        indexed: IndexedAttestation = self.records["IndexedAttestation"].from_values(values)  # type: ignore[assignment]
        return indexed

    def verify_indexed_attestation(self, state: State, indexed: IndexedAttestation) -> None:
        """Raises InvalidTransition unless the indices ascend, name validators, and all of them signed.

        (The specification's `is_valid_indexed_attestation`.)
        """
        indices, slot = indexed.attesting_indices, indexed.data.slot
        require(len(indices) > 0, lambda: f"An attestation for slot {slot} has no voters.")
        require(
            all(a < b for a, b in pairwise(indices)),
            lambda: f"The voters of an attestation for slot {slot} are not in strictly ascending order.",
        )
        count = len(state.validators)
        require(indices[-1] < count, lambda: f"Voter {indices[-1]} is beyond the registry's {count}.")
        domain = self.get_domain(state, DOMAIN_BEACON_ATTESTER, indexed.data.target.epoch)
        message = self.compute_signing_root(indexed.data, domain)
        pubkeys = get_pubkeys(state.validators, np.array(indices, np.int64))
        if not self.signatures.fast_aggregate_verify(pubkeys, message, indexed.signature):
            raise InvalidTransition(f"The aggregate signature of a vote for slot {slot} is not valid.")

    # Finality

    def get_finality_delay(self, state: State) -> int:
        """Epochs between the previous one and the finalised one."""
        delay: int = self.get_previous_epoch(state) - state.finalized_checkpoint.epoch
        require(delay >= 0, lambda: f"The finalised epoch is {-delay} epochs ahead of the state.")
        return delay

    def is_in_inactivity_leak(self, state: State) -> bool:
        """Whether finality has been missing for so long that the inactive lose stake."""
        return self.get_finality_delay(state) > self.preset.MIN_EPOCHS_TO_INACTIVITY_PENALTY

    def get_eligible_flags(self, state: State) -> NDArray[np.bool_]:
        """(n,): who is rewarded or penalised for the previous epoch (get_eligible_validator_indices)."""
        previous = self.get_previous_epoch(state)
        validators = state.validators
        flags: NDArray[np.bool_] = validators.column("withdrawable_epoch") > previous + 1
        flags &= validators.column("slashed")
        flags |= self.get_active_set(state, previous).flags
        return flags
