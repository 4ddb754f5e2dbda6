"""The page for people: escaped, self-sufficient, and locked down."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

from anchor.node.health import Health
from anchor.node.reading import Reader
from anchor.node.web.page import POLICY, render_page
from anchor.node.web.tree import draw_tree
from tests.node.http.conftest import Site

EVIL = "<script>alert(1)</script>\"'&"


class _Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


async def test_the_page_shows_finality_and_versions(site: Site) -> None:
    async with site.client.get("/") as response:
        assert response.content_type == "text/html"
        html = await response.text()
        policy = response.headers["Content-Security-Policy"]
    assert "acme/tiny@1" in html
    assert f"0x{site.node.status.finalized.root.hex()}:2" in html
    assert "<svg" in html
    style = re.search("<style>(.*)</style>", html, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert policy == POLICY
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")


async def test_the_page_needs_nothing_from_elsewhere(site: Site) -> None:
    async with site.client.get("/") as response:
        html = await response.text()
    for tag, attributes in _Tags(html).tags:
        assert tag not in ("script", "img", "link", "iframe", "form", "object", "embed")
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        assert (attributes.get("href") or "/").startswith("/")
    assert "http:" not in html
    assert "https:" not in html


async def test_what_comes_from_outside_is_escaped(site: Site) -> None:
    newest = await site.node.read(Reader.list_newest, 1)
    leaf = newest[0].leaf.replace(model=EVIL.encode(), version=EVIL.encode())
    status = replace(site.node.status, name=EVIL)
    html = render_page(status, Health(False, EVIL, 0), [newest[0]._replace(leaf=leaf)])
    assert EVIL not in html
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 4
    assert "script" not in [tag for tag, _ in _Tags(html).tags]


def test_the_tree_escapes_its_labels() -> None:
    assert "<script" not in draw_tree([EVIL])
