"""A subset of the Beacon API over what a node has verified (github.com/ethereum/beacon-APIs).

`create_app(view)` is an application of its own, to be run alone or mounted into a larger one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from anchor import __version__
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.consensus.fork_epochs import FORK_NAMES
from anchor.errors import Unavailable
from anchor.merkle.json import to_json
from anchor.merkle.scope import schema_of
from anchor.node.api.light_client import add_light_client_routes
from anchor.node.api.replies import JSON, SSZ, VIEW, choose, refuse, reply_json, reply_record, send_bytes
from anchor.node.api.view import View

MAX_JSON_STATE: Final = 4 << 20
"""Bytes of SSZ of the largest state that is also given as JSON."""
TOPICS: Final = ("finalized_checkpoint",)
HEARTBEAT: Final = 15.0
"""Seconds after which a silent stream of events says that it lives."""
STATE_ID = re.compile(r"head|finalized|genesis|justified|[0-9]{1,20}|0x[0-9a-fA-F]{64}")
Clock = Callable[[], float]
CLOCK: Final[web.AppKey[Clock]] = web.AppKey("clock")
LISTEN: Final = "127.0.0.1"


def create_app(view: View, clock: Clock = time.time) -> web.Application:
    """The routes over one view. `clock` gives Unix time."""
    app = web.Application(middlewares=[_explain_errors])
    app[VIEW], app[CLOCK] = view, clock
    states, blocks = "/eth/v1/beacon/states/{id}", "{id}"
    app.add_routes(
        [
            web.get("/eth/v1/node/version", _get_version),
            web.get("/eth/v1/node/health", _get_health),
            web.get("/eth/v1/node/syncing", _get_syncing),
            web.get("/eth/v1/beacon/genesis", _get_genesis),
            web.get("/eth/v1/config/spec", _get_spec),
            web.get("/eth/v1/config/fork_schedule", _get_fork_schedule),
            web.get(f"{states}/finality_checkpoints", _get_finality_checkpoints),
            web.get(f"{states}/root", _get_state_root),
            web.get(f"{states}/fork", _get_state_fork),
            web.get(f"/eth/v1/beacon/headers/{blocks}", _get_header),
            web.get(f"/eth/v1/beacon/blocks/{blocks}/root", _get_block_root),
            web.get(f"/eth/v2/beacon/blocks/{blocks}", _get_block),
            web.get("/eth/v2/debug/beacon/states/{id}", _get_state),
            web.get("/eth/v1/events", _get_events),
        ]
    )
    add_light_client_routes(app)
    return app


@asynccontextmanager
async def serve(view: View, port: int, host: str = LISTEN) -> AsyncIterator[str]:
    """Serves a view until the body ends; its address. Raises Unavailable when the port is taken."""
    runner = web.AppRunner(create_app(view), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            reason = (error.strerror or "").lower()
            raise Unavailable(f"{host}:{port} cannot be listened on: {reason}.") from None
        address: tuple[str, int] = runner.addresses[0]
        yield f"http://{address[0]}:{address[1]}"
    finally:
        await runner.cleanup()


@web.middleware
async def _explain_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    """Errors of HTTP as the Beacon API words them."""
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as error:
        if error.status < 400 or error.content_type == JSON:
            raise
        return refuse(error.status, error.reason)
    return response


async def _get_version(request: web.Request) -> web.Response:
    return reply_json({"data": {"version": f"anchor/{__version__}"}})


async def _get_health(request: web.Request) -> web.Response:
    return web.Response(status=200 if request.app[VIEW].is_healthy(request.app[CLOCK]()) else 503)


async def _get_syncing(request: web.Request) -> web.Response:
    view, now = request.app[VIEW], request.app[CLOCK]()
    head = view.newest.block.slot
    data = {
        "head_slot": str(head),
        "sync_distance": str(view.get_distance(now)),
        "is_syncing": not view.is_healthy(now),
        "is_optimistic": False,
        "el_offline": True,
    }
    return reply_json({"data": data})


async def _get_genesis(request: web.Request) -> web.Response:
    network = request.app[VIEW].network
    data = {
        "genesis_time": str(network.genesis_time),
        "genesis_validators_root": _hex(network.genesis_validators_root or b""),
        "genesis_fork_version": _hex(network.config.GENESIS_FORK_VERSION),
    }
    return reply_json({"data": data})


async def _get_spec(request: web.Request) -> web.Response:
    network = request.app[VIEW].network
    values = {**network.preset, **network.config, "SECONDS_PER_SLOT": network.config.seconds_per_slot}
    return reply_json({"data": {name: _to_plain(value) for name, value in values.items()}})


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [{key: str(part) for key, part in row.items()} for row in value]
    return _hex(value) if isinstance(value, bytes) else str(value)


async def _get_fork_schedule(request: web.Request) -> web.Response:
    network = request.app[VIEW].network
    rows, previous = [], network.config.GENESIS_FORK_VERSION
    for name, fork in network.forks.items():
        version = network.get_version(fork)
        epoch = network.config[f"{name.upper()}_FORK_EPOCH"] if name in FORK_NAMES[1:] else 0
        rows.append(
            {"previous_version": _hex(previous), "current_version": _hex(version), "epoch": str(epoch)}
        )
        previous = version
    return reply_json({"data": rows})


async def _get_finality_checkpoints(request: web.Request) -> web.Response:
    anchor = _find_state(request)
    state, schema = anchor.state, schema_of(Checkpoint)
    told = [
        state.previous_justified_checkpoint,
        state.current_justified_checkpoint,
        state.finalized_checkpoint,
    ]
    if request.match_info["id"] in ("head", "finalized"):  # what is final is justified too
        told = [anchor.checkpoint] * 3
    names = ("previous_justified", "current_justified", "finalized")
    return reply_json(_final({name: to_json(schema, part) for name, part in zip(names, told, strict=True)}))


async def _get_state_root(request: web.Request) -> web.Response:
    return reply_json(_final({"root": _hex(_find_state(request).block.state_root)}))


async def _get_state_fork(request: web.Request) -> web.Response:
    anchor = _find_state(request)
    schema = anchor.block.fork.scope.schema("BeaconState").schemas["fork"]
    return reply_json(_final(to_json(schema, anchor.state.fork)))


async def _get_header(request: web.Request) -> web.Response:
    anchor = _find_block(request)
    message = anchor.block.block.message
    header = BeaconBlockHeader(
        slot=message.slot,
        proposer_index=message.proposer_index,
        parent_root=message.parent_root,
        state_root=message.state_root,
        body_root=anchor.block.fork.hash_tree_root(message.body),
    )
    signed = {
        "message": to_json(schema_of(BeaconBlockHeader), header),
        "signature": _hex(anchor.block.block.signature),
    }
    return reply_json(_final({"root": _hex(anchor.checkpoint.root), "canonical": True, "header": signed}))


async def _get_block_root(request: web.Request) -> web.Response:
    return reply_json(_final({"root": _hex(_find_block(request).checkpoint.root)}))


async def _get_block(request: web.Request) -> web.StreamResponse:
    block = _find_block(request).block
    schema = block.fork.scope.schema("SignedBeaconBlock")
    return reply_record(request, schema, block.block, block.fork.name, is_final=True)


async def _get_state(request: web.Request) -> web.StreamResponse:
    anchor = _find_state(request)
    fork = anchor.block.fork
    is_small = len(anchor.state_bytes) <= MAX_JSON_STATE
    headers = {
        "Eth-Consensus-Version": fork.name,
        "Eth-Execution-Optimistic": "false",
        "Eth-Consensus-Finalized": "true",
    }
    root = anchor.block.state_root.hex()
    if choose(request, [SSZ, JSON] if is_small else [SSZ]) == SSZ:
        return await send_bytes(request, anchor.state_bytes, SSZ, headers, tag=f"{root}-ssz")
    data = to_json(fork.scope.schema("BeaconState"), anchor.state)
    body = json.dumps({"version": fork.name, **_final(data)}).encode()
    return await send_bytes(request, body, JSON, headers, tag=f"{root}-json")


async def _get_events(request: web.Request) -> web.StreamResponse:
    topics = ",".join(request.query.getall("topics", [])).split(",")
    if unknown := [topic for topic in topics if topic not in TOPICS]:
        return refuse(400, f"There are events of {', '.join(TOPICS)}, and not of {unknown[0][:40]!r}.")
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    view = request.app[VIEW]
    with view.listen() as queue:
        await response.write(b": listening\n\n")
        async for line in view.read_events(queue, HEARTBEAT):
            await response.write(line)
    return response


def _find_state(request: web.Request) -> VerifiedCheckpoint:
    """The checkpoint whose state is asked for, or the refusal."""
    return _require(request, "state", request.app[VIEW].find_state)


def _find_block(request: web.Request) -> VerifiedCheckpoint:
    """The checkpoint whose block is asked for, or the refusal."""
    return _require(request, "block", request.app[VIEW].find_block)


def _require(
    request: web.Request, what: str, find: Callable[[str], VerifiedCheckpoint | None]
) -> VerifiedCheckpoint:
    name = request.match_info["id"]
    if not STATE_ID.fullmatch(name):
        raise _http_error(web.HTTPBadRequest, 400, f"{name[:80]!r} names no {what}.")
    found = find(name.lower())
    if found is None:
        raise _http_error(web.HTTPNotFound, 404, f"This node has not verified a {what} {name}.")
    return found


def _http_error(kind: type[web.HTTPException], code: int, message: str) -> web.HTTPException:
    return kind(text=json.dumps({"code": code, "message": message}), content_type=JSON)


def _final(data: Any) -> dict[str, Any]:
    return {"execution_optimistic": False, "finalized": True, "data": data}


def _hex(data: bytes) -> str:
    return f"0x{data.hex()}"
