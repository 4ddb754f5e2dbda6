"""The safetensors format: eight bytes of header length, a JSON header, and the tensors' bytes without a gap.

Stricter than the format's own reader where two readers could disagree: a key that stands twice, a tensor
given as an array, an unknown field, or a header that does not begin with `{` makes the file malformed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from anchor.errors import MalformedFile
from anchor.ml.dtypes import BITS, MAX_DIMENSIONS, bit_length, element_count
from anchor.ml.formats.layout import Descriptor, Format, Layout, Placed, ReadAt, Unsupported
from anchor.ml.formats.strict_json import parse

MAX_HEADER: Final = 100_000_000
"""Bytes of header that the format allows."""
MAX_NAME: Final = 1024
"""Bytes of a tensor's name that a manifest can hold."""
METADATA: Final = "__metadata__"

_PREFIX: Final = 8


class _Entry(NamedTuple):
    """One tensor as the header states it; offsets count from the end of the header."""

    begin: int
    end: int
    name: str
    dtype: str
    shape: tuple[int, ...]


def is_like(head: bytes, size: int) -> bool:
    """A plausible header length, followed by a brace."""
    return size >= _PREFIX + 2 and _length_of(head) <= MAX_HEADER and head[_PREFIX : _PREFIX + 1] == b"{"


def read(read_at: ReadAt, size: int) -> Layout:
    """Layout of a file of `size` bytes. Raises MalformedFile."""
    header = read_header(read_at, size)
    return parse_header(header, size - _PREFIX - len(header))


def read_header(read_at: ReadAt, size: int) -> bytes:
    """The JSON header's bytes; nothing is allocated before its length is known to be bounded."""
    if size < _PREFIX:
        raise MalformedFile(
            f"The file has {size} bytes, fewer than the {_PREFIX} of a header's length.", cause="too-short"
        )
    length = _length_of(read_at(0, _PREFIX))
    if length > MAX_HEADER:
        raise MalformedFile(
            f"The header claims {length} bytes, and {MAX_HEADER} are allowed.", cause="header-too-large"
        )
    if length > size - _PREFIX:
        raise MalformedFile(
            f"The header claims {length} bytes, and the file has {size - _PREFIX} after its length.",
            cause="header-cut",
        )
    return read_at(_PREFIX, length)


def parse_header(header: bytes, body: int) -> Layout:
    """Layout of a file with this header and `body` bytes after it. Raises MalformedFile."""
    if header[:1] != b"{":
        raise MalformedFile("The header does not begin with '{'.", cause="not-json")
    fields = parse(header, "The header")
    if not isinstance(fields, dict):
        raise MalformedFile("The header is not an object.", cause="not-json")
    metadata = _metadata(fields.pop(METADATA, {}))
    entries = sorted(_entry(name, value) for name, value in fields.items())
    _check_tiling(entries, body)
    return _layout(entries, metadata, _PREFIX + len(header))


def _length_of(head: bytes) -> int:
    return int.from_bytes(head[:_PREFIX], "little")


