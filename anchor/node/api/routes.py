"""What a route is: one record from which the router, the checks of parameters, the OpenAPI document and the
limits are all made. Handlers get values, and give a Reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from anchor.merkle.ssz import Schema
from anchor.node.api.kinds import Kind, Parameter

JSON: Final = "application/json"
SSZ: Final = "application/octet-stream"
MAX_BODY: Final = 1 << 16
"""Bytes of a body, unless the route says otherwise: several times the largest entry in JSON."""
STRANGER: Final = "stranger"
OPERATOR: Final = "operator"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler found."""

    data: Any = None
    """Plain values, or a record of `schema`."""
    schema: Schema[Any] | None = None
    """Of a record, which then can be had as SSZ too."""
    encoded: bytes | None = None
    """The record's encoding, where that is at hand instead of `data`."""
    root: bytes | None = None
    """Identity of what can never change: kept by caches for good."""
    tag: bytes | None = None
    """What tells this data from other data at the same path, where the data is too long to be hashed."""
    marks: Mapping[str, Any] = field(default_factory=dict)
    """What stands beside the data in JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    next: int | None = None
    """Of a page: where the next one starts."""
    is_page: bool = False
    is_bare: bool = False
    """Whether the JSON is the data itself, with nothing around it."""
    is_long: bool = False
    """Too long for JSON: had as SSZ alone."""
    status: int = 200


Handler = Callable[..., Awaitable[Reply]]
"""Takes a node and, by name, the values that the route's path, query and body give."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a request brings."""

    limit: int
    """Bytes."""
    schema: Schema[Any] | None = None
    """Of the record that it is, in SSZ or JSON; None: the bytes themselves."""
    json: Mapping[str, Any] | None = None
    """JSON Schema, where it is no record but plain values."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: dict[str, Any]
    """JSON Schema of the reply's data."""
    tag: str
    parts: Mapping[str, Kind] = field(default_factory=dict)
    """What stands in the path."""
    query: Mapping[str, Parameter] = field(default_factory=dict)
    body: Body | None = None
    marks: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schemas of a reply's marks."""
    has_ssz: bool = False
    is_bulk: bool = False
    """Many megabytes: SSZ unless JSON is liked better, and packed where that is asked for."""
    is_bare: bool = False
    is_page: bool = False
    cost: int = 1
    """What an answer that is not in the cache takes from the asker's allowance."""
    is_live: bool = False
    """Whether the answer changes while the ledger does not: it is made anew each time."""
    access: str = STRANGER
    statuses: tuple[int, ...] = (200,)
    """Of success."""
    errors: tuple[int, ...] = ()
    """Beside those that any route of its sort may give."""

    @property
    def offers(self) -> tuple[str, ...]:
        """The forms of an answer, the one for who has no preference first."""
        if self.is_bulk:
            return SSZ, JSON
        return (JSON, SSZ) if self.has_ssz else (JSON,)
