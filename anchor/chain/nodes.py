"""Asking a node that is not trusted, and giving it entries: by the standard library, bounded.

What comes is bytes, to be verified, and words, to be believed or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from json import loads
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from anchor.bundle.types import MAX_BUNDLE_BYTES
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint
from anchor.errors import InvalidEntry, MalformedAnswer, MalformedFile, Misuse, NotServed, Unavailable
from anchor.ml.formats.strict_json import parse

SSZ: Final = "application/octet-stream"
JSON: Final = "application/json"
REFUSED: Final = 422
MISUSED: Final = 400
IDLE_SECONDS: Final = 20.0
TOTAL_SECONDS: Final = 600.0
PART: Final = 1 << 16
MAX_DATA_BYTES: Final = 1 << 20
"""Of an answer in plain values."""
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

    Raises as `fetch`.
    """
    organisation, _, name = model.partition("/")
    path = "/".join([quote(part, safe="") for part in ("models", organisation, name, "versions", version)])
    path = f"{path}/bundle?trust={format_checkpoint(trusted)}"
    return fetch(url, path, "bundle", MAX_BUNDLE_BYTES, clock=clock)


def fetch(
    url: str,
    path: str,
    what: str,
    limit: int,
    *,
    media: str = SSZ,
    clock: Callable[[], float] = time.monotonic,
) -> bytes:
    """What the node at `url` gives at `path`, in so many bytes at most.

    Raises Misuse for what is no address of a node, NotServed when it has no such thing, Unavailable when it
    does not answer, or sends too much or too slowly.
    """
    with _ask(url, path, headers={"Accept": media}) as (response, refusal):
        if refusal is None:
            return _read(response, url, (what, limit, media), clock)
        raise NotServed(f"{url} has no such {what}: {refusal.words}", status=refusal.status)


def fetch_data(url: str, path: str, what: str) -> Any:
    """The plain values that the node at `url` gives at `path`. Raises as `fetch`, MalformedAnswer."""
    return _parse(fetch(url, path, what, MAX_DATA_BYTES, media=JSON), url)


def send(url: str, method: str, path: str, body: bytes, what: str, *, patience: float) -> Any:
    """What the node at `url` answers to what it is given, in SSZ, within `patience` seconds.

    Raises InvalidEntry when the ledger's rules refuse it, Misuse when the node never takes it, NotServed when
    it does not take it now, Unavailable, MalformedAnswer.
    """
    headers = {"Accept": JSON, "Content-Type": SSZ}
    asked = _ask(url, path, method=method, body=body, headers=headers, patience=patience)
    with asked as (response, refusal):
        if refusal is None:
            return _parse(_read(response, url, ("receipt", MAX_DATA_BYTES, JSON), time.monotonic), url)
        if refusal.status == REFUSED:
            raise InvalidEntry(refusal.what, fix=refusal.fix)
        if refusal.status == MISUSED:
            raise Misuse(f"{url} does not take the {what}: {refusal.what}", fix=refusal.fix)
        raise NotServed(f"{url} does not take the {what} now: {refusal.words}", status=refusal.status)


class _Refusal(NamedTuple):
    """A node's own words, as far as it has any."""

    status: int
    what: str
    fix: str = ""

    @property
    def words(self) -> str:
        return f"{self.what} {self.fix}".strip()


@contextmanager
def _ask(
    url: str,
    path: str,
    *,
    headers: Mapping[str, str],
    method: str = "GET",
    body: bytes | None = None,
    patience: float = IDLE_SECONDS,
) -> Iterator[tuple[HTTPResponse, _Refusal | None]]:
    """The answer of the node at `url`, or its refusal."""
    address = f"{_require_url(url)}/anchor/v1/{path}"
    request = Request(address, body, dict(headers), method=method)  # noqa: S310 (its scheme was checked)
    opener: OpenerDirector = build_opener(_NoRedirects)
    try:
        try:
            with opener.open(request, timeout=patience) as response:
                yield response, None
        except HTTPError as error:
            with error:
                yield error, _explain(error)  # type: ignore[misc]  # it is a response, too
    except (URLError, HTTPException, OSError, UnicodeError) as error:
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


def _read(
    response: HTTPResponse, url: str, wanted: tuple[str, int, str], clock: Callable[[], float]
) -> bytes:
    what, limit, media = wanted
    if response.headers.get_content_type() != media:
        raise Unavailable(f"{url} sent something else than a {what}.", fix="Check that it is a node.")
    parts, size, end = [], 0, clock() + TOTAL_SECONDS
    while part := response.read(PART):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise Unavailable(f"{url} sent more than the {limit} bytes that a {what} has.")
        if clock() > end:
            raise Unavailable(
                f"{url} did not send its {what} in {TOTAL_SECONDS:.0f} s.", fix="Try another node."
            )
    if response.length:
        raise Unavailable(f"{url} does not answer in full: {response.length} bytes are missing.")
    return b"".join(parts)


def _parse(data: bytes, url: str) -> Any:
    try:
        return parse(data, "the answer")["data"]  # type: ignore[index]
    except (MalformedFile, KeyError, TypeError):
        raise MalformedAnswer(f"{url} sent what is no answer of a node.", fix="Try another node.") from None


def _explain(error: HTTPError) -> _Refusal:
    try:
        details = loads(error.read(MAX_WORDS))
        return _Refusal(error.code, str(details["what"])[:500], str(details["fix"])[:500])
    except (ValueError, KeyError, TypeError, RecursionError, OSError, HTTPException):
        return _Refusal(error.code, f"status {error.code}.")
