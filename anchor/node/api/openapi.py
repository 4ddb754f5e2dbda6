"""The OpenAPI document, from the routes' own tables: what it says is what the code checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from anchor import __version__
from anchor.node.api import admin, beacon, forms, ledger, light_client, models, network, operations
from anchor.node.api.describe import describe, record
from anchor.node.api.failures import BEACON, COMMON
from anchor.node.api.kinds import Kind, Parameter
from anchor.node.api.listening import EVENTS
from anchor.node.api.operations import RawRoute
from anchor.node.api.requests import media_of
from anchor.node.api.routes import JSON, OPERATOR, SSZ, Body, Route

BEACON_ROUTES: Final[tuple[Route, ...]] = (*beacon.ROUTES, *light_client.ROUTES)
"""Those that any chain has, a synced one too."""
BEACON_RAW_ROUTES: Final[tuple[RawRoute, ...]] = beacon.RAW_ROUTES
ROUTES: Final[tuple[Route, ...]] = (
    *models.ROUTES,
    *ledger.ROUTES,
    *network.ROUTES,
    *admin.ROUTES,
    *BEACON_ROUTES,
)
"""Every route whose answer is a Reply."""
RAW_ROUTES: Final[tuple[RawRoute, ...]] = (*operations.RAW_ROUTES, *BEACON_RAW_ROUTES)
"""Every other one, but for the page and the document."""
DESCRIPTION: Final = (
    "A node of a ledger of models. Nothing it says need be believed: bundles and proofs are checked by "
    "whoever asks, from a checkpoint that they trust. Records are had as JSON (numbers as decimal strings, "
    "bytes as 0x…) or, where a route offers it, as SSZ. Lists come in pages: `next` is the `after` of the "
    "page to follow, null at the end."
)
PEER: Final = "/anchor/v1/peer"
"""Where nodes connect, by websocket."""
BINARY: Final = {"type": "string", "format": "binary"}
_PAGE_END: Final = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]}


def build_document() -> dict[str, Any]:
    """The document, of version 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_route(route)
    for raw in RAW_ROUTES:
        paths[raw.path] = {"get": _describe_raw(raw)}
    paths[PEER] = {"get": _describe_peering()}
    paths["/"] = {"get": _describe_page("Show the ledger to people", "text/html", forms.TEXT)}
    paths["/openapi.json"] = {"get": _describe_page("Get this document", JSON, {"type": "object"})}
    return {
        "openapi": "3.1.0",
        "info": {"title": "anchor", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {"Error": forms.ERROR, "BeaconError": forms.BEACON_ERROR},
            "securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_route(route: Route) -> dict[str, Any]:
    successes = {str(status): _describe_success(route, status) for status in route.statuses}
    described: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_describe_parts(route.parts), *_describe_query(route.query)],
        "responses": _describe_errors(route.path, _errors_of(route)) | successes,
    }
    if route.body is not None:
        described["requestBody"] = {"required": True, "content": _describe_body(route.body)}
    if route.access == OPERATOR:
        described["security"] = [{"operator": []}]
    return described


def _errors_of(route: Route) -> set[int]:
    """Statuses of failure that the route may give."""
    found = {400, 406, 429, 500, 503, *route.errors}
    if route.body is not None:
        found |= {408, 413, 415}
    if route.access == OPERATOR:
        found |= {401}
    return found


def _describe_success(route: Route, status: int) -> dict[str, Any]:
    fields = {**route.marks, "data": route.answer} | ({"next": _PAGE_END} if route.is_page else {})
    content: dict[str, Any] = {JSON: {"schema": route.answer if route.is_bare else record(fields)}}
    if route.has_ssz:
        content[SSZ] = {"schema": BINARY}
    words = {200: "Done", 201: "Made", 202: "Accepted", 503: "All is not well."}
    return {"description": words[status], "content": content}


def _describe_errors(path: str, statuses: Iterable[int]) -> dict[str, Any]:
    name = "BeaconError" if path.startswith(BEACON) else "Error"
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {
        str(status): {"description": COMMON[status], "content": {JSON: {"schema": schema}}}
        for status in sorted(statuses)
    }


def _describe_parts(parts: Mapping[str, Kind]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": kind.schema} for name, kind in parts.items()
    ]


def _describe_query(query: Mapping[str, Parameter]) -> list[dict[str, Any]]:
    described = []
    for name, parameter in query.items():
        schema = dict(parameter.kind.schema)
        if parameter.default is not None:
            schema["default"] = parameter.default
        described.append(
            {
                "name": name,
                "in": "query",
                "required": parameter.is_required,
                "description": parameter.what,
                "schema": schema,
            }
        )
    return described


def _describe_body(body: Body) -> dict[str, Any]:
    if body.json is not None:
        return {JSON: {"schema": body.json}}
    described: dict[str, Any] = {SSZ: {"schema": BINARY}}
    if body.schema is not None and JSON in media_of(body):
        described[JSON] = {"schema": describe(body.schema)}
    return described


def _describe_raw(route: RawRoute) -> dict[str, Any]:
    described = _describe_page(route.summary, route.media, route.answer, route.path)
    described["tags"] = [route.tag]
    described["parameters"] = _describe_query(route.query)
    if 503 in route.statuses and route.media != EVENTS:  # the same form, whatever it says
        described["responses"]["503"] = {**described["responses"]["200"], "description": "All is not well."}
    return described


def _describe_peering() -> dict[str, Any]:
    return {
        "summary": "Connect as a peer, by websocket (specs/06-network)",
        "tags": ["network"],
        "responses": {"101": {"description": "Upgraded"}} | _describe_errors(PEER, (400, 404, 429, 503)),
    }


def _describe_page(summary: str, media: str, answer: dict[str, Any], path: str = "/") -> dict[str, Any]:
    success = {"description": "Done", "content": {media: {"schema": answer}}}
    return {
        "summary": summary,
        "tags": ["operations"],
        "responses": {"200": success} | _describe_errors(path, (400, 429, 503)),
    }
