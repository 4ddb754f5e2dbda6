"""A subset of the Beacon API (github.com/ethereum/beacon-APIs) over a chain that was verified."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from anchor import __version__
from anchor.bundle.types import LEDGER_SCOPE
from anchor.consensus.containers.ledger import BeaconState
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.node.api import beacon_forms as forms
from anchor.node.api.answering import Front
from anchor.node.api.describe import describe
from anchor.node.api.kinds import ANY_ROOT, BEACON_TOPICS, CHAIN_ID, Parameter
from anchor.node.api.listening import EVENTS, stream_events
from anchor.node.api.operations import RawRoute
from anchor.node.api.routes import Reply, Route
from anchor.node.beacon import BeaconNode


async def get_beacon_version(node: BeaconNode) -> Reply:
    """What program this is."""
    return Reply({"version": f"anchor/{__version__}"})


async def get_beacon_health(node: BeaconNode) -> Reply:
    """200 while finality is young; then 503."""
    now = node.clock.now()
    return await node.show(lambda view: forms.show_health(view.get_standing(now)))


async def get_beacon_syncing(node: BeaconNode) -> Reply:
    """How far the chain has come, and what the clock says."""
    now = node.clock.now()
    return await node.show(lambda view: forms.show_standing(view.get_standing(now)))


async def get_beacon_events(front: Front[Any], request: web.Request) -> web.StreamResponse:
    """New final checkpoints."""
    topics = BEACON_TOPICS.read(",".join(request.query.getall("topics", [])))
    return await stream_events(front.node.events, topics, request)


async def get_beacon_genesis(node: BeaconNode) -> Reply:
    """How the network began."""
    return await node.show(lambda view: forms.show_genesis(view.network))


async def get_beacon_spec(node: BeaconNode) -> Reply:
    """The preset and the configuration."""
    return await node.show(lambda view: forms.show_spec(view.network))


async def get_beacon_schedule(node: BeaconNode) -> Reply:
    """Which fork rules when."""
    return await node.show(lambda view: forms.show_schedule(view.network))


async def get_beacon_finality(node: BeaconNode, state: str) -> Reply:
    """What is justified and final, by a state."""
    return await node.show(lambda view: forms.show_finality(view, state))


async def get_beacon_state_root(node: BeaconNode, state: str) -> Reply:
    """The root of a state."""
    return await node.show(lambda view: forms.show_state_root(view.find_state(state)))


async def get_beacon_fork(node: BeaconNode, state: str) -> Reply:
    """The fork that rules a state."""
    return await node.show(lambda view: forms.show_fork(view.find_state(state)))


async def get_beacon_state(node: BeaconNode, state: str) -> Reply:
    """A state, whole."""
    return await node.show(lambda view: forms.show_state(view.find_state(state)))


async def get_beacon_header(node: BeaconNode, block: str) -> Reply:
    """The header of a block."""
    return await node.show(lambda view: forms.show_header(view.find_block(block)))


async def get_beacon_block_root(node: BeaconNode, block: str) -> Reply:
    """The root of a block."""
    return await node.show(lambda view: forms.show_block_root(view.find_block(block)))


async def get_beacon_block(node: BeaconNode, block: str) -> Reply:
    """A signed block."""
    return await node.show(lambda view: forms.show_block(view.find_block(block)))


async def get_trusted_block(node: BeaconNode, root: bytes) -> Reply:
    """What a light client of a ledger needs to know of a checkpoint, proven."""
    return await node.show(lambda view: forms.show_trusted_block(view.make_trusted_block(root)))


_STATES: Final = "/eth/v1/beacon/states/{state}"
_STATE: Final = {"state": CHAIN_ID}
_BLOCK: Final = {"block": CHAIN_ID}

ROUTES: Final = (
    Route(
        "GET",
        "/eth/v1/node/version",
        get_beacon_version,
        "Tell the program's version",
        forms.VERSION,
        "beacon",
    ),
    Route(
        "GET",
        "/eth/v1/node/health",
        get_beacon_health,
        "Tell whether finality is young",
        forms.STANDING,
        "beacon",
        is_live=True,
        statuses=(200, 503),
    ),
    Route(
        "GET",
        "/eth/v1/node/syncing",
        get_beacon_syncing,
        "Show how far the chain has come",
        forms.STANDING,
        "beacon",
        is_live=True,
    ),
    Route("GET", "/eth/v1/beacon/genesis", get_beacon_genesis, "Show the genesis", forms.GENESIS, "beacon"),
    Route("GET", "/eth/v1/config/spec", get_beacon_spec, "Show the configuration", forms.SPEC, "beacon"),
    Route(
        "GET",
        "/eth/v1/config/fork_schedule",
        get_beacon_schedule,
        "Show the schedule of forks",
        forms.SCHEDULE,
        "beacon",
    ),
    Route(
        "GET",
        f"{_STATES}/finality_checkpoints",
        get_beacon_finality,
        "Show what is justified and final",
        forms.CHECKPOINTS,
        "beacon",
        _STATE,
        cost=5,
        marks=forms.FINAL,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_STATES}/root",
        get_beacon_state_root,
        "Show the root of a state",
        forms.ROOT,
        "beacon",
        _STATE,
        cost=5,
        marks=forms.FINAL,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_STATES}/fork",
        get_beacon_fork,
        "Show the fork that rules a state",
        forms.FORK,
        "beacon",
        _STATE,
        cost=5,
        marks=forms.FINAL,
        errors=(404,),
    ),
    Route(
        "GET",
        "/eth/v2/debug/beacon/states/{state}",
        get_beacon_state,
        "Get a state",
        describe(LEDGER_SCOPE.schema(BeaconState)),
        "beacon",
        _STATE,
        cost=50,
        marks=forms.VERSIONED | forms.FINAL,
        has_ssz=True,
        is_bulk=True,
        errors=(404,),
    ),
    Route(
        "GET",
        "/eth/v1/beacon/headers/{block}",
        get_beacon_header,
        "Show the header of a block",
        forms.HEADER,
        "beacon",
        _BLOCK,
        marks=forms.FINAL,
        errors=(404,),
    ),
    Route(
        "GET",
        "/eth/v1/beacon/blocks/{block}/root",
        get_beacon_block_root,
        "Show the root of a block",
        forms.ROOT,
        "beacon",
        _BLOCK,
        marks=forms.FINAL,
        errors=(404,),
    ),
    Route(
        "GET",
        "/eth/v2/beacon/blocks/{block}",
        get_beacon_block,
        "Get a block",
        describe(LEDGER_SCOPE.schema(SignedBeaconBlock)),
        "beacon",
        _BLOCK,
        cost=2,
        marks=forms.VERSIONED | forms.FINAL,
        has_ssz=True,
        errors=(404,),
    ),
    Route(
        "GET",
        "/anchor/v1/checkpoints/{root}",
        get_trusted_block,
        "Prove what a final block's state says of network, clock and age",
        forms.TRUSTED_BLOCK,
        "proofs",
        {"root": ANY_ROOT},
        cost=5,
        has_ssz=True,
        errors=(404,),
    ),
)
"""In the order of the document."""
RAW_ROUTES: Final = (
    RawRoute(
        "/eth/v1/events",
        get_beacon_events,
        "Listen for new final checkpoints (server-sent events)",
        EVENTS,
        forms.HAPPENINGS,
        "beacon",
        {"topics": Parameter(BEACON_TOPICS, "which", is_required=True)},
        (200, 503),
    ),
)
"""In the order of the document."""
