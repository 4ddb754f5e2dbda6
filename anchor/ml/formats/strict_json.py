"""JSON with one meaning: duplicate keys, lone surrogates, NaN and deep nesting are refused."""

from __future__ import annotations

import json
from typing import NoReturn

from anchor.errors import MalformedFile


class Literal:
    """A number that is not an unsigned 64-bit integer, as it was written: no check takes it for one."""

    def __init__(self, text: str) -> None:
        self.text = text[:32]

    def __repr__(self) -> str:
        return self.text


def parse(data: bytes, where: str) -> object:
    """The value that `data` holds; numbers are int (unsigned, 64 bits) or `Literal`.

    Raises MalformedFile, with `where` as the subject of its sentence.
    """
    try:
        value: object = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_int=_unsigned,
            parse_float=Literal,
            parse_constant=Literal,
        )
    except UnicodeDecodeError as error:
        raise MalformedFile(f"{where} is not UTF-8 at byte {error.start}.", cause="not-utf-8") from error
    except RecursionError as error:
        raise MalformedFile(f"{where} is nested too deep.", cause="too-deep") from error
    except json.JSONDecodeError as error:
        raise MalformedFile(f"{where} is not JSON: {error.msg} at {error.pos}.", cause="not-json") from error
    except _Ambiguous as error:
        raise MalformedFile(f"{where} {error}.", cause=error.cause) from error
    return value


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
