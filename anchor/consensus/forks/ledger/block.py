"""What the ledger changes in Altair's blocks and epochs (specs/03-ledger §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from anchor.consensus.containers import ledger as containers
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.ledger.accessors import State
from anchor.consensus.forks.ledger.entries import EntryProcessing
from anchor.consensus.weak_subjectivity import compute_weak_subjectivity_period
from anchor.merkle.container import Container
from anchor.params import WALL_CLOCK


class BlockProcessing(EntryProcessing):
    """Blocks with a time and entries, without deposits; epochs that keep the weak-subjectivity period."""

    name: ClassVar[str] = "ledger"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    def process_block(self, state: State, block: Any) -> None:
        super().process_block(state, block)
        self.process_timestamp(state, block.body)
        self.process_entries(state, block.body)

    def process_timestamp(self, state: State, body: Any) -> None:
        """Moves the ledger's time: never back, and by a wall clock to the slot's own (rule 18)."""
        require(
            body.timestamp >= state.timestamp,
            lambda: f"The block's time {body.timestamp} is before its parent's, {state.timestamp}.",
        )
        if state.network.clock == WALL_CLOCK:
            expected = self.compute_time_at_slot(state.genesis_time, state.slot)
            require(
                body.timestamp == expected,
                lambda: f"Slot {state.slot} starts at {expected}, and the block's time is {body.timestamp}.",
            )
        state.timestamp = body.timestamp

    def process_eth1_data(self, state: State, body: Any) -> None:
        """Refuses votes: inherited, they would let a third of the stake mint validators (rule 16)."""
        require(
            body.eth1_data == state.eth1_data, lambda: "A ledger's eth1_data is frozen, and the block votes."
        )

    def verify_deposit_count(self, state: State, body: Any) -> None:
        """Refuses deposits: validators are admitted by entries (rule 16)."""
        require(not body.deposits, lambda: f"A ledger has no deposits, and the block {len(body.deposits)}.")

    def process_epoch(self, state: State) -> None:
        """Altair's, and the weak-subjectivity period."""
        super().process_epoch(state)
        self.process_weak_subjectivity_period(state)

    def process_weak_subjectivity_period(self, state: State) -> None:
        """Keeps how long a checkpoint of this epoch can be trusted, by Altair's formula."""
        period = compute_weak_subjectivity_period(self, state)
        state.network = state.network.replace(weak_subjectivity_period=period)
