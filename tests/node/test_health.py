"""Health, and the log: words that say what is wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from anchor.consensus.presets import LEDGER
from anchor.node.folder import open_reader
from anchor.node.health import PATIENCE_EPOCHS, judge_health
from anchor.node.logs import set_up_logs, tell, warn
from anchor.params import WALL_CLOCK


def test_a_logical_clock_does_not_age(ledger: tuple[Path, bytes]) -> None:
    with open_reader(ledger[0]) as chain:
        health = judge_health(chain.get_status(), chain.genesis, chain.genesis.genesis_time + 10**9)
    assert health.is_good
    assert health.age == 10**9


@pytest.mark.parametrize(
    ("epochs_late", "is_good", "words"),
    [
        (0, True, "Well"),
        (PATIENCE_EPOCHS, True, "Well"),
        (PATIENCE_EPOCHS + 1, False, "Nothing became final for 5 epochs"),
        (-2, False, "Set the clock"),
    ],
)
def test_with_a_wall_clock_finality_must_be_young(
    ledger: tuple[Path, bytes], epochs_late: int, is_good: bool, words: str
) -> None:
    with open_reader(ledger[0]) as chain:
        status = chain.get_status()
        genesis = chain.genesis.replace(clock=WALL_CLOCK, seconds_per_slot=6)
    epoch = 6 * LEDGER.SLOTS_PER_EPOCH
    now = genesis.genesis_time + (status.finalized.epoch + epochs_late) * epoch
    health = judge_health(status, genesis, now)
    assert health.is_good is is_good
    assert words in health.words


def test_a_log_for_programs_and_one_for_people() -> None:
    stream = io.StringIO()
    set_up_logs(as_json=True, stream=stream)
    tell("It is served.", port=1)
    line = json.loads(stream.getvalue())
    assert (line["level"], line["message"], line["port"]) == ("info", "It is served.", 1)
    stream = io.StringIO()
    set_up_logs(as_json=False, stream=stream)
    warn("A name\x1b[31m of evil.\nsecond")
    assert stream.getvalue().endswith("  A name\\x1b[31m of evil.\\nsecond\n")
