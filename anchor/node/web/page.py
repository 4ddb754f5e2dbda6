"""The page for people: HTML that needs nothing from elsewhere. All that comes from outside is escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from typing import Final

from anchor.consensus.text import format_checkpoint, format_identity, get_stage_name
from anchor.node.api.forms import show_time
from anchor.node.health import Health
from anchor.node.reading import Published
from anchor.node.status import Status
from anchor.node.web.tree import draw_tree

NEWEST: Final = 20
STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1b1f24; background: #fff; --line: #d8dee4; --way: #0b57d0; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
code { font-size: .85em; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); }
.bad, .revoked { color: #b42318; font-weight: 600; } .ok { color: #067647; font-weight: 600; }
svg { width: 100%; height: auto; font: 12px ui-monospace, monospace; } svg text { fill: currentColor; }
line.way { stroke: var(--way); stroke-width: 2.5; } line.rest { stroke: var(--line); }
line.branch { stroke: var(--way); stroke-dasharray: 3 3; }
circle.way { fill: var(--way); } circle.rest { fill: var(--line); }
circle.branch { fill: none; stroke: var(--way); stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8ea; background: #14171a; --line: #30363d; --way: #8ab4f8; }
  .bad, .revoked { color: #f97066; } .ok { color: #47cd89; }
}
"""
_DIGEST: Final = b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The page's Content-Security-Policy: its own style, and nothing else."""
EXPLANATION: Final = (
    "<p>A filled node is computed from the two below it; a ringed one comes with the proof. Whoever trusts "
    "the checkpoint at the top can check every byte at the bottom, offline.</p>"
)
LINKS: Final = (
    "<p>Programs: <a href=/openapi.json>openapi.json</a>, <a href=/health>health</a>, "
    "<a href=/metrics>metrics</a>.</p></html>"
)


def render_page(status: Status, health: Health, newest: Sequence[Published]) -> str:
    """The whole page."""
    return "".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8>",
            '<meta name=viewport content="width=device-width,initial-scale=1">',
            f"<title>{escape(status.name)}</title><style>{STYLE}</style>",
            f"<h1>{escape(status.name)}</h1>",
            _render_health(health),
            _render_facts(status),
            "<h2>Newest versions</h2>",
            _render_versions(newest),
            "<h2>What a proof shows</h2>",
            draw_tree(_label(status, newest)),
            EXPLANATION,
            LINKS,
        ]
    )


def _render_health(health: Health) -> str:
    kind = "ok" if health.is_good else "bad"
    return f"<p class={kind}>{escape(health.words)}</p>"


def _render_facts(status: Status) -> str:
    facts = {
        "final": format_checkpoint(status.finalized),
        "justified": format_checkpoint(status.justified),
        "newest block": f"slot {status.slot}, epoch {status.epoch}, {show_time(status.timestamp)}",
        "entries": f"{status.entries}, {status.final_entries} of them final",
        "validators": str(status.validators),
        "network": f"0x{status.network_id.hex()}",
    }
    rows = [f"<tr><th>{name}<td><code>{escape(value)}</code>" for name, value in facts.items()]
    return f"<table>{''.join(rows)}</table>"


def _render_versions(newest: Iterable[Published]) -> str:
    rows = [_render_version(published) for published in newest]
    head = "<tr><th>version<th>stage<th>published<th>publisher<th>manifest"
    return f"<table>{head}{''.join(rows)}</table>" if rows else "<p>Nothing is published yet.</p>"


def _render_version(published: Published) -> str:
    leaf = published.leaf
    stage = "<span class=revoked>revoked</span>" if leaf.revoked else escape(get_stage_name(leaf.stage))
    name = f"{leaf.model.decode('latin-1')}@{leaf.version.decode('latin-1')}"
    cells = (
        escape(name),
        stage,
        escape(show_time(published.timestamp)),
        f"<code>{escape(format_identity(published.publisher)[:24])}…</code>",
        f"<code>0x{leaf.manifest_root.hex()[:16]}…</code>",
    )
    return f"<tr>{''.join([f'<td>{cell}' for cell in cells])}"


def _label(status: Status, newest: Sequence[Published]) -> list[str]:
    """What stands at each level of the lit way, with this ledger's own values."""
    labels = [f"checkpoint {status.finalized.root.hex()[:12]}…", "state"]
    if newest:
        leaf = newest[0].leaf
        labels += [
            f"version {leaf.version.decode('latin-1')[:16]}",
            f"manifest {leaf.manifest_root.hex()[:12]}…",
        ]
    else:
        labels += ["version", "manifest"]
    return [*labels, "chunk of a tensor"]
