"""The closed registry of element types: names as safetensors spells them, widths in bits (rule 11).

A type of fewer than eight bits is packed low nibble (low bits) first, and the last byte is filled with zeros.
"""

from __future__ import annotations

from typing import Final

BITS: Final[dict[str, int]] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits per element, by name."""

NUMPY: Final[dict[str, str]] = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "I16": "<i2",
    "U16": "<u2",
    "F16": "<f2",
    "I32": "<i4",
    "U32": "<u4",
    "F32": "<f4",
    "C64": "<c8",
    "F64": "<f8",
    "I64": "<i8",
    "U64": "<u8",
}
"""The NumPy type strings of those that NumPy has."""

MAX_DIMENSIONS: Final = 16
_MAX_U64: Final = (1 << 64) - 1


def element_count(shape: tuple[int, ...]) -> int | None:
    """Elements of a tensor of `shape` (1 for a scalar); None when the product leaves 64 bits on the way."""
    count = 1
    for dimension in shape:
        count *= dimension
        if count > _MAX_U64:
            return None
    return count


def bit_length(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bits of a tensor's elements; None when 64 bits cannot count them."""
    count = element_count(shape)
    if count is None or (bits := count * BITS[dtype]) > _MAX_U64:
        return None
    return bits


def byte_length(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes of a tensor, the last one filled up; None when 64 bits cannot count its bits."""
    bits = bit_length(dtype, shape)
    return None if bits is None else (bits + 7) // 8
