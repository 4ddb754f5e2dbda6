"""Forms, conditions, compression and caching, as RFC 9110 has them."""

from __future__ import annotations

import gzip
import json

import aiohttp
import pytest

from anchor.errors import Misuse
from anchor.node.api.negotiation import accepts_gzip, choose_media, has_current
from tests.node.http.conftest import Site
from tests.node.http.tools import SSZ, VERSION
from tests.node.tools import make_manifest

JSON = "application/json"
MANIFEST = f"/anchor/v1/manifests/0x{make_manifest('1')[0].hex()}"


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (SSZ, SSZ),
        (f"{SSZ}, {JSON}", JSON),  # equal: ours first
        (f"{JSON};q=0.5, {SSZ}", SSZ),
        (f"{JSON};q=0.5, {SSZ};q=0.4", JSON),
        (f"*/*;q=0.1, {SSZ};q=0", JSON),
        (f"{JSON};q=0, */*", SSZ),
        (f"{JSON};q=0, application/*;q=0.2, */*", SSZ),
        (f"text/html, {SSZ};q=0.001", SSZ),
        ("APPLICATION/JSON", JSON),
        ("text/html", None),
        (f"{JSON};q=0", None),
        (f"{JSON}; Q=0, {SSZ} ;q=0.000", None),
    ],
)
def test_the_form_is_chosen_by_quality(accept: str, chosen: str | None) -> None:
    assert choose_media(accept, (JSON, SSZ)) == chosen


@pytest.mark.parametrize("accept", [f"{JSON};q=2", f"{JSON};q=x", f"{JSON};q=0.1234", f"{JSON};q=-1"])
def test_a_quality_that_is_none_is_refused(accept: str) -> None:
    with pytest.raises(Misuse):
        choose_media(accept, (JSON, SSZ))


@pytest.mark.parametrize(
    ("header", "allowed"),
    [("gzip", True), ("", False), ("br", False), ("*", True), ("gzip;q=0, *", False), ("gzip;q=x", False)],
)
def test_gzip_where_it_is_allowed(header: str, allowed: bool) -> None:
    assert accepts_gzip(header) is allowed


@pytest.mark.parametrize(
    ("header", "known"),
    [('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ('"b"', False), ("a", False)],
)
def test_tags_are_compared_weakly(header: str, known: bool) -> None:
    assert has_current(header, '"a"') is known


async def test_what_has_a_root_is_kept_for_good(site: Site) -> None:
    async with site.client.get(MANIFEST, headers={"Accept": SSZ}) as response:
        assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert response.headers["ETag"] == f'"{make_manifest("1")[0].hex()}.ssz"'
        assert response.headers["Vary"] == "Accept, Accept-Encoding"
        tag = response.headers["ETag"]
    async with site.client.get(MANIFEST, headers={"Accept": SSZ, "If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")
        assert response.headers["ETag"] == tag
    async with site.client.get(MANIFEST, headers={"Accept": JSON, "If-None-Match": tag}) as response:
        assert response.status == 200  # another form has another tag


async def test_what_may_change_is_asked_for_again(site: Site) -> None:
    async with site.client.get(VERSION) as response:
        assert response.headers["Cache-Control"] == "public, no-cache"
        tag = response.headers["ETag"]
    async with site.client.get(VERSION, headers={"If-None-Match": tag}) as response:
        assert response.status == 304


@pytest.mark.parametrize("path", [MANIFEST, VERSION, "/", "/health", "/metrics", "/openapi.json"])
async def test_a_head_is_a_get_without_its_body(site: Site, path: str) -> None:
    async with site.client.get(path) as response:
        expected = response.status, response.headers["Content-Type"]
    async with site.client.head(path) as response:
        assert (response.status, response.headers["Content-Type"]) == expected
        assert await response.read() == b""


async def test_json_is_compressed_where_it_is_worth_it(site: Site) -> None:
    headers = {"Accept-Encoding": "gzip"}
    async with aiohttp.ClientSession(site.url, auto_decompress=False, headers=headers) as raw:
        async with raw.get("/anchor/v1/validators") as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert json.loads(gzip.decompress(await response.read()))["data"]
            assert response.headers["ETag"].endswith('.json.gz"')
        async with raw.get("/anchor/v1/evidence") as response:
            assert "Content-Encoding" not in response.headers
        async with raw.get(MANIFEST, headers={"Accept": SSZ}) as response:
            assert "Content-Encoding" not in response.headers  # digests do not shrink


async def test_what_cannot_be_had(site: Site) -> None:
    async with site.client.get(VERSION, headers={"Accept": SSZ}) as response:
        assert response.status == 406  # this route has no SSZ
    async with site.client.get(MANIFEST, headers={"Accept": "text/html"}) as response:
        assert response.status == 406
    async with site.client.delete(MANIFEST) as response:
        assert response.status == 405
        assert set(response.headers["Allow"].split(",")) == {"GET", "HEAD", "PUT"}
        assert set(await response.json()) == {"code", "kind", "what", "fix"}


@pytest.mark.parametrize(
    "path",
    [
        "/anchor/v1/models?limit=0",
        "/anchor/v1/models?limit=101",
        "/anchor/v1/models?after=-1",
        "/anchor/v1/models?after=9007199254740992",
        "/anchor/v1/models?after=1&after=2",
        "/anchor/v1/models?unknown=1",
        "/anchor/v1/models/ACME/tiny",
        "/anchor/v1/models/acme/..%2f..%2fetc",
        "/anchor/v1/models/acme/%00",
        "/anchor/v1/manifests/0x12",
        f"/anchor/v1/manifests/0x{'A' * 64}",
        f"{VERSION}/bundle",
        f"{VERSION}/bundle?trust=genesis",
        f"{VERSION}/bundle?trust=0x{'1' * 64}:99999999999999999999",
        f"{VERSION}/tensor?tensor={'x' * 1025}",
        "/anchor/v1/entries/x",
        "/health?x=1",
        "/anchor/v1/events?topics=all",
    ],
)
async def test_values_are_read_strictly(site: Site, path: str) -> None:
    async with site.client.get(path) as response:
        assert response.status == 400
        details = await response.json()
    assert details["code"] == 400
    assert details["what"]


@pytest.mark.parametrize(
    "path",
    [
        f"/anchor/v1/manifests/0x{'1' * 64}",
        f"/anchor/v1/blocks/0x{'1' * 64}",
        "/anchor/v1/models/acme/other",
        "/anchor/v1/models/acme/other/versions",
        f"{VERSION}9",
        "/anchor/v1/entries/4",
        "/anchor/v1/entries/9007199254740991/proof",
        "/anchor/v1/validators/64",
        "/anchor/v1/votes/4",
        f"{VERSION}/bundle?trust=0x{'1' * 64}:0",
        "/anchor/v1",
        "/anchor/v2/models",
    ],
)
async def test_what_is_not_there(site: Site, path: str) -> None:
    async with site.client.get(path) as response:
        assert response.status == 404
        assert response.headers["Cache-Control"] == "no-store"


async def test_an_answer_is_made_once_and_kept(site: Site) -> None:
    before = site.front.cache.misses
    for _ in range(5):
        async with site.client.get(VERSION) as response:
            await response.read()
    assert site.front.cache.misses == before + 1
