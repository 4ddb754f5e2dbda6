"""Reported failures that a checkpoint sync must get right; each test begins with its case's number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from anchor.chain.beacon.answers import (
    Answer,
    to_block_bytes,
    to_light_client_record,
    to_light_client_updates,
    to_state_bytes,
)
from anchor.chain.beacon.checkpoint import verify_block, verify_checkpoint, verify_pair
from anchor.chain.beacon.follow import Follower, advance, get_bootstrap
from anchor.chain.beacon.http import Client
from anchor.chain.beacon.networks import NETWORKS, Network, find_network, verify_genesis, verify_spec
from anchor.chain.beacon.sync import Settings, find_skew, get_network, sync_checkpoint
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.fork_epochs import compute_fork_digest
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms
from anchor.consensus.presets import MAINNET, MAINNET_CONFIG
from anchor.consensus.weak_subjectivity import compute_weak_subjectivity_period
from anchor.errors import (
    InvalidCheckpoint,
    InvalidUpdate,
    MalformedAnswer,
    MalformedSSZ,
    NotServed,
    StaleTrust,
    WrongNetwork,
)
from anchor.merkle.json import to_json
from tests.chain.captures import ALTAIR, CAPELLA, ELECTRA, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import MISSING, SSZ, Reply, giving, labelled, running

STATES, BLOCKS = "/eth/v2/debug/beacon/states/", "/eth/v2/beacon/blocks/"
CHILDREN = "/eth/v1/beacon/headers?parent_root="


@pytest.fixture
def capture() -> Capture:
    return Capture(ALTAIR, 1)


def later(capture: Capture, epochs: int = 1) -> Checkpoint:
    """The captured block as the checkpoint of a later epoch, whose first slot would be empty."""
    return Checkpoint(epoch=capture.checkpoint.epoch + epochs, root=capture.checkpoint.root)


def child(slot: int, *, canonical: bool = True) -> Reply:
    header = {"message": {"slot": str(slot)}, "signature": "0x"}
    data = f'{{"data":[{{"canonical":{str(canonical).lower()},"header":{header}}}]}}'
    return Reply(data.replace("'", '"').encode())


def advanced_state(capture: Capture, slots: int) -> bytes:
    """The captured state after empty slots, as a node makes it that is asked beyond its head."""
    fork = capture.verified.block.fork
    state = capture.verified.state.copy()
    fork.process_slots(state, state.slot + slots)
    return bytes(fork.scope.encode(state))


async def sync(
    client: Client, capture: Capture, checkpoint: Checkpoint | None = None, **settings: Any
) -> Any:
    known = checkpoint or capture.checkpoint
    return await sync_checkpoint([client], known, Settings(**settings), capture.now)


async def test_01_a_skipped_boundary_keeps_the_checkpoints_epoch(
    connect: MakeClient, capture: Capture
) -> None:
    async with running(capture.answers, {CHILDREN: giving(child(41))}) as node:
        found = await sync(connect(node.url), capture, later(capture))
    assert found.checkpoint.epoch == capture.checkpoint.epoch + 1
    assert found.block.slot == 8 * found.checkpoint.epoch - 8


@pytest.mark.parametrize(
    ("slot", "canonical", "holds"),
    [(33, True, False), (40, True, False), (40, False, True), (41, True, True)],
)
async def test_01_a_block_between_refutes_it(
    connect: MakeClient, capture: Capture, slot: int, canonical: bool, holds: bool
) -> None:
    async with running(capture.answers, {CHILDREN: giving(child(slot, canonical=canonical))}) as node:
        if holds:
            assert (await sync(connect(node.url), capture, later(capture))).block.slot == 32
        else:
            with pytest.raises(InvalidCheckpoint, match=f"one of slot {slot} on top"):
                await sync(connect(node.url), capture, later(capture))


def test_01_a_block_after_the_epochs_start_is_refused(capture: Capture) -> None:
    with pytest.raises(InvalidCheckpoint, match="slot 32, after the start of epoch 3 at slot 24"):
        verify_block(capture.network, later(capture, -1), capture.block)


def test_01_an_epoch_in_the_future_is_refused(capture: Capture) -> None:
    block = verify_block(capture.network, later(capture, 9), capture.block)
    with pytest.raises(InvalidCheckpoint, match="the epoch that you were given"):
        verify_checkpoint(capture.network, later(capture, 9), block, capture.state, now=capture.now)


async def test_03_nothing_is_asked_by_slot(connect: MakeClient, capture: Capture) -> None:
    """So an endpoint that refuses the empty first slot of an epoch is no hindrance."""
    async with running(capture.answers, {CHILDREN: giving(MISSING)}) as node:
        await sync(connect(node.url), capture, later(capture))
    asked = [path.rpartition("/")[2] for path in node.paths if STATES in path or BLOCKS in path]
    assert asked and not [name for name in asked if name.isdecimal()]


async def test_03_an_endpoint_that_lacks_it_gives_way(connect: MakeClient, capture: Capture) -> None:
    error = Reply(b'{"code":500,"message":"block not found"}', status=500)
    notes: list[str] = []
    async with running(capture.answers, {BLOCKS: giving(error)}) as bad, running(capture.answers) as good:
        clients = [connect(bad.url), connect(good.url)]
        await sync_checkpoint(clients, capture.checkpoint, Settings(note=notes.append), capture.now)
    assert "HTTP 500, 'block not found'" in notes[0]


@pytest.mark.parametrize("slots", [1, 8, 20])
async def test_04_an_advanced_state_is_never_accepted(
    connect: MakeClient, capture: Capture, slots: int
) -> None:
    forged = Reply(advanced_state(capture, slots), SSZ)
    async with running(capture.answers, {STATES: giving(forged)}) as bad:
        with pytest.raises(InvalidCheckpoint, match="advanced from its block's slot 32 over empty slots"):
            await sync(connect(bad.url), capture)
        async with running(capture.answers) as good:
            clients = [connect(bad.url), connect(good.url)]
            found = await sync_checkpoint(clients, capture.checkpoint, Settings(), capture.now)
    assert found.state_bytes == capture.state


def test_04_one_changed_byte_is_another_state(capture: Capture) -> None:
    block = verify_block(capture.network, capture.checkpoint, capture.block)
    for place in (200, 5000, len(capture.state) - 1):
        forged = bytearray(capture.state)
        forged[place] ^= 1
        with pytest.raises((InvalidCheckpoint, MalformedSSZ)):
            verify_checkpoint(capture.network, capture.checkpoint, block, bytes(forged), now=capture.now)


async def test_06_a_wrong_label_is_told(connect: MakeClient) -> None:
    capture = Capture(ELECTRA)
    for start in (STATES, BLOCKS):
        async with running(capture.answers, {start: labelled("deneb")}) as node:
            with pytest.raises(MalformedAnswer, match="labelled 'deneb', and is of electra"):
                await sync(connect(node.url), capture)


async def test_06_an_unknown_fork_is_named(connect: MakeClient, capture: Capture) -> None:
    unknown = bytearray(capture.state)
    unknown[52:56] = bytes.fromhex("09000001")
    async with running(capture.answers, {STATES: giving(Reply(bytes(unknown), SSZ))}) as node:
        with pytest.raises(WrongNetwork, match="unknown fork, version 0x09000001"):
            await sync(connect(node.url), capture)


def test_06_a_state_of_another_fork_than_scheduled() -> None:
    """An electra state, where the configuration has deneb in that slot: no trace of a decoder."""
    capture = Capture(ELECTRA)
    network = replace(capture.network, config=capture.network.config.replace(ELECTRA_FORK_EPOCH=99))
    with pytest.raises(WrongNetwork, match=r"is of electra, where .* schedules deneb"):
        to_state_bytes(network, Answer("the state", capture.state, SSZ, "deneb"))


@pytest.mark.parametrize("size", [0, 1, 107, 175, 653])
def test_06_too_few_bytes(capture: Capture, size: int) -> None:
    with pytest.raises((MalformedSSZ, WrongNetwork)):
        to_state_bytes(capture.network, Answer("the state", bytes(size), SSZ))
    with pytest.raises((MalformedSSZ, InvalidCheckpoint)):
        verify_block(capture.network, capture.checkpoint, bytes(size))


def test_07_another_network_is_told_with_both_roots(capture: Capture) -> None:
    mine, theirs = NETWORKS["mainnet"], capture.network
    with pytest.raises(WrongNetwork) as refusal:
        verify_pair(mine, capture.checkpoint, capture.block, capture.state, now=capture.now)
    for root in (mine.genesis_validators_root, theirs.genesis_validators_root):
        assert root is not None and root.hex() in refusal.value.what


async def test_07_the_network_comes_first(connect: MakeClient, capture: Capture) -> None:
    async with running(capture.answers) as node:
        with pytest.raises(WrongNetwork, match="genesis validators root"):
            await sync(connect(node.url), capture, network=find_network("hoodi"))
    assert node.paths == ["/eth/v1/beacon/genesis"]


def test_07_genesis_time_and_forks_count_too(capture: Capture) -> None:
    root = capture.network.genesis_validators_root
    assert root is not None
    with pytest.raises(WrongNetwork, match="genesis time 5, and"):
        verify_genesis(capture.network, root, 5)
    spec = capture.data("config_spec.json")
    for key, value in (
        ("ALTAIR_FORK_VERSION", "0x99000001"),
        ("ALTAIR_FORK_EPOCH", "7"),
        ("PRESET_BASE", "x"),
    ):
        with pytest.raises(WrongNetwork, match=f"{key} is {value} there"):
            verify_spec(capture.network, spec | {key: value})


async def test_13_state_404_by_root_and_there_as_finalized(connect: MakeClient, capture: Capture) -> None:
    async with running(capture.answers, {f"{STATES}0x": giving(MISSING)}) as node:
        assert (await sync(connect(node.url), capture)).state_bytes == capture.state


async def test_13_a_pruned_state_is_not_a_mismatch(connect: MakeClient, capture: Capture) -> None:
    async with running(capture.answers, {STATES: giving(MISSING)}) as node:
        with pytest.raises(NotServed, match="it knows the trusted block, and not its state"):
            await sync(connect(node.url), capture)


async def test_13_a_newer_pair_is_proven_by_light_client(connect: MakeClient) -> None:
    """The trusted state is gone; the node still proves by light client what is final now, and has that."""
    new, tip = Capture(ELECTRA, 0), Capture(ELECTRA, 1)
    fork = new.verified.block.fork
    state = fork.scope.schema("BeaconState").decode(new.files["state_genesis.ssz"])
    signed = fork.scope.schema("SignedBeaconBlock").default()
    genesis = signed.replace(message=signed.message.replace(state_root=fork.hash_tree_root(state)))
    checkpoint = Checkpoint(epoch=0, root=fork.hash_tree_root(genesis.message))
    deriver = Deriver(Forms(new.network.preset, new.network.config), fork.scope)
    header = deriver.block_to_light_client_header(genesis)
    bootstrap = deriver.create_light_client_bootstrap(header, state)
    root, light = checkpoint.root.hex(), "/eth/v1/beacon/light_client"
    given = {
        f"{BLOCKS}0x{root}": giving(Reply(fork.scope.encode(genesis), SSZ, "electra")),
        f"{light}/bootstrap/0x{root}": giving(Reply(fork.scope.encode(bootstrap), SSZ, "electra")),
        f"{light}/finality_update": giving(tip.answers(f"{light}/finality_update", {})),
        f"{STATES}0x{genesis.message.state_root.hex()}": giving(MISSING),
    }
    notes: list[str] = []
    async with running(new.answers, given) as node:
        settings = Settings(note=notes.append)
        found = await sync_checkpoint([connect(node.url)], checkpoint, settings, tip.now)
    assert found.checkpoint == new.checkpoint
    assert "Following the light client from the trusted block" in notes[0]


@pytest.mark.parametrize("name", [ALTAIR, ELECTRA])
def test_16_the_last_epoch_passes_and_the_next_does_not(name: str) -> None:
    capture = Capture(name, 1)
    network, period = capture.network, capture.verified.period
    end = (capture.checkpoint.epoch + period + 1) * 8 * network.config.seconds_per_slot
    block = verify_block(network, capture.checkpoint, capture.block)
    genesis = network.genesis_time or 0

    def verify(now: float, **more: Any) -> Any:
        return verify_checkpoint(network, capture.checkpoint, block, capture.state, now=now, **more)

    assert not verify(genesis + end - 1).is_expired
    with pytest.raises(StaleTrust, match=f"period of {period} epochs is over"):
        verify(genesis + end)
    assert verify(genesis + end, accept_expired=True).is_expired


def test_16_an_old_root_under_a_new_epoch_is_as_old_as_it_is(capture: Capture) -> None:
    """Age counts from the block that is proven (rule 21)."""
    network, epochs = capture.network, capture.verified.period + 50
    now = (network.genesis_time or 0) + (capture.checkpoint.epoch + epochs + 1) * 8 * 2
    claimed = later(capture, epochs)
    block = verify_block(network, claimed, capture.block)
    with pytest.raises(StaleTrust, match="is of epoch 4"):
        verify_checkpoint(network, claimed, block, capture.state, now=now)


def test_17_the_period_depends_on_the_fork() -> None:
    names = ("ALTAIR", "BELLATRIX", "CAPELLA", "DENEB", "ELECTRA", "FULU", "GLOAS")
    config = MAINNET_CONFIG.replace(**{f"{name}_FORK_EPOCH": 0 for name in names})
    forks = Network("all", MAINNET, config).forks
    periods = {}
    for name in ("deneb", "electra", "gloas"):
        schema = forks[name].scope.schema("BeaconState")
        state = schema.default()
        record = bytes(80) + (28 * 10**9).to_bytes(8, "little") + bytes(1 + 16) + b"\xff" * 16
        state.validators = schema.schemas["validators"].decode(record * 2**16)
        periods[name] = compute_weak_subjectivity_period(forks[name], state)
    assert len(set(periods.values())) == 3, periods


async def test_19_a_missing_bootstrap_is_explained(connect: MakeClient, capture: Capture) -> None:
    async with running(capture.answers, {"/eth/v1/beacon/light_client": giving(MISSING)}) as node:
        client = connect(node.url)
        with pytest.raises(NotServed, match="keep bootstraps for some blocks only") as refusal:
            await get_bootstrap(client, capture.network, capture.checkpoint)
        assert "--light" in refusal.value.fix
        found = await sync(client, capture)  # the state brings its committees along
    followed = Follower(capture.network).start(found)
    assert followed.store.next_sync_committee is not None


async def test_19_no_other_root_is_substituted(connect: MakeClient, capture: Capture) -> None:
    path = f"/eth/v1/beacon/light_client/bootstrap/0x{'11' * 32}"
    own = capture.answers(f"/eth/v1/beacon/light_client/bootstrap/0x{capture.checkpoint.root.hex()}", {})
    other = Checkpoint(epoch=4, root=b"\x11" * 32)
    async with running(capture.answers, {path: giving(own)}) as node:
        bootstrap = await get_bootstrap(connect(node.url), capture.network, other)
    with pytest.raises(InvalidUpdate, match="not of the trusted"):
        Follower(capture.network).start_from_bootstrap(other, bootstrap)


def test_21_every_update_is_read_in_its_own_forks_form() -> None:
    network = Capture(CAPELLA).network  # altair from the start, capella from epoch 2
    body, names = b"", []
    for slot in (9, 17):
        fork = network.get_fork_at_slot(slot)
        names.append(fork.name)
        schema = fork.scope.schema("LightClientUpdate")
        update = schema.default()
        header = update.attested_header
        update = update.replace(attested_header=header.replace(beacon=header.beacon.replace(slot=slot)))
        root = network.genesis_validators_root or b""
        chunk = compute_fork_digest(network.config, slot // 8, root) + schema.encode(update)
        body += len(chunk).to_bytes(8, "little") + chunk
    found = to_light_client_updates(network, Answer("updates", body, SSZ))
    assert names == ["bellatrix", "capella"]
    forms = [network.forks[name].scope.schema("LightClientUpdate").record for name in names]
    assert [type(update) for update in found] == forms
    for broken in (body[:-1], body[:11], b"\0" * 8 + body, body.replace(body[8:12], b"\xde\xad\xbe\xef")):
        with pytest.raises((MalformedAnswer, MalformedSSZ, WrongNetwork)):
            to_light_client_updates(network, Answer("updates", broken, SSZ))


@pytest.mark.parametrize("number", [1, 2])
def test_21_a_finality_update_is_the_same_in_ssz_and_json(number: int) -> None:
    capture, kind = Capture(ELECTRA, number), "LightClientFinalityUpdate"
    records = [
        to_light_client_record(capture.network, capture.answer(f"lc_finality_update.{form}"), kind)
        for form in ("json", "ssz")
    ]
    assert records[0] == records[1]


async def test_23_a_head_ahead_of_the_clock_is_told(connect: MakeClient, capture: Capture) -> None:
    syncing = {"/eth/v1/node/syncing": giving(Reply(b'{"data":{"head_slot":"100"}}'))}
    genesis = capture.network.genesis_time or 0
    async with running(capture.answers, syncing) as node:
        client = connect(node.url)
        assert "is at slot 100" in await find_skew(client, capture.network, genesis + 2 * 50)
        assert await find_skew(client, capture.network, genesis + 2 * 98) == ""  # a slot or two is no skew
        assert await find_skew(client, capture.network, genesis + 2 * 999) == ""


def test_23_a_state_from_the_future_is_refused(capture: Capture) -> None:
    block = verify_block(capture.network, capture.checkpoint, capture.block)
    early = (capture.network.genesis_time or 0) + 2 * 30
    with pytest.raises(InvalidCheckpoint, match="Check the clock"):
        verify_checkpoint(capture.network, capture.checkpoint, block, capture.state, now=early)


async def test_23_an_update_signed_in_the_future_is_refused(connect: MakeClient, capture: Capture) -> None:
    follower = Follower(capture.network)
    early = (capture.network.genesis_time or 0) + 2 * 33
    async with running(capture.answers) as node:
        with pytest.raises(InvalidUpdate, match="it is slot 34"):
            await advance(connect(node.url), follower, follower.start(capture.verified), early)


def _mutations(capture: Capture) -> Iterator[tuple[str, Any]]:
    fork = capture.verified.block.fork
    document = to_json(fork.scope.schema("SignedBeaconBlock"), capture.verified.block.block)
    yield "a list", []
    yield "no message", {"signature": document["signature"]}
    yield "a number", document | {"message": document["message"] | {"slot": 32}}
    yield "a sign", document | {"message": document["message"] | {"slot": "+32"}}
    yield "a long number", document | {"message": document["message"] | {"slot": "9" * 5000}}
    yield "an extra field", document | {"more": "1"}
    yield "odd digits", document | {"signature": "0x123"}
    yield "short bytes", document | {"signature": "0x12"}
    yield "no prefix", document | {"signature": document["signature"][2:]}


def test_11_json_is_read_as_strictly_as_ssz(capture: Capture) -> None:
    import json

    for what, document in _mutations(capture):
        answer = Answer("the block", json.dumps({"data": document}).encode(), "application/json")
        with pytest.raises(MalformedAnswer):
            to_block_bytes(capture.network, answer)
            pytest.fail(what)


async def test_11_preferences_are_sent_and_the_answers_type_counts(
    connect: MakeClient, capture: Capture
) -> None:
    async with running(capture.answers) as node:
        await sync(connect(node.url), capture)
    asked = {path: headers["accept"] for path, headers in node.requests}
    state = next(accept for path, accept in asked.items() if STATES in path)
    assert state == "application/octet-stream;q=1.0,application/json;q=0.9"


async def test_15_only_what_is_final_counts(connect: MakeClient, capture: Capture) -> None:
    """Justified and head on another branch are not looked at."""
    from anchor.chain.beacon.sync import survey

    body = capture.file("finality_checkpoints_head.json").replace(b'"epoch":"5"', b'"epoch":"9"')
    path = "/eth/v1/beacon/states/head/finality_checkpoints"
    async with running(capture.answers, {path: giving(Reply(body))}) as node:
        claims = await survey([connect(node.url)])
    assert claims[0].finalized == capture.checkpoint


async def test_network_is_checked_against_a_named_one(connect: MakeClient, capture: Capture) -> None:
    named = replace(capture.network, name="lab")
    async with running(capture.answers) as node:
        assert (await get_network(connect(node.url), Settings(network=named), capture.now)).name == "lab"
