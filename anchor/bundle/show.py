"""A bundle as plain values, for people to read. Nothing shown is proven: that is the verifier's to say."""

from __future__ import annotations

from typing import Any, Final

from anchor.bundle.types import decode_bundle
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.merkle.union import Selected
from anchor.ml.manifest import decode_manifest

TEXT_FIELDS: Final = frozenset({"model", "version", "reason"})
"""Fields of bytes that hold text."""


def show_bundle(data: bytes) -> dict[str, Any]:
    """What `data` says. Raises Malformed for what is no bundle, or holds no manifest."""
    bundle = decode_bundle(data)
    plain: dict[str, Any] = to_plain(bundle)
    return plain | {"manifest": to_plain(decode_manifest(bundle.manifest))}


def to_plain(value: Any) -> Any:
    """A record, or a part of one, in the values that JSON has; bytes as hexadecimal digits."""
    if isinstance(value, Selected):
        return {"kind": type(value.data).__name__, **to_plain(value.data)}
    if isinstance(value, Container):
        return {name: _field_to_plain(name, getattr(value, name)) for name in value.fields}
    if isinstance(value, Bits):
        return "".join(["1" if bit else "0" for bit in value])
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return [to_plain(part) for part in value] if isinstance(value, tuple) else value


def _field_to_plain(name: str, value: Any) -> Any:
    if name in TEXT_FIELDS and isinstance(value, bytes):
        return value.decode("latin-1")
    return to_plain(value)
