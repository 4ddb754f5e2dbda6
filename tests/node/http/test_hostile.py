"""Requests that mean harm: each is cut off within bounds, and honest traffic goes on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from anchor.node import connections
from anchor.node.api import answering, listening, requests
from anchor.node.cache import Encoded
from anchor.node.connections import Doors
from anchor.node.limits import MAX_ADDRESSES, Buckets, group_address
from tests.node.http.conftest import Site, open_site
from tests.node.http.tools import SSZ, VERSION, get_data

POST = "POST /anchor/v1/entries HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\n"


async def _raw(site: Site, data: bytes, seconds: float = 10) -> bytes:
    """All that the node answers to these bytes until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), seconds)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def _still_answers(site: Site) -> bool:
    return bool(await get_data(site, VERSION))


async def test_a_body_that_says_it_is_too_large(site: Site) -> None:
    answer = await _raw(site, f"{POST}Content-Length: 99999999999\r\n\r\n".encode() + bytes(1 << 20))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert await _still_answers(site)


async def test_a_body_that_does_not_say_so(site: Site) -> None:
    chunks = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    answer = await _raw(site, f"{POST}Transfer-Encoding: chunked\r\n\r\n".encode() + 2 * chunks)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_comes_too_slowly(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "IDLE_SECONDS", 0.2)
    start = time.monotonic()
    answer = await _raw(site, f"{POST}Content-Length: 100\r\n\r\n0123".encode())
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - start < 5


async def test_a_head_that_never_ends(ledger: tuple[Path, bytes]) -> None:
    async with open_site(*ledger, doors=Doors(first_seconds=0.3)) as site:
        assert await _raw(site, b"GET / HTTP/1.1\r\nHost: ") == b""
        assert await _raw(site, b"") == b""
        assert await _still_answers(site)
        await asyncio.sleep(0.4)
        assert await _still_answers(site)  # whoever has asked may stay


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join([b"X-%d: 1\r\n" % i for i in range(1000)]) + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"\xff" * 1000 + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    ],
    ids=["target", "field", "fields", "TLS", "garbage", "version", "smuggling", "negative"],
)
async def test_a_head_that_is_none(site: Site, head: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert (await _raw(site, head)).startswith(b"HTTP/1.0 400 ") or (await _raw(site, head)).startswith(
        b"HTTP/1.1 400 "
    )
    assert await _still_answers(site)
    assert not caplog.records  # else anyone could fill the disk with them


async def test_who_leaves_is_no_news(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"GET /anchor/v1/events HTTP/1.1\r\nHost: a\r\n\r\n")
    while not site.node.events.subscribers:
        await asyncio.sleep(0.01)
    writer.close()
    await asyncio.sleep(0.1)
    while site.node.events.subscribers:
        site.node.events.publish("head", {})
        await asyncio.sleep(0.01)
    assert not caplog.records


async def test_a_fault_of_ours_is_logged(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(site.node, "judge_health", None)
    async with site.client.get("/health") as response:
        assert response.status == 500
    assert "TypeError" in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"entry":' * 7_000,
        b"{}",
        b"null",
        b'{"entry": {}, "entry": {}}',
        b'{"entry": NaN, "signatures": []}',
        b'{"entry": 1' + b"0" * 60_000 + b', "signatures": []}',
        b'"\\ud800"',
        b"\xff\xfe",
        b"",
    ],
)
async def test_json_that_means_harm(site: Site, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with site.client.post("/anchor/v1/entries", data=body, headers=headers) as response:
        assert response.status == 400
        assert len(await response.read()) < 2_000


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "multipart/form-data; boundary=a"},
    ],
)
async def test_a_body_of_another_form(site: Site, headers: dict[str, str]) -> None:
    answer = await _raw(
        site,
        b"POST /anchor/v1/entries HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n"
        + b"".join([f"{name}: {value}\r\n".encode() for name, value in headers.items()])
        + b"\r\na",
    )
    assert answer.startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/anchor/v1/../../etc/passwd",
        "//etc/passwd",
        "/anchor/v1/models/acme/tiny/versions/..%2f1",
        "/anchor/v1/manifests/..%5c..%5c",
        "/static/x",
        "/ledger.sqlite",
    ],
)
async def test_paths_lead_nowhere(site: Site, path: str) -> None:
    answer = await _raw(site, f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ", 2)[1] in (b"400", b"404")
    assert b"root:" not in answer


async def test_a_flood_from_one_address_is_held_off(ledger: tuple[Path, bytes]) -> None:
    async with open_site(*ledger, rate=5) as site:
        codes = []
        for _ in range(40):
            async with site.client.get("/health") as response:
                codes.append(response.status)
        assert codes[:20] == [200] * 20
        assert codes.count(429) >= 5
        async with site.client.get("/health") as response:
            assert response.status == 429
            wait = int(response.headers["Retry-After"])
        await asyncio.sleep(min(wait, 2))
        async with site.client.get("/health") as response:
            assert response.status == 200


def test_each_address_has_its_own_allowance() -> None:
    buckets = Buckets(rate=1, burst=2)
    assert [buckets.take("10.0.0.1", 1, now=0) for _ in range(3)] == [0, 0, 1]
    assert buckets.take("10.0.0.2", 1, now=0) == 0
    assert buckets.take("10.0.0.1", 1, now=1) == 0
    assert buckets.take("10.0.0.1", 5, now=2) == 1  # more than ever fits: a full bucket is enough
    assert buckets.take("10.0.0.1", 5, now=3) == 0


def test_a_network_of_ipv6_is_one_asker() -> None:
    assert group_address("2001:db8:1:2::1") == group_address("2001:db8:1:2:ffff::9")
    assert group_address("2001:db8:1:2::1") != group_address("2001:db8:1:3::1")
    assert group_address("::ffff:10.0.0.1") == group_address("10.0.0.1")


def test_the_table_of_allowances_is_bounded() -> None:
    buckets = Buckets(rate=1, burst=1)
    for number in range(MAX_ADDRESSES + 10):
        buckets.take(f"a{number}", 1, now=0)
    assert len(buckets._buckets) == MAX_ADDRESSES


async def test_connections_are_bounded(ledger: tuple[Path, bytes]) -> None:
    async with open_site(*ledger, doors=Doors(most=8, most_per_address=4)) as site:
        held = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(4)]
        await asyncio.sleep(0.1)
        assert await _raw(site, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n") == b""
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.2)
        assert await _still_answers(site)


