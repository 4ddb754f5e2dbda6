"""The OpenAPI document is true; SECURITY.md's table of routes too; handlers only translate."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from anchor.consensus.text import format_checkpoint
from anchor.node.api.listening import EVENTS
from anchor.node.api.openapi import PEER, RAW_ROUTES, ROUTES, build_document
from anchor.node.api.routes import JSON
from anchor.node.app import build_app
from anchor.node.events import FINALIZED_CHECKPOINT, TOPICS
from tests.node.http.conftest import TOKEN, Site
from tests.node.http.json_schema import find_faults
from tests.node.http.tools import get_data, post, write_entries
from tests.node.tools import make_manifest

ROOT = Path(__file__).parents[3]
API = ROOT / "anchor/node/api"
HANDLERS = [
    API / name
    for name in ("models.py", "ledger.py", "admin.py", "beacon.py", "light_client.py", "network.py")
]
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
MAX_HANDLER = 10
"""Lines."""
ALLOWED = re.compile(
    r"anchor(\.(errors|merkle\.(json|scope)|node\.(node|reading|beacon|api\..*|api)|consensus\.(text|containers\..*)|"
    r"bundle\.(proofs|types)|ml\.manifest))?"
)
"""What a module of handlers may import of ours: names of records, forms, and the node's own face."""


def test_every_route_is_described(site: Site) -> None:
    document = build_document()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = build_app(site.front).router.routes()
    real = {(route.method, route.resource.canonical) for route in routes if route.resource}
    assert {pair for pair in real if pair[0] != "HEAD"} == described


def test_every_operation_has_its_own_name() -> None:
    names = [route.handler.__name__ for route in ROUTES]
    assert len(set(names)) == len(names)


async def _paths(site: Site) -> dict[str, dict[str, str]]:
    """Values for every parameter in a path and every required one in a query."""
    head = (await get_data(site, "/anchor/v1/status"))["head"]["root"]
    final = f"0x{site.node.status.finalized.root.hex()}"
    return {
        "/anchor/v1/manifests/{root}": {"root": f"0x{make_manifest('1')[0].hex()}"},
        "/anchor/v1/blocks/{root}": {"root": head},
        "/anchor/v1/states/{root}": {"root": head},
        "/anchor/v1/checkpoints/{root}": {"root": final},
        "/eth/v1/beacon/light_client/bootstrap/{root}": {"root": final},
        "": {
            "organisation": "acme",
            "model": "tiny",
            "version": "1",
            "position": "3",
            "epoch": "2",
            "index": "5",
            "state": "finalized",
            "block": "head",
            "start_period": "0",
            "count": "1",
            "trust": format_checkpoint(site.node.status.genesis),
        },
    }


@pytest.mark.parametrize("route", [r for r in ROUTES if r.method == "GET"], ids=lambda r: r.path)
async def test_answers_are_what_the_document_says(site: Site, route: Any) -> None:
    document, known = build_document(), await _paths(site)
    values = known[""] | known.get(route.path, {})
    described = document["paths"][route.path]["get"]["responses"]
    query = {name: values[name] for name, one in route.query.items() if one.is_required and name in values}
    for path, params in ((route.path.format(**values), query), (route.path.format(**values), {"no": "no"})):
        async with site.client.get(path, params=params, headers=OPERATOR | {"Accept": JSON}) as response:
            schema = described[str(response.status)]["content"][JSON]["schema"]
            assert find_faults(await response.json(), schema, document) == []
    odd = OPERATOR | {"Accept": "image/png"}
    async with site.client.get(route.path.format(**values), headers=odd) as response:
        assert response.status == 406
        assert "406" in described


@pytest.mark.parametrize("route", RAW_ROUTES, ids=lambda r: r.path)
async def test_other_answers_have_the_form_that_is_said(site: Site, route: Any) -> None:
    query = {"topics": "finalized_checkpoint"} if route.path.endswith("/eth/v1/events") else {}
    async with site.client.get(route.path, params=query) as response:
        assert response.status == 200
        assert response.content_type == route.media
        if route.media != EVENTS:
            await response.read()


async def _listen(site: Site, path: str, topic: str, query: dict[str, str]) -> Any:
    """The data of the first event, which must be of that topic."""
    async with site.client.get(path, params=query) as response:
        assert (response.status, response.content_type) == (200, EVENTS)
        while (block := await response.content.readuntil(b"\n\n")).startswith(b":"):
            pass
    number, named, data = block.decode().strip().split("\n")
    assert re.fullmatch("id: [0-9]+", number)
    assert named == f"event: {topic}"
    return json.loads(data.removeprefix("data: "))


@pytest.mark.parametrize(
    ("path", "topic"),
    [("/eth/v1/events", FINALIZED_CHECKPOINT), *[("/anchor/v1/events", topic) for topic in TOPICS]],
)
async def test_events_are_what_the_document_says(site: Site, path: str, topic: str) -> None:
    document = build_document()
    described = document["paths"][path]["get"]
    stream = described["responses"]["200"]["content"][EVENTS]["schema"]
    (listed,) = described["parameters"]
    assert find_faults(topic, listed["schema"], document) == []
    async with asyncio.timeout(30):
        listening = asyncio.create_task(_listen(site, path, topic, {"topics": topic}))
        while not site.node.events.subscribers:
            await asyncio.sleep(0.01)
        await (await post(site, *await write_entries(site, "2"))).read()
        data = await listening
    assert find_faults(data, stream["x-events"][topic], document) == []
    async with site.client.get(path, params={"topics": "no"}) as response:
        schema = described["responses"][str(response.status)]["content"][JSON]["schema"]
        assert find_faults(await response.json(), schema, document) == []


async def test_the_document_is_served(site: Site) -> None:
    async with site.client.get("/openapi.json") as response:
        assert await response.json() == build_document()


def test_the_table_of_routes_in_security_is_true() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    rows = re.findall(r"^\| `(\w+) (/\S*)` \| (\w+) \| (\d+) \|", text, re.MULTILINE)
    real = [(r.method, r.path, r.access, str(r.cost)) for r in ROUTES]
    real += [("GET", r.path, "stranger", "1") for r in RAW_ROUTES]
    real += [("GET", path, "stranger", "1") for path in ("/", "/openapi.json", PEER)]
    assert sorted(rows) == sorted(real)


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.name)
def test_handlers_only_translate(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            body = node.end_lineno - node.lineno + 1 if node.end_lineno else 0
            assert body <= MAX_HANDLER, node.name
            assert not any(isinstance(n, ast.For | ast.While | ast.Try | ast.If) for n in ast.walk(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anchor"):
            assert ALLOWED.fullmatch(node.module or ""), node.module
        assert not isinstance(node, ast.FunctionDef), "a handler's work is the node's to do"
