"""Whether a JSON value is of a JSON Schema: as much of the standard as the node's document uses."""

from __future__ import annotations

import re
from typing import Any

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
KNOWN = {
    "type", "properties", "required", "additionalProperties", "items", "pattern", "maxLength", "minimum",
    "maximum", "minItems", "maxItems", "enum", "const", "oneOf", "anyOf", "$ref", "format", "default",
}  # fmt: skip


def find_faults(value: Any, schema: dict[str, Any], document: dict[str, Any], where: str = "$") -> list[str]:
    """What is wrong with `value`; nothing when it is as the schema says."""
    assert schema.keys() <= KNOWN, f"{where}: {schema.keys() - KNOWN}"
    if "$ref" in schema:
        return find_faults(value, document["components"]["schemas"][schema["$ref"].split("/")[-1]], document)
    for many in ("oneOf", "anyOf"):
        if many in schema:
            fitting = [one for one in schema[many] if not find_faults(value, one, document)]
            fits = len(fitting) == 1 if many == "oneOf" else bool(fitting)
            return [] if fits else [f"{where} fits {len(fitting)} of {many}"]
    faults = _find_own_faults(value, schema, where)
    if isinstance(value, dict) and not faults:
        for name, part in value.items():
            if name in schema.get("properties", {}):
                faults += find_faults(part, schema["properties"][name], document, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for index, part in enumerate(value):
            faults += find_faults(part, schema["items"], document, f"{where}[{index}]")
    return faults


def _find_own_faults(value: Any, schema: dict[str, Any], where: str) -> list[str]:
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        return [f"{where} is no {kind}: {value!r}"]
    holds = {
        "const": lambda wanted: value == wanted,
        "enum": lambda wanted: value in wanted,
        "pattern": lambda wanted: re.search(wanted, value) is not None,
        "maxLength": lambda wanted: len(value) <= wanted,
        "minimum": lambda wanted: value >= wanted,
        "maximum": lambda wanted: value <= wanted,
        "minItems": lambda wanted: len(value) >= wanted,
        "maxItems": lambda wanted: len(value) <= wanted,
        "required": lambda wanted: set(wanted) <= value.keys(),
        "additionalProperties": lambda wanted: wanted or value.keys() <= schema["properties"].keys(),
    }
    return [f"{where}: {name}" for name, check in holds.items() if name in schema and not check(schema[name])]
