"""The short way for requests that were answered before: the same answers and limits, and no confusion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from anchor.node.connections import Doors
from anchor.node.hot import HotConnection
from tests.node.http.conftest import Site, open_site
from tests.node.http.tools import VERSION, post, write_entries

HEAD = f"GET {VERSION} HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n".encode()


class Wire:
    """A connection as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, *parts: bytes) -> tuple[int, dict[str, str], bytes]:
        """Sends parts, one after the other, and reads one answer."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0.02 if len(parts) > 1 else 0)
        return await self.read()

    async def read(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, fields, body."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)).decode()
        status, *lines = head.strip().split("\r\n")
        if "100 Continue" in status:
            return await self.read()
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(status.split()[1]), fields, await self.reader.readexactly(int(fields["content-length"]))


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[Wire]:
    """A new connection, for the length of the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _warm(site: Site, head: bytes = HEAD) -> None:
    """Has the head answered, and then remembered."""
    async with connected(site) as wire:
        for _ in range(2):
            assert (await wire.ask(head))[0] == 200


async def test_the_short_way_gives_the_same_answer(site: Site) -> None:
    async with connected(site) as wire:
        long = await wire.ask(HEAD)
        await wire.ask(HEAD)
    assert site.front.hot.answers.hits == 0
    async with connected(site) as wire:
        short = await wire.ask(HEAD)
    assert site.front.hot.answers.hits == 1
    assert short[0] == long[0] == 200
    assert short[2] == long[2]
    assert short[1].keys() == long[1].keys() - {"server"}
    assert {k: v for k, v in short[1].items() if k != "date"} == {
        k: v for k, v in long[1].items() if k not in ("date", "server")
    }


async def test_a_new_state_is_seen_at_once(site: Site) -> None:
    head = HEAD.replace(b"versions/1", b"versions")
    await _warm(site, head)
    async with connected(site) as wire:
        assert b'"version":"2"' not in (await wire.ask(head))[2]
        (entry,) = await write_entries(site, "2")
        await (await post(site, entry)).read()
        assert b'"version":"2"' in (await wire.ask(head))[2]


@pytest.mark.parametrize(
    "parts",
    [
        (HEAD + HEAD,),
        (HEAD[:20], HEAD[20:] + HEAD),
        (HEAD, HEAD[:-2], HEAD[-2:]),
        (HEAD, HEAD.replace(b"Host", b"HOST")),
    ],
    ids=["together", "torn", "torn later", "another"],
)
async def test_two_requests_have_two_answers_in_order(site: Site, parts: tuple[bytes, ...]) -> None:
    await _warm(site)
    async with connected(site) as wire:
        first = await wire.ask(*parts)
        assert first[2] == (await wire.read())[2]
        assert (await wire.ask(HEAD.replace(b"versions/1", b"versions/9")))[0] == 404


@pytest.mark.parametrize(
    "field",
    [
        b"Content-Length: 0",
        b"Content-Length: 5",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Expect: 100-continue",
        b'If-None-Match: "x"',
        b"Upgrade: h2c",
        b"Authorization: Bearer x",
        b"Accept: text/html",
    ],
)
async def test_only_plain_requests_are_remembered(site: Site, field: bytes) -> None:
    head = HEAD[:-2] + field + b"\r\n\r\n"
    body = b"0\r\n\r\n" if b"chunked" in field else b"01234" if b"5" in field else b""
    for _ in range(3):
        async with connected(site) as wire:
            wire.writer.write(head + body)
            await wire.read()
    assert site.front.hot.answers.size == 0


async def test_refusals_are_not_remembered(site: Site) -> None:
    for _ in range(3):
        async with connected(site) as wire:
            assert (await wire.ask(HEAD.replace(b"versions/1", b"versions/9")))[0] == 404
    assert site.front.hot.answers.size == 0


async def test_the_allowance_holds_on_the_short_way(ledger: tuple[Path, bytes]) -> None:
    async with open_site(*ledger, rate=4) as site:
        await _warm(site)
        async with connected(site) as wire:
            statuses = [(await wire.ask(HEAD))[0] for _ in range(40)]
        assert statuses[0] == 200
        assert 429 in statuses
        assert site.front.hot.answers.hits


async def test_it_is_counted(site: Site) -> None:
    await _warm(site)
    async with connected(site) as wire:
        for _ in range(3):
            await wire.ask(HEAD)
    async with site.client.get("/metrics") as response:
        text = await response.text()
    assert 'route="/anchor/v1/models/{organisation}/{model}/versions/{version}",status="200"} 5' in text


async def test_rooms_are_counted_once(ledger: tuple[Path, bytes]) -> None:
    doors = Doors()
    async with open_site(*ledger, doors=doors) as site:
        await _warm(site)
        async with connected(site) as first, connected(site) as second, connected(site):
            for wire in (first, second):
                await wire.ask(HEAD)
            await first.ask(HEAD.replace(b"Host", b"HOST"))
            assert doors.inside.total() == 3
        await asyncio.sleep(0.1)
        assert doors.inside.total() == 0


class _Transport(asyncio.Transport):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1)})
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def abort(self) -> None:
        self.calls.append("abort")


async def test_flow_goes_both_ways(site: Site) -> None:
    transport, doors = _Transport(), Doors(first_seconds=0.01)
    connection = HotConnection(None, doors, site.front.hot)  # type: ignore[arg-type]
    connection.connection_made(transport)
    connection.pause_writing()
    connection.resume_writing()
    await asyncio.sleep(0.05)
    assert transport.calls == ["pause", "resume", "abort"]  # and nothing came for too long
    connection.connection_lost(None)
    assert doors.inside.total() == 0
