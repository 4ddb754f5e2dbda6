"""Errors as answers: a status, and the same three words as on the command line."""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web

from anchor.errors import (
    AnchorError,
    CorruptedLedger,
    Invalid,
    Malformed,
    Misuse,
    NoSuchRecord,
    Unavailable,
    Unsafe,
)
from anchor.node.api.routes import JSON

STATUSES: Final[tuple[tuple[type[AnchorError], int], ...]] = (
    (NoSuchRecord, 404),
    (CorruptedLedger, 500),
    (Unavailable, 503),
    (Misuse, 400),
    (Malformed, 400),
    (Unsafe, 400),
    (Invalid, 422),
)
"""The first that fits."""
COMMON: Final = {
    400: "A value in the path, the query, a header or the body cannot be read, or cannot be meant.",
    401: "The route is the operators', and no operator's token came with the request.",
    404: "There is no such thing here.",
    406: "None of the forms that are accepted can be had.",
    413: "The body is too large.",
    415: "The body has a form that is not read here.",
    408: "The body came too slowly.",
    422: "The ledger's rules refuse it.",
    429: "Too many requests from one address.",
    500: "The ledger's store is damaged.",
    503: "The node is busy, stops, or cannot use its store now.",
}
"""What a status says."""
BEACON: Final = "/eth/"
"""Where the Beacon API is: its errors have its own form."""
WORDS: Final = {404: "There is nothing at this path.", 405: "This path does not take that method."}


class Refused(AnchorError):
    """A request that HTTP itself has a word for."""

    def __init__(
        self,
        status: int,
        what: str,
        *,
        fix: str = "",
        headers: dict[str, str] | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(what, fix=fix)
        self.status, self.headers = status, headers or {}
        self.closes = closes
        """Whether the connection ends with it: the rest of a body is not worth reading."""


def show_failure(error: AnchorError, path: str) -> web.Response:
    """The answer that tells of `error` at a path."""
    if isinstance(error, Refused):
        response = _answer(path, error.status, "Refused", error, error.headers)
        if error.closes:
            response.force_close()
        return response
    status = next(status for kind, status in STATUSES if isinstance(error, kind))
    headers = {"Retry-After": "1"} if status == 503 else {}
    return _answer(path, status, type(error).__name__, error, headers)


def show_http_failure(error: web.HTTPException, path: str) -> web.Response:
    """The same form for what aiohttp refuses: unknown paths and methods."""
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    told = AnchorError(WORDS.get(error.status, error.reason), fix="See: /openapi.json")
    return _answer(path, error.status, "Refused", told, headers)


def _answer(path: str, status: int, kind: str, error: AnchorError, headers: dict[str, str]) -> web.Response:
    details: dict[str, Any] = {"code": status, "kind": kind, "what": error.what, "fix": error.fix}
    if path.startswith(BEACON):
        details = {"code": status, "message": str(error)}
    headers = {"Cache-Control": "no-store", **headers}
    return web.Response(body=json.dumps(details).encode(), status=status, content_type=JSON, headers=headers)
