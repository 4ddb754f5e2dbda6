"""Devnets of real processes: every scenario holds, a devnet sleeps and wakes, and no kill loses anything."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchor.cli.main import main
from anchor.node.devnet import claims, processes, using
from anchor.node.devnet.control import Control
from anchor.node.devnet.sight import get_answering, list_validators, look

SCENARIOS = sorted((Path(__file__).parents[3] / "devnet" / "scenarios").glob("*.yaml"))
KILLS = 50


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a devnet can be; whatever happens, none of its processes outlives the test."""
    yield tmp_path / "devnet"
    if (tmp_path / "devnet").exists():
        Control(tmp_path / "devnet").stop()


@pytest.mark.slow
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_holds(folder: Path, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["devnet", "run", str(path), "--folder", str(folder), "--json"])
    result = json.loads(capsys.readouterr().out)["result"]
    assert (code, result["holds"]) == (0, True), result["steps"][-1]


@pytest.mark.slow
def test_a_devnet_goes_on_where_it_was(folder: Path) -> None:
    assert main(["devnet", "up", "--folder", str(folder), "--nodes", "3", "--validators", "12"]) == 0
    control = Control(folder)
    claims.finalizes(control.plan, 60)
    control.stop()
    assert not get_answering(look(control.plan))
    before = control.plan.behind_ms
    time.sleep(30)  # the night
    control.up()
    assert control.plan.behind_ms - before > 25_000
    slot = max(sight.slot for sight in look(control.plan))
    claims.finalizes(control.plan, 60)
    assert max(sight.slot for sight in look(control.plan)) < slot + 120
    assert "Finality has stopped" not in "".join(path.read_text() for path in folder.glob("*.log"))


@pytest.mark.slow
def test_a_devnet_that_is_removed_ends(tmp_path: Path) -> None:
    folder = tmp_path / "devnet"
    assert main(["devnet", "up", "--folder", str(folder), "--nodes", "2", "--validators", "4"]) == 0
    control = Control(folder)
    try:
        while folder.exists():
            shutil.rmtree(folder, ignore_errors=True)  # a node may be writing
        deadline = time.monotonic() + 20
        while any(map(processes.is_alive, control.plan.members)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        processes.stop(control.plan.members)
    assert not folder.exists()


@pytest.mark.soak
def test_fifty_kills_lose_nothing(folder: Path) -> None:
    """Any node, at any moment: what was final stays, finality goes on, nobody signs against itself."""
    assert main(["devnet", "up", "--folder", str(folder)]) == 0
    control, chance = Control(folder), random.Random(7)
    claims.finalizes(control.plan, 60)
    published = []
    for number in range(KILLS):
        victim = chance.choice(control.plan.members).number
        time.sleep(chance.uniform(0, 2))
        before = claims.get_final_epoch(control.plan)
        control.kill(victim)
        if number % 10 == 0:
            using.publish(control, victim % 4 + 1, "acme/tiny", str(number))
            published.append(str(number))
        claims.finalizes(control.plan, 60)
        control.start(victim)
        assert claims.get_final_epoch(control.plan) > before
    claims.agree(control.plan, 60)
    for version in published:
        for node in range(1, 5):
            using.verify(control, node, "acme/tiny", version)
    registry = list_validators(control.plan.members[0])
    assert not any(validator["slashed"] for validator in registry)
