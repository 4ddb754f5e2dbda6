"""Entries that are sent in: recorded once, final when acknowledged, refused in words; what listeners hear."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from anchor.bundle.evidence import Expectations
from anchor.bundle.verify import verify_bundle
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.text import format_checkpoint
from anchor.merkle.json import to_json
from anchor.merkle.scope import hash_tree_root, schema_of
from anchor.node import node as node_module
from anchor.node import writer as writer_module
from anchor.node.folder import open_reader
from anchor.node.reading import Reader
from tests.node.http.conftest import Site, open_site
from tests.node.http.tools import SSZ, get_data, get_genesis, get_ssz, post, write_entries
from tests.node.tools import NOW, make_manifest


async def test_an_entry_is_final_when_it_is_acknowledged(site: Site) -> None:
    (entry,) = await write_entries(site, "2")
    async with await post(site, entry) as response:
        assert response.status == 200
        receipt = (await response.json())["data"]
    assert receipt["root"] == f"0x{hash_tree_root(entry).hex()}"
    assert receipt["final"] == format_checkpoint(site.node.status.finalized)
    with open_reader(site.folder) as chain:  # as another process sees it
        assert chain.get_signed_entry(receipt["position"]) == entry
        assert chain.get_status().final_entries > receipt["position"]
    assert (await get_data(site, "/anchor/v1/models/acme/tiny/versions/2"))["entry"] == receipt["position"]


async def test_json_and_ssz_say_the_same(site: Site) -> None:
    (entry,) = await write_entries(site, "2")
    document = to_json(schema_of(SignedEntry), entry)
    async with site.client.post("/anchor/v1/entries", json=document) as response:
        first = await response.json()
    async with await post(site, entry) as response:  # the same again: the same answer
        assert response.status == 200
        assert (await response.json())["data"]["position"] == first["data"]["position"]
    assert site.node.status.entries == first["data"]["position"] + 1


async def test_a_refusal_names_the_rule(site: Site) -> None:
    (entry,) = await write_entries(site, "1")  # a second publication of that version
    async with await post(site, entry) as response:
        assert response.status == 422
        details = await response.json()
    assert details["kind"] == "InvalidEntry"
    assert "acme/tiny@1" in details["what"]
    (entry,) = await write_entries(site, "2")
    forged = entry.replace(signatures=(bytes(64),))
    async with await post(site, forged) as response:
        assert (response.status, (await response.json())["kind"]) == (422, "InvalidSignature")
    assert site.node.status.entries == 4


async def test_one_bad_entry_spoils_no_others(site: Site) -> None:
    (good,) = await write_entries(site, "2")
    bad = good.replace(signatures=(bytes(64),))
    answers = await asyncio.gather(*[post(site, entry) for entry in (bad, good, good, bad)])
    assert [answer.status for answer in answers] == [422, 200, 200, 422]
    assert len({(await answer.json())["data"]["position"] for answer in answers[1:3]}) == 1


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff" * 4096])
async def test_what_is_no_entry(site: Site, body: bytes) -> None:
    async with site.client.post("/anchor/v1/entries", data=body, headers={"Content-Type": SSZ}) as response:
        assert response.status == 400


async def test_a_manifest_is_sent_in_after_its_publication(site: Site) -> None:
    root, data = make_manifest("2")
    path, headers = f"/anchor/v1/manifests/0x{root.hex()}", {"Content-Type": SSZ}
    async with site.client.put(path, data=data, headers=headers) as response:
        assert response.status == 404  # no version names it: nobody may fill the disk
    (entry,) = await write_entries(site, "2")
    await (await post(site, entry)).read()
    async with site.client.get(path) as response:
        assert response.status == 404
    for body in (make_manifest("3")[1], data[:-1], b""):
        async with site.client.put(path, data=body, headers=headers) as response:
            assert response.status == 400
    for status in (201, 200):
        async with site.client.put(path, data=data, headers=headers) as response:
            assert response.status == status
    assert await get_ssz(site, path) == data
    genesis = await get_genesis(site)
    bundle = await get_ssz(
        site, "/anchor/v1/models/acme/tiny/versions/2/bundle", trust=format_checkpoint(genesis)
    )
    assert verify_bundle(bundle, genesis, Expectations(), now=NOW).version == "2"


async def test_a_node_that_only_reads(ledger: tuple[Path, bytes]) -> None:
    async with open_site(*ledger, writes=False) as site:
        assert not (await get_data(site, "/anchor/v1/status"))["takes_entries"]
        (entry,) = await write_entries(site, "2")
        async with await post(site, entry) as response:
            assert response.status == 400
            assert "only reads" in (await response.json())["what"]


async def test_too_many_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.node._writer, "_queue", asyncio.Queue(1))  # which nobody empties
    monkeypatch.setattr(writer_module, "PATIENCE", 0.2)
    first, second = await write_entries(site, "2", "3")
    answers = await asyncio.gather(post(site, first), post(site, second))
    assert [answer.status for answer in answers] == [503, 503]
    said = [(await answer.json())["what"] for answer in answers]
    assert "not final after" in said[0]
    assert "too many entries wait" in said[1]
    monkeypatch.setattr(node_module, "MAX_READS", 0)
    async with site.client.get("/anchor/v1/models") as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"


# Events


async def _listen(site: Site, count: int, **headers: str) -> list[tuple[str, str, dict[str, object]]]:
    """Number, topic and data of the first `count` events."""
    found = []
    async with site.client.get("/anchor/v1/events", headers=headers) as response:
        assert response.content_type == "text/event-stream"
        while len(found) < count:
            block = await asyncio.wait_for(response.content.readuntil(b"\n\n"), 30)
            if block.startswith(b"id:"):
                number, topic, data = [line.partition(": ")[2] for line in block.decode().strip().split("\n")]
                found.append((number, topic, json.loads(data)))
    return found


async def test_listeners_hear_of_an_entry_until_it_is_final(site: Site) -> None:
    listening = [asyncio.create_task(_listen(site, 4)) for _ in range(3)]
    while site.node.events.subscribers < 3:
        await asyncio.sleep(0.01)
    (entry,) = await write_entries(site, "2")
    await (await post(site, entry)).read()
    heard = await asyncio.gather(*listening)
    assert heard[0] == heard[1] == heard[2]
    assert [topic for _, topic, _ in heard[0]] == ["head", "entry", "justified", "finalized"]
    assert heard[0][1][2]["root"] == f"0x{hash_tree_root(entry).hex()}"
    assert heard[0][3][2]["checkpoint"] == format_checkpoint(site.node.status.finalized)
    resumed = await _listen(site, 2, **{"Last-Event-ID": heard[0][1][0]})
    assert resumed == heard[0][2:]


async def test_a_listener_is_not_waited_for(site: Site) -> None:
    with site.node.events.subscribe(frozenset(["head"])) as subscription:
        for slot in range(300):
            site.node.events.publish("head", {"slot": slot})
        assert site.node.events.subscribers == 0
        assert subscription.queue.qsize() == 257
        events = [subscription.queue.get_nowait() for _ in range(257)]
    assert events[-1] is None
    assert [event.number for event in events[:-1] if event] == list(range(1, 257))


async def test_what_another_process_writes_is_told_too(ledger: tuple[Path, bytes]) -> None:
    from tests.node.tools import opened, publish

    async with open_site(*ledger, writes=False) as site:
        old = site.node.status.entries
        listening = asyncio.create_task(_listen(site, 1))
        while not site.node.events.subscribers:
            await asyncio.sleep(0.01)
        with opened(*ledger) as service:
            publish(service, "2")
        assert (await listening)[0][1] == "head"
        assert (await site.node.read(Reader.list_entries, old, 10)).items
