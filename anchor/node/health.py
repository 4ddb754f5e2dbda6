"""Whether a ledger is as it should be: on a network that runs by the wall clock, finality must be young."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.presets import LEDGER
from anchor.node.status import Status
from anchor.params import WALL_CLOCK

PATIENCE_EPOCHS: Final = 4
"""Epochs behind the clock at which finality is late; two are usual."""


@dataclass(frozen=True, slots=True)
class Health:
    """A verdict, and why in words."""

    is_good: bool
    words: str
    age: int
    """Seconds since the final checkpoint's epoch began, or since the newest block with a logical clock."""


def judge_health(status: Status, genesis: Genesis, now: int) -> Health:
    """How the ledger stands at the Unix time `now`."""
    if genesis.clock != WALL_CLOCK:
        age = max(now - status.timestamp, 0)
        return Health(True, "Well: blocks are made when there is something to record.", age)
    epoch = genesis.seconds_per_slot * LEDGER.SLOTS_PER_EPOCH
    age = now - genesis.genesis_time - status.finalized.epoch * epoch
    if now < genesis.genesis_time and not status.finalized.epoch:
        return Health(True, f"The network begins in {genesis.genesis_time - now} s.", 0)
    if age < -epoch:
        return Health(
            False, f"This machine's clock is {-age} s behind what is final already. Set the clock.", age
        )
    if age > PATIENCE_EPOCHS * epoch:
        words = (
            f"Nothing became final for {age // epoch} epochs ({age} s). See that two thirds of stake are up."
        )
        return Health(False, words, age)
    return Health(True, f"Well: the final epoch began {max(age, 0)} s ago.", age)
