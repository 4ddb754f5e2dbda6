"""Several engines in one process: they finalise, part, come back, and agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.network.tools import make_simulation


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills are simulated, so nothing has to reach the disk."""
    monkeypatch.setattr("anchor.node.sqlite.PRAGMAS", ("journal_mode = WAL", "synchronous = OFF"))


def test_four_nodes_finalise(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path, signs=True)
    simulation.run(8 * 6)
    engines = [node.engine for node in simulation.running]
    assert len({engine.head for engine in engines if engine}) == 1
    assert [engine.finalized.epoch for engine in engines if engine] == [3] * 4
    assert not any(node.blamed for node in simulation.nodes)
