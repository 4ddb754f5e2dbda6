"""Real nodes, as they answered: who follows today's specification is synced from, the others are refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from anchor.chain.beacon.answers import Answer, to_block_bytes, to_state_bytes
from anchor.chain.beacon.checkpoint import verify_block, verify_checkpoint
from anchor.chain.beacon.follow import Follower, advance
from anchor.chain.beacon.networks import Network
from anchor.chain.beacon.sync import Settings, sync_checkpoint
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.errors import WrongNetwork
from tests.chain.captures import (
    ALTAIR,
    CAPELLA,
    DENEB,
    DENEB_DRIFTED,
    ELECTRA,
    ELECTRA_DRIFTED,
    FULU,
    Capture,
    read_files,
)
from tests.chain.conftest import MakeClient
from tests.chain.nodes import running

SOUND = [
    pytest.param(ALTAIR, 0, "altair", id="altair-0"),
    pytest.param(ALTAIR, 1, "altair", id="altair-1"),
    pytest.param(CAPELLA, 0, "capella", id="capella-0"),
    pytest.param(CAPELLA, 1, "capella", id="capella-1"),
    pytest.param(DENEB, 0, "deneb", id="deneb-mainnet-preset"),
    pytest.param(ELECTRA, 0, "electra", id="electra-0"),
    pytest.param(ELECTRA, 1, "electra", id="electra-1"),
    pytest.param(ELECTRA, 2, "electra", id="electra-2"),
]


@pytest.mark.parametrize(("name", "number", "fork"), SOUND)
async def test_a_real_node_is_synced_from(connect: MakeClient, name: str, number: int, fork: str) -> None:
    capture = Capture(name, number)
    async with running(capture.answers) as node:
        found = await sync_checkpoint([connect(node.url)], capture.checkpoint, Settings(), capture.now)
    assert found.block.fork.name == fork
    assert found.checkpoint == capture.checkpoint
    assert found.state_bytes == capture.state


@pytest.mark.parametrize("name", [DENEB_DRIFTED, ELECTRA_DRIFTED])
async def test_24_a_drifted_preset_is_refused_by_name(connect: MakeClient, name: str) -> None:
    capture = Capture(name)
    async with running(capture.answers) as node:
        with pytest.raises(WrongNetwork, match="MAX_BLOB_COMMITMENTS_PER_BLOCK is 16 there, and 4096 here"):
            await sync_checkpoint([connect(node.url)], capture.checkpoint, Settings(), capture.now)
    assert not [path for path in node.paths if "states" in path]


@pytest.mark.parametrize(("name", "number", "fork"), SOUND)
def test_json_and_ssz_tell_the_same(name: str, number: int, fork: str) -> None:
    capture = Capture(name, number)
    as_json = capture.answer("block_finalized.json")
    assert to_block_bytes(capture.network, as_json) == capture.block


@pytest.mark.parametrize("name", [ALTAIR, CAPELLA])
def test_a_state_in_json_is_the_same_state(name: str) -> None:
    """Such a node gives JSON to whoever states preferences."""
    capture = Capture(name, 1)
    body = capture.files["state_finalized_accept_q.bin"]
    answer = Answer("the state", body, "application/json")
    assert to_state_bytes(capture.network, answer) == capture.state


@pytest.mark.parametrize(("name", "number"), [(CAPELLA, 0), (CAPELLA, 1), (ALTAIR, 1)])
async def test_finality_is_followed_on_a_recorded_chain(connect: MakeClient, name: str, number: int) -> None:
    capture = Capture(name, number)
    follower = Follower(capture.network)
    followed = follower.start(capture.verified)
    async with running(capture.answers) as node:
        after = await advance(connect(node.url), follower, followed, capture.now)
    assert after.store.optimistic_header.beacon.slot > capture.verified.block.slot
    assert after.finalized.beacon.slot >= capture.verified.block.slot


async def test_a_later_checkpoint_is_reached_by_light_client(connect: MakeClient) -> None:
    first, second = Capture(ALTAIR, 0), Capture(ALTAIR, 1)
    follower = Follower(first.network)
    followed = follower.start(first.verified)
    async with running(second.answers) as node:
        after = await advance(connect(node.url), follower, followed, second.now)
    final = follower.to_checkpoint(after.finalized)
    told = [first.checkpoint, second.checkpoint]
    assert final in told


def test_a_fulu_state_of_the_executable_spec() -> None:
    files: Mapping[str, bytes] = read_files(FULU)
    names = ("ALTAIR", "BELLATRIX", "CAPELLA", "DENEB", "ELECTRA", "FULU")
    network = Network("fulu", MINIMAL, MINIMAL_CONFIG.replace(**{f"{name}_FORK_EPOCH": 0 for name in names}))
    root = "49f2bd274832f493daae2a4ab69326727da587ff760319eb148929cf9a56faf6"
    checkpoint = Checkpoint(epoch=3, root=bytes.fromhex(root))
    block = verify_block(network, checkpoint, files[f"blocks/0024-{root}.ssz"])
    found = verify_checkpoint(network, checkpoint, block, files["state_finalized.ssz"], now=6.0 * 40)
    assert (found.period, found.block.fork.name) == (256, "fulu")
