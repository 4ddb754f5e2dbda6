"""JSON files that the operators of a network hand to each other: each says of what kind it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from anchor.errors import MalformedFile, MalformedSSZ, Misuse
from anchor.files import read_bounded, write_new
from anchor.ml.formats.strict_json import parse

T = TypeVar("T")
MAX_FILE_BYTES: Final = 64 << 20
MAX_NAME_BYTES: Final = 256


class Kind(NamedTuple):
    """A kind of file."""

    schema: str
    """What stands in it under "schema"."""
    what: str
    """In words, as in "the deposits of validators"."""


def encode_document(kind: Kind, fields: Mapping[str, Any]) -> bytes:
    """The bytes of a file of this kind."""
    return json.dumps({"schema": kind.schema, **fields}, indent=2).encode() + b"\n"


def write_document(path: Path, kind: Kind, fields: Mapping[str, Any]) -> None:
    """Writes a new file of this kind. Raises Misuse when `path` exists, Unavailable."""
    write_new(path, encode_document(kind, fields))


def read_document(path: Path, read: Callable[[Any], T], *kinds: Kind) -> T:
    """What `read` finds in the file at `path`, of one of these kinds; its errors mean that it is of none.

    Raises MalformedFile when it is of none, Misuse when it is too large, Unavailable when it cannot be read.
    """
    try:
        document: Any = parse(read_bounded(path, MAX_FILE_BYTES, "such a file"), str(path))
        if document["schema"] not in [kind.schema for kind in kinds]:
            raise KeyError("schema")
        return read(document)
    except (MalformedFile, MalformedSSZ, ValueError, KeyError, TypeError, AttributeError):
        raise MalformedFile(
            f"{path} does not hold {' or '.join([kind.what for kind in kinds])}, or was changed.",
            cause="document",
            fix="Ask who made it to send it again.",
        ) from None


def show_bytes(data: bytes) -> str:
    """`0x` and hexadecimal digits."""
    return f"0x{data.hex()}"


def read_bytes(text: str, size: int | None = None) -> bytes:
    """The bytes that `show_bytes` shows, so many. Raises ValueError, TypeError, AttributeError."""
    data = bytes.fromhex(text.removeprefix("0x"))
    if show_bytes(data) != text or size not in (None, len(data)):
        raise ValueError(text)
    return data


def require_name(name: str, what: str) -> str:
    """`name`. Raises Misuse unless it can be shown and stored."""
    if not name.isprintable() or not 0 < len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES:
        raise Misuse(f"{what} has 1 to {MAX_NAME_BYTES} bytes, all printable.", fix="Choose another name.")
    return name


def read_name(text: Any) -> str:
    """A name in a file. Raises ValueError, TypeError unless it can be shown and stored."""
    try:
        return require_name(str.strip(text), "A name")
    except Misuse as error:
        raise ValueError(text) from error
