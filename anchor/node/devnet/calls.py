"""What is asked of a devnet's nodes over HTTP. They are this machine's own; what they say is bounded."""

from __future__ import annotations

import json
from collections.abc import Container
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from anchor.errors import Unavailable
from anchor.node.devnet.plan import Member

SECONDS: Final = 10.0
MAX_BYTES: Final = 16 << 20


def ask(
    member: Member,
    path: str,
    *,
    token: str = "",
    method: str = "GET",
    body: Any = None,
    takes: Container[int] = range(200, 300),
) -> Any:
    """The data of a node's answer, of a status that it `takes`.

    Raises Unavailable when it gives none, with the reason that it gave.
    """
    headers = {"Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    connection = HTTPConnection("127.0.0.1", member.port, timeout=SECONDS)
    try:
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        status, text = response.status, response.read(MAX_BYTES)
    except (OSError, HTTPException) as error:
        raise Unavailable(
            f"Node {member.number} does not answer: {error}.", fix="See: anchor devnet status"
        ) from None
    finally:
        connection.close()
    return _read(member, status in takes, status, text)


def _read(member: Member, is_taken: bool, status: int, text: bytes) -> Any:
    try:
        values = json.loads(text) if text else {}
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise Unavailable(f"Node {member.number} answers {status}, and not in JSON.")
    if not is_taken:
        raise Unavailable(
            f"Node {member.number} refuses ({status}): {values.get('what', 'it gave no reason')}"
        )
    return values.get("data", values)
