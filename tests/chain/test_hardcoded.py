"""Rule 22 where branches of beacon chains are adopted: none that conflicts with a checkpoint in the code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from anchor.chain.beacon.answers import Answer, read_header
from anchor.chain.beacon.checkpoint import verify_block, verify_checkpoint
from anchor.chain.beacon.follow import Follower, advance
from anchor.chain.beacon.networks import Network
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.consensus.hardcoded import Table
from anchor.errors import InvalidCheckpoint, MalformedAnswer
from anchor.merkle.json import to_json
from anchor.merkle.scope import hash_tree_root, schema_of
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import MISSING, Reply, running
from tests.consensus.light_clients import BLS, NETWORK, Made, World

CAPTURE = Capture(ALTAIR, 1)
EPOCH = 8
FORGED = b"\x66" * 32


def make_table(network_id: bytes, **entries: bytes) -> Table:
    return Table("lab", network_id, {int(name[1:]): root for name, root in entries.items()})


# A state


def get_past(epoch: int) -> bytes:
    """The captured chain's block at the start of an epoch, as its final state names it."""
    return bytes(CAPTURE.verified.state.block_roots[epoch * EPOCH])


@pytest.mark.parametrize("epoch", [0, 1, 3, 4])
def test_a_states_own_past_is_held_to_the_code(epoch: int) -> None:
    """The trusted checkpoint is of epoch 4: a conflict before it shows in the state's block roots."""
    root = CAPTURE.checkpoint.root if epoch == 4 else get_past(epoch)
    block = verify_block(CAPTURE.network, CAPTURE.checkpoint, CAPTURE.block)
    for known, holds in ((root, True), (FORGED, False)):
        table = Table("lab", CAPTURE.network.genesis_validators_root or b"", {epoch: known})

        def verify(table: Table = table) -> Any:
            return verify_checkpoint(
                CAPTURE.network, CAPTURE.checkpoint, block, CAPTURE.state, now=CAPTURE.now, tables=[table]
            )

        if holds:
            verify()
        else:
            with pytest.raises(InvalidCheckpoint, match=f"at {epoch}, where the checkpoint of lab"):
                verify()


# A light client


class Chain:
    """A chain of headers over three epochs, and the update that makes its last one final."""

    def __init__(self, world: World, skipped: Sequence[int] = ()) -> None:
        self.world = world
        self.first = world.make(EPOCH)
        self.blocks = [self.first]
        for slot in range(EPOCH + 1, 4 * EPOCH + 1):
            if slot not in skipped:
                self.blocks.append(world.make(slot, parent=self.blocks[-1]))
        self.final = self.blocks[-1]
        self.update = world.update(world.make(6 * EPOCH, self.final), self.final)

    def get(self, slot: int) -> Made:
        return next(block for block in self.blocks if block.slot == slot)

    def headers(self) -> list[BeaconBlockHeader]:
        return [block.header.beacon for block in reversed(self.blocks[:-1])]


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain(World(electra=99))


def follow(chain: Chain, **entries: bytes) -> tuple[Follower, Any]:
    network = Network("lab", chain.world.preset, chain.world.config, NETWORK, 0)
    follower = Follower(network, BLS, [make_table(NETWORK, **entries)])
    deriver = chain.first.deriver
    bootstrap = deriver.create_light_client_bootstrap(chain.first.header, chain.first.state)
    start = follower.start_from_bootstrap(Checkpoint(epoch=1, root=chain.first.root), bootstrap)
    return follower, start


def test_a_light_client_starts_from_nothing_that_the_code_contradicts(chain: Chain) -> None:
    follow(chain, e1=chain.first.root)
    with pytest.raises(InvalidCheckpoint, match="at 1, where the checkpoint of lab"):
        follow(chain, e1=FORGED)