async def test_who_reads_slowly_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.3)
    big = Encoded(bytes(32 << 20), {"Content-Type": SSZ})
    monkeypatch.setattr(site.front.cache, "get", lambda *_: big)
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1)
    writer.write(f"GET {VERSION} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    await asyncio.sleep(1.5)
    with pytest.raises(ConnectionError):
        while await reader.read(1 << 20):
            pass
        raise ConnectionResetError  # closed without a word: as good
    writer.close()


async def test_who_reads_no_short_answers_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.3)
    doors = Doors()
    async with open_site(site.folder, site.seed, writes=False, doors=doors) as other:
        _, writer = await asyncio.open_connection("127.0.0.1", other.port, limit=1)
        async with asyncio.timeout(30):
            while not doors.inside:
                await asyncio.sleep(0.01)
            while doors.inside:
                writer.write(100 * b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n")
                await asyncio.sleep(0.1)
        writer.close()


async def test_honest_traffic_goes_on_beside_a_crowd(site: Site) -> None:
    async def harm() -> None:
        await _raw(site, f"{POST}Content-Length: 99999\r\n\r\n".encode() + bytes(70_000), 20)

    crowd = [asyncio.create_task(harm()) for _ in range(100)]
    start = time.monotonic()
    for _ in range(10):
        assert await _still_answers(site)
    assert time.monotonic() - start < 10
    await asyncio.gather(*crowd)


async def test_long_bodies_are_read_a_few_at_a_time(site: Site) -> None:
    path = f"/anchor/v1/manifests/0x{'1' * 64}"
    site.front.uploads = answering.MAX_UPLOADS
    async with site.client.put(path, data=b"", headers={"Content-Type": SSZ}) as response:
        assert response.status == 503
    assert site.front.uploads == answering.MAX_UPLOADS


@pytest.mark.parametrize("path", ["/openapi.json", "/anchor/v1/events"])
async def test_who_leaves_in_the_middle_leaves_no_trace(
    site: Site, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "BEAT_SECONDS", 0.05)
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        await reader.read(100)
        writer.transport.abort()
    await asyncio.sleep(0.5)
    assert await _still_answers(site)
    assert not [record for record in caplog.records if record.exc_info]
