"""Ten thousand epochs of virtual time on several nodes: what grows is what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchor.node.chain import Chain
from anchor.params import FAR_FUTURE_EPOCH
from tests.node.network.churn import VALIDATORS, Life

HELD = 1500
"""Blocks, states, votes and all else: what an engine of a network that goes on keeps at most."""


def _require_well(life: Life) -> None:
    """Everything that was done is final on every node, and nothing waits."""
    life.simulation.run(0.5)  # what was just proposed arrives
    engines = [node.engine for node in life.simulation.running if node.engine is not None]
    assert len(engines) == len(life.simulation.nodes)
    assert len({engine.head for engine in engines}) == 1
    assert not any(node.blamed for node in life.simulation.nodes)
    for node, engine in zip(life.simulation.nodes, engines, strict=True):
        assert engine.finalized.epoch >= life.epoch - 3
        assert node.store is not None
        assert (node.store.get_side_blocks(), node.store.get_pending_entries()) == ([], [])
        chain = Chain(node.store)
        status, state = chain.get_status(), chain.get_head().state
        assert status.final_entries == status.entries == 3 + life.published + life.admitted
        assert len(state.versions) == life.published
        assert len(state.validators) == VALIDATORS + life.admitted
        leaving = state.validators.column("exit_epoch") != FAR_FUTURE_EPOCH
        assert int(leaving.sum()) == life.left
    assert all(sample.held <= HELD for sample in life.samples), life.samples


@pytest.mark.slow
def test_a_network_lives_for_many_epochs(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.live(95, sample=5)
    _require_well(life)
    assert (life.admitted, life.left) == (2, 2)


@pytest.mark.soak
def test_a_network_lives_for_ten_thousand_epochs(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.live(10_005, sample=200)
    _require_well(life)
    early, late = life.samples[4], life.samples[-1]
    print(*life.samples, sep="\n")
    # Memory: the registry and the lists of what was recorded grow, by kilobytes; nothing else does.
    assert late.resident - early.resident < 64 << 20
    # Disk: every epoch has eight blocks, of about two kilobytes each; a state is kept every 32 epochs.
    an_epoch = (late.stored - early.stored) / (late.epoch - early.epoch)
    assert an_epoch < 32 << 10
    halves = [life.samples[len(life.samples) // 2].stored - early.stored, late.stored - early.stored]
    assert halves[1] < 2.6 * halves[0], "it grows evenly"
