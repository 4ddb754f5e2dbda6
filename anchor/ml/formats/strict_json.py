"""JSON from outside, with one meaning and within bounds: no key stands twice, nothing nests deep."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import accumulate
from typing import Final, NoReturn

from anchor.errors import MalformedFile

MAX_VALUES: Final = 1 << 22
"""Commas and opening brackets: what bounds the memory that the parsed form takes."""
MAX_DEPTH: Final = 64
"""Arrays and objects within each other."""

_STRING: Final = re.compile(rb'"[^"]*"?')
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(set(range(256)) - _STEPS.keys())


class Literal:
    """A number that is not an unsigned 64-bit integer, as it was written: no check takes it for one."""

    def __init__(self, text: str) -> None:
        self.text = text[:32]

    def __repr__(self) -> str:
        return self.text


def parse(data: bytes, where: str, *, number: Callable[[str], object] | None = None) -> object:
    """The value that `data` holds; numbers are int (unsigned, 64 bits) or `Literal`, or what `number` makes.

    Raises MalformedFile, with `where` as the subject of its sentence.
    """
    _require_bounded(data, where)
    try:
        value: object = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_int=number or _unsigned,
            parse_float=number or Literal,
            parse_constant=Literal,
        )
    except UnicodeDecodeError as error:
        raise MalformedFile(f"{where} is not UTF-8 at byte {error.start}.", cause="not-utf-8") from error
    except json.JSONDecodeError as error:
        raise MalformedFile(f"{where} is not JSON: {error.msg} at {error.pos}.", cause="not-json") from error
    except _Ambiguous as error:
        raise MalformedFile(f"{where} {error}.", cause=error.cause) from error
    return value


def _require_bounded(data: bytes, where: str) -> None:
    if sum(data.count(mark) for mark in b",[{") > MAX_VALUES:
        raise MalformedFile(f"{where} has more than {MAX_VALUES} values.", cause="too-many-values")
    if _compute_depth(data) > MAX_DEPTH:
        raise MalformedFile(f"{where} is nested more than {MAX_DEPTH} deep.", cause="too-deep")


def _compute_depth(data: bytes) -> int:
    """How deep brackets nest. The parser recurses in C, and may overflow the stack before Python stops it."""
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")  # then each quote begins or ends a string
    brackets = _STRING.sub(b"", plain).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


class _Ambiguous(Exception):
    def __init__(self, what: str, cause: str) -> None:
        super().__init__(what)
        self.cause = cause


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse_duplicate(pairs)
    return found


def _refuse_duplicate(pairs: list[tuple[str, object]]) -> NoReturn:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    raise _Ambiguous(f"has the key {key!r} twice", "duplicate-key")


def _unsigned(text: str) -> int | Literal:
    if len(text) <= 20 and text.isdigit() and (value := int(text)) < 1 << 64:
        return value
    return Literal(text)
