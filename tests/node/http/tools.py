"""Entries for nodes that are asked over HTTP, and short ways to ask."""

from __future__ import annotations

from typing import Any

import aiohttp

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.text import parse_checkpoint
from anchor.merkle.scope import schema_of
from anchor.node.reading import Reader
from tests.node.http.conftest import Site
from tests.node.tools import write

SSZ = "application/octet-stream"
VERSION = "/anchor/v1/models/acme/tiny/versions/1"


async def get_data(site: Site, path: str, **query: str) -> Any:
    """The data of an answer in JSON, which must be 200."""
    async with site.client.get(path, params=query) as response:
        assert response.status == 200, await response.text()
        return (await response.json())["data"]


async def get_ssz(site: Site, path: str, **query: str) -> bytes:
    """An answer in SSZ, which must be 200."""
    async with site.client.get(path, params=query, headers={"Accept": SSZ}) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == SSZ
        return await response.read()


async def get_genesis(site: Site) -> Any:
    """The first checkpoint."""
    return parse_checkpoint((await get_data(site, "/anchor/v1/status"))["genesis"])


async def write_entries(site: Site, *versions: str) -> list[SignedEntry]:
    """The entries that publish versions of acme/tiny, each as if it were the next."""

    def write_all(reader: Reader) -> list[SignedEntry]:
        return [entry for version in versions for entry in write(reader.chain, site.seed, version)]

    return await site.node.read(write_all)


async def post(site: Site, entry: SignedEntry) -> aiohttp.ClientResponse:
    """Sends an entry in, as SSZ."""
    body = schema_of(SignedEntry).encode(entry)
    return await site.client.post("/anchor/v1/entries", data=body, headers={"Content-Type": SSZ})
