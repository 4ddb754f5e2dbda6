"""Addresses of nodes: their one form, and which of those that strangers tell of may be dialled."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from anchor.errors import Misuse
from anchor.node.network.messages import MAX_ADDRESS_BYTES


def parse_url(text: str) -> str:
    """The address of a node in its one form, as in https://node.example:8960. Raises Misuse."""
    wrong = Misuse(f"{text[:80]!a} is no node's address.", fix="Write it as https://node.example:8960.")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    is_plain = not (parts.query or parts.fragment or parts.path.strip("/") or "@" in parts.netloc)
    is_short = text.isascii() and text.isprintable() and len(text) <= MAX_ADDRESS_BYTES
    if not host or parts.scheme not in ("http", "https") or not is_plain or not is_short or " " in text:
        raise wrong
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + ("" if port is None else f":{port}")


def is_public(url: str) -> bool:
    """Whether an address may lead out into the world: a name, or a number that is routed there."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return ip_address(host).is_global
    except ValueError:
        return True


def may_dial(told: str, teller: str) -> bool:
    """Whether `told` may be dialled on the word of a peer at the network address `teller`.

    A peer from the world cannot make a node knock at doors of the network that it stands in.
    """
    try:
        return is_public(told) or not ip_address(teller).is_global
    except ValueError:
        return is_public(told)
