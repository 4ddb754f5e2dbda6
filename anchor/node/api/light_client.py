"""Light-client routes: bootstraps made from verified states, updates that this node's own client accepted."""

from __future__ import annotations

import re
from typing import Any, Final

from aiohttp import web

from anchor.chain.beacon.networks import Network
from anchor.consensus.fork_epochs import compute_fork_digest
from anchor.consensus.light_client.derive import Deriver
from anchor.merkle.json import to_json
from anchor.node.api.replies import JSON, SSZ, VIEW, choose, refuse, reply_json, reply_record
from anchor.node.api.view import View
from anchor.params import MAX_REQUEST_LIGHT_CLIENT_UPDATES

ROOT: Final = re.compile(r"0x[0-9a-fA-F]{64}")
PATH: Final = "/eth/v1/beacon/light_client"


def add_light_client_routes(app: web.Application) -> None:
    """Adds the four routes."""
    app.add_routes(
        [
            web.get(f"{PATH}/bootstrap/{{root}}", _get_bootstrap),
            web.get(f"{PATH}/updates", _get_updates),
            web.get(f"{PATH}/finality_update", _get_finality_update),
            web.get(f"{PATH}/optimistic_update", _get_optimistic_update),
        ]
    )


async def _get_bootstrap(request: web.Request) -> web.Response:
    view, root = request.app[VIEW], request.match_info["root"]
    if not ROOT.fullmatch(root):
        return refuse(400, f"{root[:80]!r} is no root.")
    bootstrap = view.make_bootstrap(bytes.fromhex(root[2:]))
    if bootstrap is None:
        return refuse(404, f"This node has not the state of block {root}.")
    return _reply(request, view, bootstrap, "LightClientBootstrap")


async def _get_updates(request: web.Request) -> web.Response:
    """Updates of successive periods, from the first that is asked for and known."""
    view = request.app[VIEW]
    words = [request.query.get(name, "") for name in ("start_period", "count")]
    if not all(word.isascii() and word.isdecimal() and len(word) <= 20 for word in words):
        return refuse(400, "start_period and count are numbers.")
    start, count = int(words[0]), min(int(words[1]), MAX_REQUEST_LIGHT_CLIENT_UPDATES)
    known = {} if view.followed is None else view.followed.updates
    found = [known[period] for period in range(start, start + count) if period in known]
    name = "LightClientUpdate"
    forms = [view.get_form(update, name) for update in found]
    if choose(request, [JSON, SSZ]) == SSZ:
        schemas = [form.scope.schema(name) for form in forms]
        chunks = [
            _digest(view.network, update) + schema.encode(update)
            for update, schema in zip(found, schemas, strict=True)
        ]
        body = b"".join([len(chunk).to_bytes(8, "little") + chunk for chunk in chunks])
        return web.Response(body=body, content_type=SSZ)
    return reply_json(
        [
            {"version": form.name, "data": to_json(form.scope.schema(name), update)}
            for update, form in zip(found, forms, strict=True)
        ]
    )


def _digest(network: Network, update: Any) -> bytes:
    """The digest of the fork that rules in an update's attested slot."""
    epoch = network.compute_epoch_at_slot(update.attested_header.beacon.slot)
    root = network.genesis_validators_root or bytes(32)
    return compute_fork_digest(network.config, epoch, root)


async def _get_finality_update(request: web.Request) -> web.Response:
    view = request.app[VIEW]
    if view.followed is None or view.followed.finality_update is None:
        return refuse(404, "This node has not followed finality yet.")
    return _reply(request, view, view.followed.finality_update, "LightClientFinalityUpdate")


async def _get_optimistic_update(request: web.Request) -> web.Response:
    view = request.app[VIEW]
    if view.followed is None or view.followed.finality_update is None:
        return refuse(404, "This node has not followed finality yet.")
    newest = view.followed.finality_update
    form = view.get_form(newest, "LightClientFinalityUpdate")
    deriver = Deriver(view.follower.forms, form.scope)
    update = deriver.create_light_client_optimistic_update(newest)
    return _reply(request, view, update, "LightClientOptimisticUpdate")


def _reply(request: web.Request, view: View, record: Any, name: str) -> web.Response:
    form = view.get_form(record, name)
    return reply_record(request, form.scope.schema(name), record, form.name)
