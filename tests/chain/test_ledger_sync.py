"""A ledger is synced from by the same path as any beacon chain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anchor.chain.beacon.checkpoint import VerifiedCheckpoint, verify_pair
from anchor.chain.beacon.networks import from_config
from anchor.chain.beacon.sync import Settings, sync_checkpoint
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import StaleTrust
from anchor.node.clock import ManualClock
from anchor.node.synced import SyncedView
from tests.chain.conftest import MakeClient
from tests.chain.nodes import serving_view
from tests.consensus.ledgers import Chain

EPOCH = 8


@pytest.fixture(scope="module")
def ledger() -> Iterator[Chain]:
    """Two epochs of a ledger whose slots pass when blocks are made."""
    chain = Chain()
    for _ in range(2 * EPOCH):
        chain.add_block()
    yield chain


def verify(chain: Chain, now: float, *, accept_expired: bool = False) -> VerifiedCheckpoint:
    fork = chain.ledger
    spec = {
        key: f"0x{value.hex()}" if isinstance(value, bytes) else value for key, value in fork.config.items()
    }
    network = from_config(spec)
    checkpoint = Checkpoint(epoch=2, root=fork.hash_tree_root(chain.blocks[-1].message))
    block, state = fork.scope.encode(chain.blocks[-1]), fork.scope.encode(chain.state)
    return verify_pair(network, checkpoint, block, state, now=now, accept_expired=accept_expired)


async def test_a_ledger_is_synced_from(ledger: Chain, connect: MakeClient) -> None:
    now = ledger.state.timestamp + 60.0
    own = verify(ledger, now)
    async with serving_view(SyncedView([own]), ManualClock(int(now))) as (_, url):
        found = await sync_checkpoint([connect(url)], own.checkpoint, Settings(), now)
    assert found.block.fork.name == "ledger"
    assert found.state_bytes == own.state_bytes


def test_its_health_is_judged_by_its_timestamp(ledger: Chain) -> None:
    at, second = ledger.state.timestamp, ledger.state.network.seconds_per_slot
    view = SyncedView([verify(ledger, at)])
    assert view.get_standing(at) == (16, 0, True)
    assert view.get_standing(at + 9 * EPOCH * second) == (16, 72, False)


def test_its_age_is_judged_by_its_timestamp(ledger: Chain) -> None:
    """Its slots count for their nominal length, however many have passed."""
    period = verify(ledger, ledger.state.timestamp).period
    end = ledger.state.timestamp + period * EPOCH * ledger.state.network.seconds_per_slot
    assert not verify(ledger, end - 1).is_expired
    with pytest.raises(StaleTrust, match="seconds ago"):
        verify(ledger, end)
    assert verify(ledger, end, accept_expired=True).is_expired
