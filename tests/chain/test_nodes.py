"""Fetching from nodes that mean harm: bounded, and told in a sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count

import pytest

from anchor.chain import nodes
from anchor.chain.nodes import JSON, SSZ, fetch_bundle, fetch_data, send
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import AnchorError, InvalidEntry, MalformedAnswer, Misuse, NotServed, Unavailable

TRUSTED = Checkpoint(epoch=3, root=bytes(32))
Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Starts a server that answers as it is told; gives its address."""
    servers = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def do_POST(self) -> None:
                answer(self)

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _send(status: int, media: str, body: bytes, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": media, **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def _fetch(url: str) -> bytes:
    return fetch_bundle(url, "acme/tiny", "1.0", TRUSTED)


def test_what_is_asked_for(serve: Callable[[Answer], str]) -> None:
    paths = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        paths.append((handler.path, handler.headers["Accept"]))
        _send(200, SSZ, b"bundle")(handler)

    assert _fetch(serve(answer)) == b"bundle"
    root = bytes(32).hex()
    assert paths == [(f"/anchor/v1/models/acme/tiny/versions/1.0/bundle?trust=0x{root}:3", SSZ)]


def test_too_much_is_not_read(serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MAX_BUNDLE_BYTES", 100_000)
    with pytest.raises(Unavailable, match="more than the 100000 bytes"):
        _fetch(serve(_send(200, SSZ, bytes(200_000))))


def test_too_slow_is_not_waited_for(serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "IDLE_SECONDS", 0.2)
    blocked = threading.Event()
    with pytest.raises(Unavailable, match="does not answer"):
        _fetch(serve(lambda _: blocked.wait(2) and None))
    blocked.set()


def test_a_trickle_is_not_waited_for(serve: Callable[[Answer], str]) -> None:
    ticks = count(0, 400)
    url = serve(_send(200, SSZ, bytes(200_000)))
    with pytest.raises(Unavailable, match="did not send its bundle"):
        fetch_bundle(url, "acme/tiny", "1.0", TRUSTED, clock=lambda: next(ticks))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_send(404, "application/json", b'{"what": "There is none.", "fix": "Ask."}'), "There is none. Ask."),
        (_send(404, "application/json", b"[" * 20_000), "status 404"),
        (_send(500, "text/html", b"<h1>"), "status 500"),
        (_send(200, "text/html", b"<h1>"), "something else"),
        (_send(302, SSZ, b"", Location="file:///etc/passwd"), "status 302"),
        (_send(302, SSZ, b"", Location="http://127.0.0.1:1/"), "status 302"),
        (lambda handler: handler.wfile.write(b"\xff\r\n\r\n"), "does not answer"),
        (_send(200, SSZ, b"short", **{"Content-Length": "100"}), "does not answer in full"),
    ],
    ids=["none", "deep", "broken", "page", "file", "elsewhere", "garbage", "short"],
)
def test_a_refusal_is_a_sentence(serve: Callable[[Answer], str], answer: Answer, words: str) -> None:
    with pytest.raises(Unavailable, match=words.replace(".", r"\.")):
        _fetch(serve(answer))


def test_nobody_is_there() -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        _fetch("http://127.0.0.1:1")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a",
        "a",
        "",
        "http://",
        "http://a/?x",
        "http://u:p@a",
        "http://[",
        "HTTP:a",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(Misuse, match="no node's address"):
        _fetch(url)


# What is given to a node

REFUSAL = b'{"what": "It is known.", "fix": "Send another."}'


def _give(url: str) -> object:
    return send(url, "POST", "entries", b"entry", "entry", patience=5)


def test_what_is_given_and_answered(serve: Callable[[Answer], str]) -> None:
    seen = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        seen.append((handler.command, handler.path, handler.headers["Content-Type"], body))
        _send(202, JSON, b'{"data": {"position": 7}}')(handler)

    assert _give(serve(answer)) == {"position": 7}
    assert seen == [("POST", "/anchor/v1/entries", SSZ, b"entry")]


@pytest.mark.parametrize(
    ("status", "kind", "what"),
    [
        (422, InvalidEntry, "It is known."),
        (400, Misuse, "does not take the entry: It is known."),
        (503, NotServed, "does not take the entry now: It is known. Send another."),
        (429, NotServed, "does not take the entry now"),
    ],
)
def test_whose_fault_a_refusal_is(
    serve: Callable[[Answer], str], status: int, kind: type[AnchorError], what: str
) -> None:
    """What the rules refuse is not tried again; what the node cannot take now is."""
    with pytest.raises(kind, match=what) as caught:
        _give(serve(_send(status, JSON, REFUSAL)))
    assert type(caught.value) is kind


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"[" * 200, b'{"data": 1, "data": 2}'])
def test_answers_that_are_none(serve: Callable[[Answer], str], body: bytes) -> None:
    url = serve(_send(200, JSON, body))
    with pytest.raises(MalformedAnswer, match="sent what is no answer of a node"):
        fetch_data(url, "status", "status")
    with pytest.raises(MalformedAnswer, match="sent what is no answer of a node"):
        _give(url)


def test_an_answer_is_bounded(serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MAX_DATA_BYTES", 1000)
    with pytest.raises(Unavailable, match="more than the 1000 bytes that a status has"):
        fetch_data(serve(_send(200, JSON, bytes(2000))), "status", "status")
