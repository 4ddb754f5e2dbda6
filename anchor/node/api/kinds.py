"""What stands in a path or a query: how it is read, and its form in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from anchor.consensus.text import parse_checkpoint
from anchor.errors import Misuse
from anchor.node.events import FINALIZED_CHECKPOINT, TOPICS

MAX_NUMBER: Final = (1 << 53) - 1
"""The largest number that every JSON reader keeps exactly."""
MAX_LIMIT: Final = 100
MAX_TEXT: Final = 1024


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of value in text."""

    read: Callable[[str], Any]
    """Raises Misuse."""
    schema: dict[str, Any]
    """Of what `read` takes (JSON Schema)."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value in a query."""

    kind: Kind
    what: str
    default: Any = None
    is_required: bool = False


def _matching(pattern: str, what: str, longest: int, convert: Callable[[str], Any] = str) -> Kind:
    """What fits `pattern` and has at most `longest` characters."""

    def read(text: str) -> Any:
        if len(text) > longest or not re.fullmatch(pattern, text, re.ASCII):
            raise Misuse(f"{text[:80]!a} is no {what}.")
        return convert(text)

    return Kind(read, {"type": "string", "pattern": f"^(?:{pattern})$", "maxLength": longest})


def _number(low: int, high: int) -> Kind:
    def read(text: str) -> int:
        if not re.fullmatch("0|[1-9][0-9]{0,15}", text, re.ASCII) or not low <= int(text) <= high:
            raise Misuse(f"{text[:80]!a} is no number from {low} to {high}.")
        return int(text)

    return Kind(read, {"type": "integer", "minimum": low, "maximum": high})


def _read_text(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise Misuse(f"A name has at most {MAX_TEXT} characters.")
    return text


_NAME: Final = "[a-z0-9][a-z0-9._-]*"
ROOT: Final = _matching("0x[0-9a-f]{64}", "root", 66, lambda text: bytes.fromhex(text[2:]))
ANY_ROOT: Final = _matching("0x[0-9a-fA-F]{64}", "root", 66, lambda text: bytes.fromhex(text[2:]))
CHAIN_ID: Final = _matching(
    "head|finalized|justified|genesis|0x[0-9a-fA-F]{64}|0|[1-9][0-9]{0,18}", "block or state", 66, str.lower
)
"""Of a block or a state, in the Beacon API."""
NUMBER: Final = _number(0, MAX_NUMBER)
LIMIT: Final = _number(1, MAX_LIMIT)
UPDATES: Final = _number(1, MAX_NUMBER)
"""Of light clients: as many as there are, up to a bound."""
ORGANISATION: Final = _matching(_NAME, "organisation", 64)
MODEL: Final = _matching(_NAME, "model", 128)
VERSION: Final = _matching(_NAME, "version", 64)
CHECKPOINT: Final = _matching(
    "0x[0-9a-f]{64}:[0-9]{1,19}", "checkpoint, as in 0x6d…3f:12", 86, parse_checkpoint
)
TEXT: Final = Kind(_read_text, {"type": "string", "maxLength": MAX_TEXT})
_TOPIC: Final = f"({'|'.join(TOPICS)})"
TOPIC_LIST: Final = _matching(
    f"{_TOPIC}(,{_TOPIC})*",
    f"list of topics among {', '.join(TOPICS)}",
    64,
    lambda text: frozenset(text.split(",")),
)
BEACON_TOPICS: Final = _matching(
    f"{FINALIZED_CHECKPOINT}(,{FINALIZED_CHECKPOINT})*",
    f"list of topics: here is {FINALIZED_CHECKPOINT}",
    1024,
    lambda text: frozenset(text.split(",")),
)

AFTER: Final = Parameter(NUMBER, "where to start: `next` of the page before", 0)
COUNT: Final = Parameter(LIMIT, "how many at most", 20)
PAGING: Final = {"after": AFTER, "limit": COUNT}
