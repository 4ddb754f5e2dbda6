"""Bellatrix: blocks carry execution payloads (bellatrix/beacon-chain, bellatrix/fork)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from anchor.consensus.containers import bellatrix as containers
from anchor.consensus.containers.bellatrix import ExecutionPayload, ExecutionPayloadHeader
from anchor.consensus.containers.phase0 import BeaconBlock
from anchor.consensus.execution import ExecutionEngine, NewPayloadRequest
from anchor.consensus.forks.altair import Altair
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import Body, State, convert_record
from anchor.merkle.container import Container


class Bellatrix(Altair):
    """The rules of bellatrix."""

    name: ClassVar[str] = "bellatrix"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    @property
    def inactivity_penalty_quotient(self) -> int:
        return self.preset.INACTIVITY_PENALTY_QUOTIENT_BELLATRIX

    @property
    def min_slashing_penalty_quotient(self) -> int:
        return self.preset.MIN_SLASHING_PENALTY_QUOTIENT_BELLATRIX

    @property
    def proportional_slashing_multiplier(self) -> int:
        return self.preset.PROPORTIONAL_SLASHING_MULTIPLIER_BELLATRIX

    # Execution

    def is_merge_transition_complete(self, state: State) -> bool:
        """Whether the chain carries payloads already."""
        empty = self.scope.schema("ExecutionPayloadHeader").default()
        return bool(state.latest_execution_payload_header != empty)

    def is_execution_enabled(self, state: State, body: Body) -> bool:
        """Whether a block's payload counts: since the merge, or because it makes the merge."""
        empty = self.scope.schema("ExecutionPayload").default()
        return self.is_merge_transition_complete(state) or body.execution_payload != empty

    def process_block(self, state: State, block: BeaconBlock) -> None:
        body: Body = block.body
        self.process_block_header(state, block)
        if self.is_execution_enabled(state, body):
            self.process_execution_payload(state, body, self.engine)
        self.process_randao(state, body)
        self.process_eth1_data(state, body)
        self.process_operations(state, body)
        self.process_sync_aggregate(state, body.sync_aggregate)

    def process_execution_payload(self, state: State, body: Body, engine: ExecutionEngine) -> None:
        """Checks that a payload follows its parent, asks the engine about it, and keeps its header."""
        payload: ExecutionPayload = body.execution_payload
        self.verify_execution_payload(state, body)
        require(
            engine(self.get_new_payload_request(state, body)),
            lambda: f"The execution engine refuses payload {payload.block_hash.hex()} of slot {state.slot}.",
        )
        state.latest_execution_payload_header = self.compute_payload_header(payload)

    def verify_execution_payload(self, state: State, body: Body) -> None:
        """Raises InvalidTransition unless a payload has the parent, randomness and time of its slot."""
        payload: ExecutionPayload = body.execution_payload
        parent_hash = state.latest_execution_payload_header.block_hash
        require(
            payload.parent_hash == parent_hash or not self.is_merge_transition_complete(state),
            lambda: (
                f"A payload has parent {payload.parent_hash.hex()}, and the latest is {parent_hash.hex()}."
            ),
        )
        mix = self.get_randao_mix(state, self.get_current_epoch(state))
        require(
            payload.prev_randao == mix,
            lambda: f"A payload has randomness {payload.prev_randao.hex()}, and the state {mix.hex()}.",
        )
        time = self.compute_time_at_slot(state.genesis_time, state.slot)
        require(
            payload.timestamp == time,
            lambda: f"A payload of slot {state.slot} has time {payload.timestamp}, and the slot {time}.",
        )

    def get_new_payload_request(self, state: State, body: Body) -> NewPayloadRequest:
        """What the engine is asked."""
        return NewPayloadRequest(body.execution_payload)

    def compute_payload_header(self, payload: ExecutionPayload) -> ExecutionPayloadHeader:
        """The header with the same root as `payload`: a list's root under `<list>_root`."""
        lists = {f"{name}_root": name for name in ("transactions", "withdrawals") if name in payload.fields}
        schemas = self.scope.schema("ExecutionPayload").schemas
        roots = {root: schemas[name].hash_tree_root(getattr(payload, name)) for root, name in lists.items()}
        header: ExecutionPayloadHeader = convert_record(
            payload, self.records["ExecutionPayloadHeader"], **roots
        )
        return header

    def upgrade(self, pre: State) -> State:
        """A state of altair as a state of bellatrix (upgrade_to_bellatrix)."""
        header = self.scope.schema("ExecutionPayloadHeader").default()
        return self.carry_over(pre, latest_execution_payload_header=header)
