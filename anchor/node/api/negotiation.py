"""Which form of an answer is sent (RFC 9110 §12), whether the asker has it (§13), which bytes (§14)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from anchor.errors import Misuse

MAX_RANGES: Final = 32
"""Ranges of a header that are looked at."""
_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
_QUALITY: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def choose_media(accept: str, offers: Sequence[str]) -> str | None:
    """The best of `offers` by an Accept header, the first among equals; None when none is acceptable.

    Raises Misuse for a header that cannot be read.
    """
    if not accept.strip():
        return offers[0]
    ranges = list(_parse(accept))
    quality = {offer: _rate(offer, ranges) for offer in offers}
    best = max(offers, key=lambda offer: quality[offer])
    return best if quality[best] > 0 else None


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header allows gzip. One that cannot be read allows nothing."""
    try:
        codings = dict(_parse(header))
    except Misuse:
        return False
    return codings.get("gzip", codings.get("*", 0.0)) > 0


def has_current(if_none_match: str, etag: str) -> bool:
    """Whether an If-None-Match header names `etag`, compared weakly (RFC 9110 §13.1.2)."""
    if if_none_match.strip() == "*":
        return True
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")[:MAX_RANGES]]
    return etag.removeprefix("W/") in tags


def _parse(header: str) -> Iterable[tuple[str, float]]:
    """Names and qualities; parameters other than q make a range that matches nothing of ours."""
    for part in header.split(",")[:MAX_RANGES]:
        name, *parameters = [piece.strip().lower() for piece in part.split(";")]
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() != "q":
                continue
            if not _QUALITY.fullmatch(value.strip()):
                raise Misuse(f"{value[:20]!a} is no quality.", fix="Write q=0 to q=1, as in q=0.5.")
            quality = float(value)
        yield name, quality


def _rate(offer: str, ranges: Iterable[tuple[str, float]]) -> float:
    """The quality of the most specific range that holds `offer`."""
    kind = offer.partition("/")[0]
    order = (offer, f"{kind}/*", "*/*")
    found = [(order.index(name), quality) for name, quality in ranges if name in order]
    return min(found, key=lambda pair: (pair[0], -pair[1]))[1] if found else 0.0


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
