"""JSON Schemas of records, from their SSZ schemas: the forms that `anchor.merkle.json` writes."""

from __future__ import annotations

from typing import Any, Final

from anchor.errors import Misuse
from anchor.merkle.bits import Bitlist, Bitvector
from anchor.merkle.columns import ColumnSchema
from anchor.merkle.container import ContainerSchema
from anchor.merkle.roots import Roots
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint
from anchor.merkle.table import TableSchema
from anchor.merkle.text import Text
from anchor.merkle.union import Union

HEX: Final = {"type": "string", "pattern": "^0x([0-9a-f]{2})*$"}
BITS: Final = {"type": "string", "pattern": "^0x([0-9a-f]{2})*(0[1-9a-f]|[1-9a-f][0-9a-f])$"}
"""Its last byte holds the delimiting bit."""
DECIMAL: Final = {"type": "string", "pattern": "^(0|[1-9][0-9]*)$", "maxLength": 78}
DIGEST: Final = {"type": "string", "pattern": "^0x[0-9a-f]{64}$"}

_SIMPLE: Final[tuple[tuple[tuple[type, ...], dict[str, Any]], ...]] = (
    ((Uint,), DECIMAL),
    ((Boolean,), {"type": "boolean"}),
    ((ByteList, Bitvector), HEX),
    ((Bitlist,), BITS),
    ((Text,), {"type": "string"}),
    ((Roots,), {"type": "array", "items": DIGEST}),
)


def describe(schema: Schema[Any]) -> dict[str, Any]:
    """The JSON Schema of what `to_json(schema, …)` gives."""
    match schema:
        case ByteVector():
            return {"type": "string", "pattern": f"^0x[0-9a-f]{{{2 * schema.fixed_size}}}$"}
        case Union():
            return {"oneOf": [_describe_option(*option) for option in schema.options.items()]}
        case Vector():
            count = schema.length
            return {"type": "array", "items": describe(schema.element), "minItems": count, "maxItems": count}
        case List():
            return {"type": "array", "items": describe(schema.element)}
        case ColumnSchema() | TableSchema():
            return describe(schema.plain)
        case ContainerSchema():
            return record({name: describe(part) for name, part in schema.schemas.items()})
    for kinds, form in _SIMPLE:
        if isinstance(schema, kinds):
            return form
    raise Misuse(f"{schema} has no form in JSON here.")


def record(fields: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these fields."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def stream(events: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A stream of events with such data, by topic, which JSON Schema has no words for."""
    return {"type": "string", "x-events": events}


def _describe_option(selector: int, option: Schema[Any] | None) -> dict[str, Any]:
    data = {"type": "null"} if option is None else describe(option)
    return record({"selector": {"type": "string", "const": str(selector)}, "data": data})
