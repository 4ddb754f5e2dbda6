"""Case 12: addresses with keys and passwords, which are used, never shown, and sent nowhere else."""

from __future__ import annotations

import base64
import json

import pytest

import anchor.chain.beacon.endpoint
from anchor.chain.beacon.endpoint import follow_redirect, parse_endpoint
from anchor.chain.beacon.sync import Settings, survey, sync_checkpoint
from anchor.errors import AnchorError, MalformedAnswer, Misuse
from tests.chain.captures import ALTAIR, Capture
from tests.chain.conftest import MakeClient
from tests.chain.nodes import JSON, MISSING, Node, Reply, redirecting, running

CAPTURE = Capture(ALTAIR, 1)
KEY = "s3cr3t-key"
BLOCKS = "/eth/v2/beacon/blocks/"


def with_key(path: str, headers: dict[str, str]) -> Reply:
    """A node behind a key in the path; a second slash or none is another address."""
    if not path.startswith(f"/{KEY}/eth/"):
        return Reply(b'{"code":401,"message":"no key"}', status=401)
    return CAPTURE.answers(path.removeprefix(f"/{KEY}"), headers)


@pytest.mark.parametrize("slash", ["", "/", "//"])
async def test_12_a_key_in_the_path(connect: MakeClient, slash: str) -> None:
    async with running(with_key) as node:
        client = connect(f"{node.url}/{KEY}{slash}")
        await sync_checkpoint([client], CAPTURE.checkpoint, Settings(), CAPTURE.now)
        assert not [path for path in node.paths if "//" in path]
        assert client.label == f"{node.url}/…"


@pytest.mark.parametrize(
    "place", ["http://{0}@HOST", "http://u:{0}@HOST", "http://HOST/{0}", "http://HOST?k={0}"]
)
async def test_12_credentials_are_never_shown(connect: MakeClient, place: str) -> None:
    async with running(lambda path, headers: MISSING) as node:
        url = place.format(KEY).replace("HOST", node.url.removeprefix("http://"))
        client = connect(url)
        with pytest.raises(AnchorError) as refusal:
            await sync_checkpoint([client], CAPTURE.checkpoint, Settings(), CAPTURE.now)
    for shown in (str(refusal.value), client.label, repr(client.endpoint)):
        assert KEY not in shown


@pytest.mark.parametrize("place", ["http://u:{0}@HOST", "http://HOST/{0}", "http://HOST?k={0}"])
@pytest.mark.parametrize("status", [200, 404])
async def test_12_nor_are_they_when_the_server_repeats_them(
    connect: MakeClient, place: str, status: int
) -> None:
    """In the words of an error, in a page, in the name of a type: as it was asked, decoded, as a header."""

    def repeat(path: str, headers: dict[str, str]) -> Reply:
        told = f"no route {path} for {headers.get('authorization')} of {KEY}"
        return Reply(
            json.dumps({"message": told}).encode(), f"text/{KEY}" if status == 200 else JSON, status=status
        )

    async with running(repeat) as node:
        client = connect(place.format(KEY).replace("HOST", node.url.removeprefix("http://")))
        token = client.endpoint.get_authorization().get("Authorization", "Basic -----")[6:]
        with pytest.raises(AnchorError) as refusal:
            await sync_checkpoint([client], CAPTURE.checkpoint, Settings(), CAPTURE.now)
        [claim] = await survey([client])
    for shown in (str(refusal.value), claim.problem):
        assert KEY not in shown and token not in shown and "…" in shown


async def test_12_basic_authentication(connect: MakeClient) -> None:
    async with running(CAPTURE.answers) as node:
        client = connect(node.url.replace("http://", "http://us%40er:pa%3Ass@"))
        await sync_checkpoint([client], CAPTURE.checkpoint, Settings(), CAPTURE.now)
    expected = "Basic " + base64.b64encode(b"us@er:pa:ss").decode()
    assert {headers.get("authorization") for _, headers in node.requests} == {expected}


async def test_12_credentials_stay_with_their_origin(connect: MakeClient) -> None:
    other: Node
    async with running(CAPTURE.answers) as other:
        faults = {BLOCKS: redirecting(f"{other.url}{BLOCKS}0x{CAPTURE.checkpoint.root.hex()}")}
        async with running(CAPTURE.answers, faults) as node:
            client = connect(node.url.replace("http://", "http://user:pass-word@"))
            await sync_checkpoint([client], CAPTURE.checkpoint, Settings(), CAPTURE.now)
    assert other.requests and not [headers for _, headers in other.requests if "authorization" in headers]
    assert all("authorization" in headers for _, headers in node.requests)


def test_12_redirects_that_leak_or_downgrade_are_refused() -> None:
    keyed = parse_endpoint(f"https://node.example/{KEY}")
    here = keyed.join("/eth/v1/x")
    assert follow_redirect(keyed, here, "/elsewhere") == ("https://node.example/elsewhere", True)
    assert follow_redirect(keyed, here, "https://b.example/x") == ("https://b.example/x", False)
    for location in (
        f"https://b.example/{KEY}/x",
        "http://b.example/x",
        "https://u:p@b.example/",
        "ftp://b/",
    ):
        with pytest.raises(MalformedAnswer) as refusal:
            follow_redirect(keyed, here, location)
        assert KEY not in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node.example",
        "ftp://node",
        "http://",
        "http://h:port",
        "http://[::1",
        "http://h/#x",
        "http://u:secret@",
        "http://u:secret@exa mple",
        "http://u:secret@h\x1b[31m",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(Misuse) as refusal:
        parse_endpoint(text)
    assert "secret" not in str(refusal.value)


def test_addresses_are_joined() -> None:
    endpoint = parse_endpoint("http://[::1]:5052/a/b/?key=1")
    assert endpoint.join("/eth?x=2") == "http://[::1]:5052/a/b/eth?x=2&key=1"
    assert endpoint.join("/eth") == "http://[::1]:5052/a/b/eth?key=1"
    assert endpoint.label == "http://[::1]:5052/…"
    assert parse_endpoint("https://h").label == "https://h"


def test_the_zone_of_an_address_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As RFC 6874 writes it, and as people do."""
    monkeypatch.setattr(anchor.chain.beacon.endpoint, "if_nametoindex", {"eth0": 2}.__getitem__)
    for zone in ("%25eth0", "%eth0"):
        endpoint = parse_endpoint(f"http://[fe80::1{zone}]:5052")
        assert endpoint.join("/eth") == "http://[fe80::1%2]:5052/eth"
