"""Addresses of endpoints, whose credentials are used and never shown."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from socket import if_nametoindex
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urljoin, urlsplit

from anchor.errors import MalformedAnswer, Misuse

SCHEMES: Final = ("http", "https")
MIN_SECRET: Final = 3
"""Characters of the shortest part of an address that is looked for in what a server says."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a beacon node's API is."""

    origin: str
    """Scheme, host and port: `https://node.example:443`."""
    prefix: str = field(default="", repr=False)
    """A path that stands before the API's, without a slash at its end; it may be a key."""
    query: str = field(default="", repr=False)
    """What is added to every request; it may be a key."""
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def label(self) -> str:
        """What may be shown, logged and written: no name, no password, no path, no query."""
        return self.origin + ("/…" if self.prefix or self.query else "")

    def get_authorization(self) -> dict[str, str]:
        """The header that carries name and password (RFC 7617); none where the address has none."""
        token = self._get_token()
        return {"Authorization": f"Basic {token}"} if token else {}

    def _get_token(self) -> str:
        if not (self.user or self.password):
            return ""
        return b64encode(f"{self.user}:{self.password}".encode()).decode()

    def redact(self, text: str) -> str:
        """`text` without what is secret in this address: servers like to repeat what they were asked."""
        parts = [self.password, quote(self.password, safe=""), self._get_token(), *self.prefix.split("/")]
        parts += [value for _, value in parse_qsl(self.query, keep_blank_values=True)]
        for part in sorted({self.query, *parts}, key=len, reverse=True):
            if len(part) >= MIN_SECRET:
                text = text.replace(part, "…")
        return text

    def join(self, path: str) -> str:
        """The address of `path`, which begins with a slash."""
        url = f"{self.origin}{self.prefix}{path}"
        if not self.query:
            return url
        return f"{url}{'&' if '?' in path else '?'}{self.query}"

    def holds_secret(self, url: str) -> bool:
        """Whether an address shows this endpoint's path, query or password."""
        return any(part in url for part in (self.prefix, self.query, self.password) if part)


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint at an address. Raises Misuse, without repeating what may be a password."""
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    is_plain = text.isprintable() and " " not in text
    if parts.scheme not in SCHEMES or not host or parts.fragment or not is_plain:
        raise Misuse("An address of an endpoint is not one.", fix="Write it as in http://127.0.0.1:5052.")
    return Endpoint(
        origin=_origin(parts.scheme, host, port),
        prefix=parts.path.rstrip("/"),
        query=parts.query,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def follow_redirect(endpoint: Endpoint, url: str, location: str) -> tuple[str, bool]:
    """Where a redirect leads, and whether that is still the endpoint's own origin.

    Raises MalformedAnswer where following it would send a secret elsewhere, or leave encryption.
    """
    target = urljoin(url, location)
    try:
        parts = urlsplit(target)
        origin = _origin(parts.scheme, parts.hostname or "", parts.port)
    except ValueError:
        origin = ""
    if not origin.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
        raise MalformedAnswer(f"{endpoint.label} redirects to what is no address of a server.")
    if origin == endpoint.origin:
        return target, True
    if parts.username or parts.password or endpoint.holds_secret(target):
        raise MalformedAnswer(f"{endpoint.label} redirects to {origin} with credentials: not followed.")
    if endpoint.origin.startswith("https:") and not origin.startswith("https:"):
        raise MalformedAnswer(f"{endpoint.label} redirects to {origin}, without encryption: not followed.")
    return target, False


def _origin(scheme: str, host: str, port: int | None) -> str:
    name = f"[{_read_zone(host)}]" if ":" in host else host
    return f"{scheme}://{name}" + (f":{port}" if port else "")


def _read_zone(address: str) -> str:
    """An IPv6 address whose zone, if it has any, is written as the system takes it, not as RFC 6874 does."""
    bare, percent, zone = unquote(address).partition("%")
    with suppress(OSError):  # there is no such interface, or the zone is its number already
        zone = str(if_nametoindex(zone))
    return bare + percent + zone
