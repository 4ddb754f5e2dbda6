"""Whatever happens to nodes and links: no two of them hold conflicting checkpoints for final."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anchor.node.chain import Chain
from anchor.node.network.simulator import Links, Simulation
from tests.node.network.tools import Equivocator, make_simulation

NODES = 4
SETTINGS: dict[str, Any] = {
    "deadline": None,
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),  # a run takes seconds: nothing is shrunk
    "suppress_health_check": (HealthCheck.too_slow,),
}
SUBSETS = st.sets(st.integers(0, NODES - 1), min_size=1, max_size=NODES - 1)
ACTIONS = st.one_of(
    st.tuples(st.just("partition"), SUBSETS),
    st.tuples(st.just("heal"), st.none()),
    st.tuples(st.just("kill"), st.integers(0, NODES - 1)),
    st.tuples(st.just("restart"), st.integers(0, NODES - 1)),
    st.tuples(st.just("loss"), st.sampled_from((0.0, 0.2, 0.6))),
    st.tuples(st.just("skew"), st.tuples(st.integers(0, NODES - 1), st.integers(-3000, 3000))),
)
SCHEDULES = st.lists(st.tuples(ACTIONS, st.integers(1, 24)), min_size=3, max_size=8)
"""What is done, and for how many slots then nothing."""


def _do(simulation: Simulation, action: tuple[str, object]) -> None:
    match action:
        case "partition", set(group):
            simulation.partition(sorted(group), sorted(set(range(NODES)) - group))
        case "heal", _:
            simulation.heal()
        case "kill", int(number):
            simulation.kill(number)
        case "restart", int(number) if simulation.nodes[number].engine is None:
            simulation.restart(number)
        case "loss", float(loss):
            simulation.links.loss = loss
        case "skew", (int(number), int(skew)):
            simulation.nodes[number].skew_ms = skew


def _require_one_history(simulation: Simulation) -> int:
    """Every final checkpoint of every node is on every node's chain that reaches it; returns the newest."""
    chains = {node.number: Chain(node.open_store()) for node in simulation.nodes}
    newest = 0
    for node in simulation.running:
        assert node.engine is not None
        final = node.engine.finalized
        newest = max(newest, final.epoch)
        for other in simulation.running:
            assert other.engine is not None
            if final.epoch and other.engine.finalized.epoch >= final.epoch:
                assert chains[other.number].get_checkpoint(final.epoch).root == final.root
    return newest


def _run(schedule: list[tuple[tuple[str, object], int]], seed: int, equivocator: int | None) -> None:
    with TemporaryDirectory() as folder:
        simulation = make_simulation(Path(folder), NODES, 16, seed=seed, links=Links(ticks=4))
        if equivocator is not None:  # a quarter of the stake
            node = simulation.nodes[equivocator]
            node.tamper = Equivocator(node, simulation)
        simulation.run(12)
        newest = 0
        for action, slots in schedule:
            _do(simulation, action)
            simulation.run(slots)
            seen = _require_one_history(simulation)
            newest = max(newest, seen)
        for node in simulation.nodes:
            node.stop()


@settings(max_examples=4, derandomize=True, **SETTINGS)
@given(SCHEDULES, st.integers(0, 1000), st.one_of(st.none(), st.integers(0, NODES - 1)))
def test_finality_never_conflicts(
    schedule: list[tuple[tuple[str, object], int]], seed: int, equivocator: int | None
) -> None:
    _run(schedule, seed, equivocator)


@pytest.mark.slow
@settings(max_examples=60, **SETTINGS)
@given(SCHEDULES, st.integers(0, 1000), st.one_of(st.none(), st.integers(0, NODES - 1)))
def test_finality_never_conflicts_in_many_schedules(
    schedule: list[tuple[tuple[str, object], int]], seed: int, equivocator: int | None
) -> None:
    _run(schedule, seed, equivocator)
