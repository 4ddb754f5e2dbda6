"""Checks of what a full node collects for light clients (tests/formats/light_client: data_collection)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anchor.consensus.forks.schedule import ForkSchedule
from anchor.consensus.light_client.collect import Collector
from anchor.consensus.presets import Config, get_config, get_preset
from anchor.consensus.vectors.basics import get_bls
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare
from anchor.consensus.vectors.light_client import get_forks_by_digest, to_bytes
from anchor.consensus.vectors.ssz import get_scope
from anchor.params import GENESIS_EPOCH
from anchor.types import Root

State = Any
"""A BeaconState of any fork."""


class _Node:
    """A full node on the case's network: every state, and what is collected."""

    def __init__(self, case: Case) -> None:
        self.case = case
        preset = get_preset(case.preset)
        config = Config.from_mapping(case.read_yaml("config"), get_config(case.preset))
        self.schedule = ForkSchedule(preset, config, get_bls())
        self.collector = Collector(preset, config, self.schedule.get_fork_at_slot)
        scope = self.schedule.get_fork_at_slot(0).scope
        state = scope.schema("BeaconState").decode(case.read_ssz("initial_state"))
        self.forks = get_forks_by_digest(config, state.genesis_validators_root)
        self.states: dict[Root, State] = {}
        block = scope.schema("SignedBeaconBlock").default()
        block = block.replace(message=block.message.replace(state_root=scope.hash_tree_root(state)))
        self.add(block, state)
        self.finalized = state.finalized_checkpoint
        self.collector.on_finalized(next(iter(self.states)))

    def read(self, given: Mapping[str, Any], record: str) -> Any:
        fork = self.forks[to_bytes(given["fork_digest"])]
        return get_scope(self.case.preset, fork).schema(record).decode(self.case.read_ssz(given["data"]))

    def add(self, block: Any, state: State) -> None:
        fork = self.schedule.get_fork_at_slot(block.message.slot)
        self.states[fork.hash_tree_root(block.message)] = state
        self.collector.on_block(block, state)

    def on_block(self, given: Mapping[str, Any]) -> None:
        block = self.read(given, "SignedBeaconBlock")
        pre = self.states[block.message.parent_root]
        self.add(block, self.schedule.state_transition(pre, block))

    def on_head(self, root: Root) -> None:
        self.collector.on_head(root)
        finalized = self.states[root].finalized_checkpoint
        if finalized.epoch > max(self.finalized.epoch, GENESIS_EPOCH):
            self.finalized = finalized
            self.collector.on_finalized(finalized.root)

    def check(self, checks: Mapping[str, Any]) -> Iterator[Difference | None]:
        finalized = {"epoch": self.finalized.epoch, "root": f"0x{self.finalized.root.hex()}"}
        yield compare(checks["latest_finalized_checkpoint"], finalized, "latest_finalized_checkpoint")
        collector = self.collector
        for entry in checks["bootstraps"]:
            got = collector.get_light_client_bootstrap(to_bytes(entry["block_root"]))
            yield self.compare(entry, "bootstrap", "LightClientBootstrap", got)
        for entry in checks["best_updates"]:
            got = collector.get_light_client_update(entry["period"])
            yield self.compare(entry, "update", "LightClientUpdate", got)
        finality = collector.get_light_client_finality_update()
        yield self.compare(checks, "latest_finality_update", "LightClientFinalityUpdate", finality)
        optimistic = collector.get_light_client_optimistic_update()
        yield self.compare(checks, "latest_optimistic_update", "LightClientOptimisticUpdate", optimistic)

    def compare(self, checks: Mapping[str, Any], name: str, record: str, got: Any) -> Difference | None:
        """`got` is the record that `checks` has under `name`, or None where it has none."""
        expected = self.read(checks[name], record) if name in checks else None
        return compare(expected, got, name)


def check_data_collection(case: Case) -> Difference | None:
    """Whatever block becomes the head, all that light clients may ask for is what the case says."""
    node = _Node(case)
    for number, step in enumerate(case.read_yaml("steps")):
        if "new_block" in step:
            node.on_block(step["new_block"])
            continue
        node.on_head(to_bytes(step["new_head"]["head_block_root"]))
        for difference in node.check(step["new_head"]["checks"]):
            if difference is not None:
                return Difference(f"steps[{number}].{difference.path}", difference.expected, difference.got)
    return None
