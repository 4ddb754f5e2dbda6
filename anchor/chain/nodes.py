"""Asking a node that is not trusted for a bundle: HTTP from the standard library, bounded in size and time.

What comes is bytes, to be verified like any other bundle.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from json import loads
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from anchor.bundle.types import MAX_BUNDLE_BYTES
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint
from anchor.errors import Misuse, Unavailable

SSZ: Final = "application/octet-stream"
IDLE_SECONDS: Final = 20.0
TOTAL_SECONDS: Final = 600.0
PART: Final = 1 << 16
MAX_WORDS: Final = 1 << 14
"""Bytes of a refusal that are read."""


class _NoRedirects(HTTPRedirectHandler):
    """A node answers for itself."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch_bundle(
    url: str,
    model: str,
    version: str,
    trusted: Checkpoint,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> bytes:
    """The bundle that the node at `url` gives for a version of `organisation/name` and a trusted checkpoint.

    Raises Misuse for what is no address of a node, Unavailable when the node does not answer, has none, or
    sends too much or too slowly.
    """
    base = _require_url(url)
    organisation, _, name = model.partition("/")
    path = "/".join([quote(part, safe="") for part in ("models", organisation, name, "versions", version)])
    request = Request(  # noqa: S310 (its scheme was checked)
        f"{base}/anchor/v1/{path}/bundle?trust={format_checkpoint(trusted)}", headers={"Accept": SSZ}
    )
    opener: OpenerDirector = build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=IDLE_SECONDS) as response:
            return _read(response, url, clock)
    except HTTPError as error:
        with error:
            raise Unavailable(f"{url} has no such bundle: {_explain(error)}") from None
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(f"{url} does not answer: {reason}.", fix="Try another node.") from None


def _require_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if (
        not host
        or parts.scheme not in ("http", "https")
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise Misuse(f"{url!a} is no node's address.", fix="Write it as https://node.example:8960.")
    return url.rstrip("/")


def _read(response: HTTPResponse, url: str, clock: Callable[[], float]) -> bytes:
    if response.headers.get_content_type() != SSZ:
        raise Unavailable(f"{url} sent something else than a bundle.", fix="Check that it is a node.")
    parts, size, end = [], 0, clock() + TOTAL_SECONDS
    while part := response.read(PART):
        parts.append(part)
        size += len(part)
        if size > MAX_BUNDLE_BYTES:
            raise Unavailable(f"{url} sent more than the {MAX_BUNDLE_BYTES} bytes that a bundle has.")
        if clock() > end:
            raise Unavailable(
                f"{url} did not send its bundle in {TOTAL_SECONDS:.0f} s.", fix="Try another node."
            )
    if response.length:
        raise Unavailable(f"{url} does not answer in full: {response.length} bytes are missing.")
    return b"".join(parts)


def _explain(error: HTTPError) -> str:
    """The node's own words, as far as it has any."""
    try:
        details = loads(error.read(MAX_WORDS))
        return f"{details['what']} {details['fix']}"[:500].strip()
    except (ValueError, KeyError, TypeError, RecursionError, OSError, HTTPException):
        return f"status {error.code}."
