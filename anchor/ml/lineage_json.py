"""Lineage as JSON, as a training script writes it and a person reads it."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from anchor.errors import AnchorError, MalformedFile, Misuse
from anchor.merkle.container import Container
from anchor.merkle.scope import schema_of
from anchor.ml.formats.strict_json import parse
from anchor.ml.lineage import Code, Dataset, Lineage, Parent, Privacy, Setting
from anchor.ml.rules import verify_lineage

_FIX: Final = f"A lineage has {', '.join(Lineage.fields)}; specs/02 §2.7 shows a whole one."
_SETTINGS: Final = ("recipe", "hyperparameters", "metrics")

Fields = dict[str, Any]
R = TypeVar("R", bound=Container)


def parse_lineage(data: bytes | str) -> Lineage:
    """The lineage that a JSON object describes; whatever it leaves out is not stated.

    Numbers keep the digits that they are written with. Raises Misuse, with the field that is wrong.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        value = parse(encoded, "The lineage", number=str)
    except MalformedFile as error:
        raise Misuse(error.what, fix=_FIX) from error
    fields = _object(value, "The lineage", set(Lineage.fields))
    privacy = [_texts(Privacy, fields["privacy"], "privacy")] if fields.get("privacy") is not None else []
    step = fields.get("step")
    lineage = Lineage(
        operation=_text(fields.get("operation", ""), "operation"),
        parents=tuple(_parent(item) for item in _list(fields, "parents")),
        code=_texts(Code, fields.get("code", {}), "code"),
        datasets=tuple(_texts(Dataset, item, "datasets") for item in _list(fields, "datasets")),
        hardware=_text(fields.get("hardware", ""), "hardware"),
        step=() if step is None else (_step(step),),
        privacy=tuple(privacy),
        **{name: _settings(fields.get(name, {}), name) for name in _SETTINGS},
    )
    try:
        schema_of(Lineage).encode(lineage)
        verify_lineage(lineage)
    except AnchorError as error:
        raise Misuse(f"The lineage cannot be recorded: {error.what}", fix=_FIX) from error
    return lineage


def lineage_to_json(lineage: Lineage) -> Fields:
    """What `parse_lineage` reads back; without what is not stated."""
    fields: Fields = {
        "operation": lineage.operation,
        "parents": [
            {"manifest_root": f"0x{parent.manifest_root.hex()}"}
            | _stated(name=parent.name, weight=parent.weight)
            for parent in lineage.parents
        ],
        "code": _stated(repository=lineage.code.repository, commit=lineage.code.commit),
        "datasets": [_stated(name=item.name, version=item.version) for item in lineage.datasets],
        "hardware": lineage.hardware,
        "privacy": {name: getattr(item, name) for item in lineage.privacy for name in Privacy.fields},
    }
    fields |= {name: {setting.key: setting.value for setting in getattr(lineage, name)} for name in _SETTINGS}
    stated = _stated(**fields)
    if lineage.step:
        stated["step"] = lineage.step[0]
    return stated


def _stated(**fields: Any) -> Fields:
    return {name: value for name, value in fields.items() if value}


def _object(value: object, where: str, known: set[str] | None) -> Fields:
    if not isinstance(value, dict):
        raise Misuse(f"{where} is not a JSON object.", fix=_FIX)
    if known is not None and (unknown := value.keys() - known):
        raise Misuse(f"{where} has the unknown field {min(unknown)!r}.", fix=_FIX)
    return value


def _list(fields: Fields, name: str) -> list[object]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise Misuse(f"The lineage's {name} is not a list.", fix=_FIX)
    return value


def _text(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise Misuse(f"The lineage's {where} is neither a string nor a number.", fix=_FIX)
    return value


def _texts(kind: type[R], value: object, where: str) -> R:
    """A record whose fields are all text; what is left out is empty."""
    fields = _object(value, f"The lineage's {where}", set(kind.fields))
    return kind(**{name: _text(fields.get(name, ""), f"{where}.{name}") for name in kind.fields})


def _settings(value: object, where: str) -> tuple[Setting, ...]:
    fields = _object(value, f"The lineage's {where}", None)
    return tuple(Setting(key=key, value=_text(fields[key], f"{where}.{key}")) for key in sorted(fields))


def _parent(value: object) -> Parent:
    fields = _object(value, "A parent", set(Parent.fields))
    root = fields.get("manifest_root")
    if not isinstance(root, str) or not re.fullmatch(r"0x[0-9a-f]{64}", root):
        raise Misuse(f"A parent has the manifest root {root!r}, and not 0x with 64 hex digits.", fix=_FIX)
    return Parent(
        manifest_root=bytes.fromhex(root[2:]),
        name=_text(fields.get("name", ""), "parents.name"),
        weight=_text(fields.get("weight", ""), "parents.weight"),
    )


def _step(value: object) -> int:
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 19:
        raise Misuse(f"The lineage's step is {value!r}, and not a number of steps.", fix=_FIX)
    return int(value)
