"""Where two values differ first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anchor.merkle.columns import Column
from anchor.merkle.container import Container
from anchor.merkle.table import Table

LONGEST = 200
"""Characters shown of a value."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a case says against what came out, at one place of a value."""

    path: str
    """Leads into the value: `validators[3].slashed`; empty for the whole of it."""
    expected: str
    got: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"{place}expected {self.expected}, got {self.got}"


def compare(expected: Any, got: Any, path: str = "") -> Difference | None:
    """The first place at which two values of one type differ."""
    if isinstance(expected, Container) and isinstance(got, Container):
        return _compare_records(expected, got, path)
    if isinstance(expected, tuple | Column | Table) and isinstance(got, tuple | Column | Table):
        return _compare_sequences(expected, got, path)
    return None if expected == got else Difference(path, _show(expected), _show(got))


def _compare_records(expected: Container, got: Container, path: str) -> Difference | None:
    if expected.fields != got.fields:
        return Difference(path, type(expected).__name__, type(got).__name__)
    for name in expected.fields:
        inner = f"{path}.{name}" if path else name
        difference = compare(getattr(expected, name), getattr(got, name), inner)
        if difference is not None:
            return difference
    return None


def _compare_sequences(expected: Any, got: Any, path: str) -> Difference | None:
    if type(expected) is type(got) and expected == got:
        return None
    for place, (one, other) in enumerate(zip(expected, got, strict=False)):
        difference = compare(one, other, f"{path}[{place}]")
        if difference is not None:
            return difference
    if len(expected) != len(got):
        return Difference(f"len({path})", str(len(expected)), str(len(got)))
    return None


def _show(value: Any) -> str:
    text = f"0x{value.hex()}" if isinstance(value, bytes) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