def test_what_is_final_passes_no_checkpoint_by(chain: Chain) -> None:
    """The signatures are right, and of everyone. The branch is shown, or it is not adopted."""
    follower, start = follow(chain, e3=chain.get(3 * EPOCH).root)
    with pytest.raises(InvalidCheckpoint, match=r"slot 32, passes epoch 3 by") as refusal:
        follower.apply(start, chain.update, 7 * EPOCH)
    assert f"--trust 0x{chain.get(3 * EPOCH).root.hex()}:3" in refusal.value.fix
    after = follower.apply(start, chain.update, 7 * EPOCH, chain.headers())
    assert after.finalized.beacon.slot == chain.final.slot
    for cut in (chain.headers()[: EPOCH - 1], chain.headers()[1:], []):
        with pytest.raises(InvalidCheckpoint, match="passes epoch 3 by"):
            follower.apply(start, chain.update, 7 * EPOCH, cut)


def test_a_shown_conflict_is_told(chain: Chain) -> None:
    follower, start = follow(chain, e3=FORGED)
    with pytest.raises(InvalidCheckpoint, match="at 3, where the checkpoint of lab"):
        follower.apply(start, chain.update, 7 * EPOCH, chain.headers())


def test_the_newest_on_the_way_counts(chain: Chain) -> None:
    follower, start = follow(chain, e2=FORGED, e3=chain.get(3 * EPOCH).root)
    assert follower.apply(start, chain.update, 7 * EPOCH, chain.headers()[:EPOCH]) is not start


def test_an_empty_first_slot_is_the_block_before(chain: Chain) -> None:
    gaps = Chain(chain.world, skipped=[3 * EPOCH, 3 * EPOCH - 1])
    follower, start = follow(gaps, e3=gaps.get(3 * EPOCH - 2).root)
    assert follower.apply(start, gaps.update, 7 * EPOCH, gaps.headers()) is not start
    held = Chain(chain.world, skipped=range(EPOCH + 1, 4 * EPOCH))
    follower, start = follow(held, e3=held.first.root)  # the block that was trusted stands there too
    assert follower.apply(start, held.update, 7 * EPOCH) is not start


def serve(chain: Chain, *, forging: int | None = None) -> Any:
    """A node that has the update, and headers by root; the one of slot `forging` is another."""
    scope = chain.world.get_scope(6 * EPOCH)
    deriver = chain.final.deriver
    newest = to_json(
        scope.schema("LightClientFinalityUpdate"), deriver.create_light_client_finality_update(chain.update)
    )
    whole = to_json(scope.schema("LightClientUpdate"), chain.update)

    def answers(path: str, headers: dict[str, str]) -> Reply:
        if path.endswith("finality_update"):
            return Reply(json.dumps({"data": newest}).encode())
        if "light_client/updates" in path:
            return Reply(json.dumps([{"data": whole}]).encode())
        for block in chain.blocks:
            header = block.header.beacon
            if path == f"/eth/v1/beacon/headers/0x{hash_tree_root(header).hex()}":
                if header.slot == forging:
                    header = header.replace(state_root=FORGED)
                message = to_json(schema_of(BeaconBlockHeader), header)
                return Reply(json.dumps({"data": {"header": {"message": message}}}).encode())
        return MISSING

    return answers


async def test_the_driver_asks_for_the_headers_between(connect: MakeClient, chain: Chain) -> None:
    follower, start = follow(chain, e3=chain.get(3 * EPOCH).root)
    now = 7.0 * EPOCH * chain.world.config.seconds_per_slot
    async with running(serve(chain)) as node:
        after = await advance(connect(node.url), follower, start, now)
        asked = [path for path in node.paths if "headers/" in path]
    assert after.finalized.beacon.slot == chain.final.slot
    assert len(asked) == EPOCH


async def test_a_forged_header_between_is_seen_at_once(connect: MakeClient, chain: Chain) -> None:
    follower, start = follow(chain, e3=chain.get(3 * EPOCH).root)
    now = 7.0 * EPOCH * chain.world.config.seconds_per_slot
    async with running(serve(chain, forging=4 * EPOCH - 2)) as node:
        with pytest.raises(InvalidCheckpoint, match="passes epoch 3 by"):
            await advance(connect(node.url), follower, start, now)
        assert len([path for path in node.paths if "headers/" in path]) == 2


@pytest.mark.parametrize("data", ["{}", "[]", '{"header":{}}', '{"header":{"message":{"slot":"1"}}}'])
def test_what_is_no_header(data: str) -> None:
    with pytest.raises(MalformedAnswer):
        read_header(Answer("a header", f'{{"data":{data}}}'.encode(), "application/json"))
