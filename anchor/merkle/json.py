"""Values as JSON, by schema, in the form of the Beacon API (ssz/simple-serialize, JSON mapping).

Numbers are decimal strings, bytes and bits are `0x…`, lists and records are themselves. Reading is as strict
as decoding: one form of a value, nothing missing, within its type's limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.bits import Bitlist, Bitvector
from anchor.merkle.columns import ColumnSchema
from anchor.merkle.container import ContainerSchema
from anchor.merkle.roots import DIGEST, Roots
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import BYTE, Boolean, ByteList, ByteVector, Schema, Uint, require_limit, split
from anchor.merkle.table import TableSchema
from anchor.merkle.text import Text
from anchor.merkle.union import Selected, Union

Json = Any
"""What `json.loads` gives."""
MAX_DIGITS = 78
"""Of the largest number, a uint256."""


def to_json(schema: Schema[Any], value: Any) -> Json:
    """`value` in JSON. Raises Misuse for a type that has no such form."""
    match schema:
        case Uint():
            return str(value)
        case Boolean():
            return bool(value)
        case ByteVector() | ByteList() | Bitvector() | Bitlist():
            return f"0x{schema.encode(value).hex()}"
        case Text():
            return value
        case Roots():
            return [f"0x{digest.hex()}" for digest in split(value, 32)]
        case Union():
            option = schema.options[value.selector]
            data = None if option is None else to_json(option, value.data)
            return {"selector": str(value.selector), "data": data}
        case Vector() | List():
            return [to_json(schema.element, element) for element in value]
        case ColumnSchema() | TableSchema():
            return to_json(schema.plain, tuple(value))
        case ContainerSchema():
            return {name: to_json(part, getattr(value, name)) for name, part in schema.schemas.items()}
    raise Misuse(f"{schema} has no form in JSON here.")


def from_json(schema: Schema[Any], document: Json) -> Any:
    """The value that `document` gives. Raises MalformedSSZ unless it is of this type."""
    match schema:
        case Uint():
            return _read_number(schema, document)
        case Boolean():
            return _expect(schema, document, bool)
        case ByteVector() | ByteList() | Bitvector() | Bitlist():
            return schema.decode(_read_bytes(schema, document))
        case Text():
            return schema.decode(schema.encode(_expect(schema, document, str)))
        case Roots():
            return schema.decode(b"".join(_read_list(List(DIGEST, schema.limit), document)))
        case Union():
            return _read_union(schema, document)
        case Vector() | List():
            return _read_list(schema, document)
        case ColumnSchema() | TableSchema():
            return schema.decode(schema.plain.encode(from_json(schema.plain, document)))
        case ContainerSchema():
            return _read_record(schema, document)
    raise Misuse(f"{schema} has no form in JSON here.")


def _read_number(schema: Uint, document: Json) -> int:
    text = _expect(schema, document, str)
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS) or str(int(text)) != text:
        raise MalformedSSZ(f"{text[:MAX_DIGITS]!r} is no {schema}.")
    number = int(text)
    schema.encode(number)
    return number


def _read_bytes(schema: Schema[Any], document: Json) -> bytes:
    text = _expect(schema, document, str)
    try:
        data = bytes.fromhex(text[2:])
    except ValueError:
        data = b""
    if text[:2] != "0x" or len(text) != 2 + 2 * len(data):
        raise MalformedSSZ(f"{text[:80]!r} is no {schema}: 0x and pairs of hexadecimal digits.")
    return data


def _read_list(schema: Vector | List, document: Json) -> tuple[Any, ...]:
    items = _expect(schema, document, list)
    if isinstance(schema, List):
        require_limit(len(items), schema.limit, schema)
    elif len(items) != schema.length:
        raise MalformedSSZ(f"{schema} has {schema.length} elements, not {len(items)}.")
    return tuple([_placed(f"[{i}]", from_json, schema.element, item) for i, item in enumerate(items)])


def _read_record(schema: ContainerSchema, document: Json) -> Any:
    fields = _expect(schema, document, dict)
    missing = [name for name in schema.schemas if name not in fields]
    if missing or len(fields) != len(schema.schemas):
        unknown = [str(name)[:80] for name in fields if name not in schema.schemas]
        raise MalformedSSZ(f"{schema} lacks {missing} and has {unknown[:8]} beside its fields.")
    return schema.record.from_values(
        [_placed(f"{schema}.{name}", from_json, part, fields[name]) for name, part in schema.schemas.items()]
    )


def _read_union(schema: Union, document: Json) -> Selected:
    fields = _expect(schema, document, dict)
    if set(fields) != {"selector", "data"}:
        raise MalformedSSZ("a union here has a selector and data, and nothing else.")
    selector = _read_number(BYTE, fields["selector"])
    if selector not in schema.options:
        raise MalformedSSZ(f"a union here has no option {selector}.")
    option = schema.options[selector]
    if option is None:
        return Selected(selector, _expect(schema, fields["data"], type(None)))
    return Selected(selector, _placed(f"[{selector}]", from_json, option, fields["data"]))


def _placed(where: str, read: Callable[[Schema[Any], Json], Any], schema: Schema[Any], item: Json) -> Any:
    try:
        return read(schema, item)
    except MalformedSSZ as error:
        raise error.within(where) from None


def _expect(schema: Schema[Any], document: Json, kind: type) -> Any:
    if not isinstance(document, kind):
        raise MalformedSSZ(f"{schema} is not a JSON {type(document).__name__}.")
    return document
