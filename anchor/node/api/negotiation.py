"""What a request accepts, and which bytes of an answer it wants (RFC 9110, §12 and §14)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


def choose_type(accept: str | None, offered: Sequence[str]) -> str | None:
    """The offered type that a request likes best; the first of equals. None: it takes none of them."""
    if accept is None or not accept.strip():
        return offered[0]
    ranked = [(_get_quality(accept, kind), -place) for place, kind in enumerate(offered)]
    quality, place = max(ranked)
    return offered[-place] if quality > 0 else None


def _get_quality(accept: str, kind: str) -> float:
    """How much `kind` is liked: by the most specific range that names it."""
    found = (-1, 0.0)
    for part in accept.split(","):
        name, *parameters = [word.strip().lower() for word in part.split(";")]
        ranges = ("*/*", f"{kind.partition('/')[0]}/*", kind)
        if name in ranges:
            found = max(found, (ranges.index(name), _read_quality(parameters)), key=lambda item: item[0])
    return found[1]


def _read_quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def accepts_gzip(encodings: str | None) -> bool:
    """Whether an answer may be packed."""
    for part in (encodings or "").split(","):
        name, *parameters = [word.strip().lower() for word in part.split(";")]
        if name in ("gzip", "*"):
            return _read_quality(parameters) > 0
    return False


def read_range(text: str | None, size: int) -> slice | None:
    """The bytes that a Range header asks for; None for all (also for what is not understood).

    An empty slice where none of them exist.
    """
    match = _RANGE.fullmatch((text or "").strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        return slice(max(0, size - int(last)), size) if int(last) else slice(0, 0)
    start, stop = int(first), min(int(last) + 1 if last else size, size)
    return slice(start, stop) if start < stop else slice(0, 0)
