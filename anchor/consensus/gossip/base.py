"""What every topic needs: what was seen already, the time, blocks and signatures (phase0/p2p-interface)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from anchor.consensus.containers.phase0 import BeaconBlock
from anchor.consensus.fork_choice.bellatrix import PayloadStatus
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.registry import get_validator
from anchor.errors import Ignored
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.types import DomainType, Epoch, Gwei, Hash32, Root, Slot, ValidatorIndex

Key = tuple[Hashable, ...]
"""A kind of message, and what only the first of the kind counts for."""
Statuses = Mapping[Root, PayloadStatus]
"""What the execution layer says of the payloads of blocks; SYNCING where it says nothing."""
NO_STATUSES: Final[Statuses] = MappingProxyType({})


def ignore_unless(condition: bool, message: Callable[[], str]) -> None:
    """Raises Ignored with `message()` unless `condition` holds."""
    if not condition:
        raise Ignored(message())


@dataclass
class Seen:
    """What was passed on, and what is known of blocks beside the fork choice's store."""

    keys: set[Key] = field(default_factory=set)
    bits: dict[Key, list[Bits]] = field(default_factory=dict)
    """Who took part in the aggregates of a kind."""
    unimported: dict[Root, BeaconBlock] = field(default_factory=dict)
    """Blocks that came and are not in the store: they were refused, or wait."""
    headers: dict[Root, Any] = field(default_factory=dict)
    """Of fulu: valid PartialDataColumnHeaders, by block."""
    payloads: dict[Hash32, Any] = field(default_factory=dict)
    """Of gloas: the payloads that came, by hash."""
    best_bids: dict[tuple[Slot, Hash32, Root], Gwei] = field(default_factory=dict)
    """Of gloas: the highest bid for a slot and what it builds on."""
    preferences: dict[tuple[Slot, Root], Any] = field(default_factory=dict)
    """Of gloas: what the proposer of a slot prefers, by the block that its duty depends on."""


class Base:
    """The rules of one fork's topics.

    A `validate_` method returns for a message that is to be passed on, and remembers it. It raises Ignored
    for one that is known, late, early or cannot be judged, and another Invalid (InvalidTransition,
    InvalidProof) for one that breaks a rule: its sender is to blame. Times are Unix milliseconds.
    """

    def __init__(self, choice: Any, seen: Seen | None = None) -> None:
        """`choice` is the fork choice of the fork."""
        self.choice, self.rules = choice, choice.rules
        self.preset, self.config = choice.rules.preset, choice.rules.config
        self.seen = seen or Seen()

    # What was seen

    def ignore_seen(self, key: Key) -> None:
        """Raises Ignored for a key that was seen."""
        ignore_unless(key not in self.seen.keys, lambda: f"There has been such a message: {key}.")

    def ignore_covered(self, key: Key, bits: Bits) -> None:
        """Raises Ignored for an aggregate all of whose participants are in one that was seen."""
        covered = any(bits.is_subset_of(other) for other in self.seen.bits.get(key, ()))
        ignore_unless(not covered, lambda: f"All of these participants are in one aggregate already: {key}.")

    # Time

    def get_slot_time_ms(self, store: Store, slot: Slot) -> int:
        """When a slot begins."""
        time: int = store.genesis_time_ms + slot * self.config.SLOT_DURATION_MS
        return time

    def is_within_slots(self, store: Store, slot: Slot, more: int, time_ms: int) -> bool:
        """Whether it is `slot`, or one of the next `more` slots, by a clock that may err a little."""
        allowed: int = self.config.MAXIMUM_GOSSIP_CLOCK_DISPARITY
        start, end = [self.get_slot_time_ms(store, edge) for edge in (slot, slot + more + 1)]
        return start - allowed <= time_ms <= end + allowed

    def is_current_or_previous_epoch(self, store: Store, epoch: Epoch, time_ms: int) -> bool:
        """Whether an epoch is the current one or the one before."""
        size = self.preset.SLOTS_PER_EPOCH
        return any(self.is_within_slots(store, e * size, size - 1, time_ms) for e in (epoch, epoch + 1))

    def is_future_slot(self, store: Store, slot: Slot, time_ms: int) -> bool:
        """Whether a slot is still to come."""
        allowed: int = self.config.MAXIMUM_GOSSIP_CLOCK_DISPARITY
        return time_ms + allowed < self.get_slot_time_ms(store, slot)

    def is_future_epoch(self, store: Store, epoch: Epoch, time_ms: int) -> bool:
        """Whether an epoch is still to come."""
        return self.is_future_slot(store, self.rules.compute_start_slot_at_epoch(epoch), time_ms)

    def ignore_future(self, store: Store, slot: Slot, time_ms: int) -> None:
        """Raises Ignored for a slot that is still to come."""
        ignore_unless(
            not self.is_future_slot(store, slot, time_ms), lambda: f"Slot {slot} is not due at {time_ms} ms."
        )

    # Blocks

    def get_head_state(self, store: Store) -> State:
        """The state by which messages are judged."""
        return store.block_states[self.choice.get_head(store).root]

    def ignore_unknown(self, store: Store, root: Root) -> None:
        """Raises Ignored for a block that has not come."""
        known = root in store.blocks or root in self.seen.unimported
        ignore_unless(known, lambda: f"Block {root.hex()} has not come.")

    def verify_known(self, store: Store, root: Root) -> None:
        """Raises Ignored for a block that has not come, InvalidTransition for one that was refused."""
        self.ignore_unknown(store, root)
        require(root in store.blocks, lambda: f"Block {root.hex()} was refused.")

    def is_finalized_followed(self, store: Store, root: Root) -> bool:
        """Whether a block descends from the finalised one."""
        finalized = store.finalized_checkpoint
        return bool(self.choice.get_checkpoint_block(store, root, finalized.epoch) == finalized.root)

    # Signatures

    def verify_signature(
        self, state: State, index: ValidatorIndex, message: Root, signature: bytes, what: str
    ) -> None:
        """Raises InvalidTransition unless validator `index` signed the signing root `message`."""
        pubkey = get_validator(state.validators, index).pubkey
        self.rules.require_signature(pubkey, message, signature, lambda: what)

    def compute_message(self, state: State, record: Container, kind: DomainType, epoch: Epoch) -> Root:
        """What a signature over `record` in `epoch` signs."""
        root: Root = self.rules.compute_signing_root(record, self.rules.get_domain(state, kind, epoch))
        return root