def _metadata(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise MalformedFile(f"{METADATA} is not an object.", cause="metadata")
    for key, text in value.items():
        if not isinstance(text, str):
            raise MalformedFile(f"{METADATA} has {key!r}, which is not a string.", cause="metadata")
        _refuse_surrogates(key)
        _refuse_surrogates(text)
    return tuple(sorted(value.items(), key=lambda pair: pair[0].encode()))


def _refuse_surrogates(text: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise MalformedFile(f"The header has a lone surrogate in {text[:80]!r}.", cause="lone-surrogate")


def _entry(name: str, value: object) -> _Entry:
    _refuse_surrogates(name)
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise MalformedFile(
            f"Tensor {name!r} is not given by exactly dtype, shape and data_offsets.", cause="fields"
        )
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str):
        raise MalformedFile(f"Tensor {name!r} has a dtype that is not a string.", cause="fields")
    _refuse_surrogates(dtype)
    if not _are_unsigned(shape):
        raise MalformedFile(
            f"Tensor {name!r} has shape {_short(shape)}, which is not a list of unsigned integers.",
            cause="shape",
        )
    if not _are_unsigned(offsets) or len(offsets) != 2:
        raise MalformedFile(
            f"Tensor {name!r} has data_offsets {_short(offsets)}, which are not two unsigned integers.",
            cause="offsets",
        )
    entry = _Entry(offsets[0], offsets[1], name, dtype, tuple(shape))
    _check_length(entry)
    return entry


def _are_unsigned(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_length(entry: _Entry) -> None:
    """The range runs forward, and is as long as dtype and shape give, where the dtype is known."""
    where = f"Tensor {entry.name!r} at bytes {entry.begin} to {entry.end} of the data"
    if entry.end < entry.begin:
        raise MalformedFile(f"{where} ends before it begins.", cause="reversed")
    if element_count(entry.shape) is None:
        raise MalformedFile(
            f"{where} has shape {_short(list(entry.shape))}, whose product leaves 64 bits.", cause="overflow"
        )
    if entry.dtype not in BITS:
        return
    bits = bit_length(entry.dtype, entry.shape)
    if bits is None:
        raise MalformedFile(f"{where} has more bits than 64 bits count.", cause="overflow")
    if bits % 8:
        raise MalformedFile(f"{where} has {bits} bits, no whole number of bytes.", cause="misaligned")
    if bits != (entry.end - entry.begin) * 8:
        raise MalformedFile(
            f"{where} has {entry.end - entry.begin} bytes, and {entry.dtype} {_short(list(entry.shape))} "
            f"takes {bits // 8}.",
            cause="length",
        )


def _check_tiling(entries: list[_Entry], body: int) -> None:
    """The sorted ranges cover the data from its first byte to its last, each byte once."""
    start = _Entry(0, 0, "", "", ())
    for before, entry in pairwise([start, *entries]):
        where = f"tensor {entry.name!r} begins at byte {entry.begin} of the data"
        if entry.begin > before.end:
            raise MalformedFile(
                f"Bytes {before.end} to {entry.begin} of the data belong to no tensor: {where}.", cause="gap"
            )
        if entry.begin < before.end:
            raise MalformedFile(
                f"Two tensors overlap: {where}, before {before.name!r} ends at {before.end}.", cause="overlap"
            )
    end = entries[-1].end if entries else 0
    if end < body:
        raise MalformedFile(
            f"The file has {body - end} bytes after its last tensor ends at {end}.", cause="trailing"
        )
    if end > body:
        cut = [entry.name for entry in entries if entry.end > body]
        names = ", ".join(map(repr, cut[:4])) + (f" and {len(cut) - 4} more" if len(cut) > 4 else "")
        raise MalformedFile(
            f"The file has {body} bytes of tensors, and its header places {end}: {names} cut off.",
            cause="cut",
            fix="Fetch it again.",
        )


def _layout(entries: list[_Entry], metadata: tuple[tuple[str, str], ...], start: int) -> Layout:
    tensors: list[Placed] = []
    unsupported: list[Unsupported] = []
    for entry in entries:
        length = entry.end - entry.begin
        if why := _unsupported(entry):
            unsupported.append(Unsupported(entry.name, why, start + entry.begin, length))
        else:
            descriptor = Descriptor(entry.name, entry.dtype, entry.shape, length)
            tensors.append(Placed(descriptor, start + entry.begin if length else None))
    tensors.sort(key=lambda placed: placed.tensor.name.encode())
    return Layout(tuple(tensors), tuple(unsupported), (), metadata)


def _unsupported(entry: _Entry) -> str:
    if entry.dtype not in BITS:
        return f"unknown dtype {entry.dtype!r}"
    if len(entry.shape) > MAX_DIMENSIONS:
        return f"{len(entry.shape)} dimensions, and a manifest holds {MAX_DIMENSIONS}"
    if len(entry.name.encode()) > MAX_NAME:
        return f"a name of more than {MAX_NAME} bytes"
    return ""


FORMAT: Final = Format("safetensors", (".safetensors",), is_like, read)
