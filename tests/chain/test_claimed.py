"""What an endpoint claims of its network never lets what is old pass as young, or what is to come as past."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from anchor.chain.beacon.checkpoint import VerifiedCheckpoint, verify_block, verify_checkpoint
from anchor.chain.beacon.follow import Follower
from anchor.chain.beacon.networks import Network, identify
from anchor.chain.beacon.sync import Settings, get_network, sync_checkpoint
from anchor.errors import InvalidUpdate, StaleTrust, WrongNetwork
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import Fault, Reply, giving, running

CAPTURE = Capture(ALTAIR, 1)
PERIOD = 256
START = int(CAPTURE.data("genesis.json")["genesis_time"])
END = START + 16 * (4 + PERIOD + 1)
"""The first second at which the captured checkpoint, of epoch 4, is too old: an epoch has 16."""


def claiming(**changes: str) -> Network:
    """The captured network, as an endpoint may describe it."""
    genesis, spec = CAPTURE.data("genesis.json"), CAPTURE.data("config_spec.json")
    root = bytes.fromhex(genesis["genesis_validators_root"][2:])
    return identify(spec | changes, root, int(genesis["genesis_time"]))


def verify(network: Network, now: float) -> VerifiedCheckpoint:
    block = verify_block(network, CAPTURE.checkpoint, CAPTURE.block)
    return verify_checkpoint(network, CAPTURE.checkpoint, block, CAPTURE.state, now=now)


@pytest.mark.parametrize(
    ("lie", "end"),
    [
        ({}, END),
        ({"MIN_VALIDATOR_WITHDRAWABILITY_DELAY": "18446744073709551615"}, END),
        ({"CHURN_LIMIT_QUOTIENT": "1000000"}, END),
        ({"SECONDS_PER_SLOT": "7"}, START + 48 * (4 + PERIOD + 1)),  # the preset's own slot has six
        ({"SECONDS_PER_SLOT": "12"}, START + 48 * (4 + PERIOD + 1)),
    ],
    ids=str,
)
def test_an_old_checkpoint_is_old_whatever_is_claimed(lie: dict[str, str], end: int) -> None:
    network = claiming(**lie)
    with pytest.raises(StaleTrust):
        verify(network, end)
    verify(network, end - 1)


def test_a_claim_may_shorten_the_time() -> None:
    assert verify(claiming(), CAPTURE.now).period == PERIOD
    assert verify(claiming(MIN_VALIDATOR_WITHDRAWABILITY_DELAY="16"), CAPTURE.now).period == 16


def test_what_the_user_vouches_for_counts_as_it_is() -> None:
    network = replace(claiming(MIN_VALIDATOR_WITHDRAWABILITY_DELAY="500"), is_claimed=False)
    assert verify(network, CAPTURE.now).period == 500


def test_a_light_client_counts_likewise() -> None:
    lie = claiming(MIN_VALIDATOR_WITHDRAWABILITY_DELAY="1000000", SECONDS_PER_SLOT="1000000")
    follower = Follower(lie)
    followed = follower.start(CAPTURE.verified)
    with pytest.raises(StaleTrust, match="more than the 256 epochs"):
        follower.verify_floor(followed, CAPTURE.now + 33 * 10**6 + (PERIOD + 8) * 48, False)


def test_a_light_client_starts_from_nothing_that_is_to_come() -> None:
    follower = Follower(CAPTURE.network)
    followed = follower.start(CAPTURE.verified)
    start = (CAPTURE.network.genesis_time or 0) + 32 * 2
    follower.verify_floor(followed, start - 2, False)
    with pytest.raises(InvalidUpdate, match="of slot 32, and by this machine's clock it is slot 30"):
        follower.verify_floor(followed, start - 4, False)


def _spec(**changes: Any) -> Fault:
    spec = CAPTURE.data("config_spec.json") | changes
    return giving(Reply(json.dumps({"data": spec}).encode()))


@pytest.mark.parametrize(
    "lie",
    [{"SECONDS_PER_SLOT": "-1"}, {"PRESET_BASE": "../x"}, {"GENESIS_FORK_VERSION": "0x"},
     {"ALTAIR_FORK_EPOCH": None}, {"BLOB_SCHEDULE": [[]]}],
    ids=str,
)  # fmt: skip
async def test_a_bad_configuration_is_the_endpoints_fault(connect: MakeClient, lie: dict[str, Any]) -> None:
    async with (
        running(CAPTURE.answers, {"/eth/v1/config/spec": _spec(**lie)}) as bad,
        running(CAPTURE.answers) as good,
    ):
        with pytest.raises(WrongNetwork) as refusal:
            await get_network(connect(bad.url), Settings(), CAPTURE.now)
        assert refusal.value.exit_code == 1 and bad.url in refusal.value.what
        clients = [connect(bad.url), connect(good.url)]
        await sync_checkpoint(clients, CAPTURE.checkpoint, Settings(), CAPTURE.now)
