"""Test cases on disk: `<preset>/<fork>/<runner>/<handler>/<suite>/<case>/`, each a folder of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from anchor.errors import Malformed, Misuse, Unavailable

PRESETS = ("general", "mainnet", "minimal", "ledger")
MAX_BYTES = 1 << 28
"""No file of a case is larger, unpacked: a mainnet state has about ten megabytes."""


@dataclass(frozen=True)
class Case:
    """One test case, by its place in the layout."""

    path: Path
    preset: str
    fork: str
    runner: str
    handler: str
    suite: str
    name: str

    @classmethod
    def at(cls, path: Path) -> Case | None:
        """The case in the folder `path`, or None where the layout has none."""
        parts = path.parts[-6:]
        return cls(path, *parts) if len(parts) == 6 and parts[0] in PRESETS else None

    def __str__(self) -> str:
        return "/".join([self.preset, self.fork, self.runner, self.handler, self.suite, self.name])

    def has(self, file: str) -> bool:
        """Whether the case has this file."""
        return (self.path / file).exists()

    def get_size(self) -> int:
        """Bytes of the case's files."""
        return sum(file.stat().st_size for file in self.path.iterdir())

    def read_ssz(self, name: str) -> bytes:
        """What `<name>.ssz_snappy` holds, unpacked. Raises Malformed when it is not one snappy block."""
        packed = (self.path / f"{name}.ssz_snappy").read_bytes()
        return _unpack(packed, f"{self}/{name}.ssz_snappy")

    def read_yaml(self, name: str) -> Any:
        """What `<name>.yaml` holds. Raises Malformed when it is no YAML."""
        yaml = _import_optional("yaml")
        text = (self.path / f"{name}.yaml").read_bytes()
        try:
            return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as error:
            raise Malformed(f"{self}/{name}.yaml is no YAML: {error}.") from None

    @cached_property
    def meta(self) -> dict[str, Any]:
        """What `meta.yaml` holds, where there is one."""
        return self.read_yaml("meta") or {} if self.has("meta.yaml") else {}


def find_cases(root: Path, accept: Callable[[Case], bool] = lambda case: True) -> list[Case]:
    """The cases at and below `root`, in order. Raises Misuse when there are none (rule 3)."""
    cases = [case for case in _walk(root.resolve()) if accept(case)]
    if not cases:
        raise Misuse(
            f"There are no test vectors to run at {root}.",
            fix="Name a folder at or above <preset>/<fork>/<runner>/<handler>/<suite>/<case>, "
            "and a --filter that leaves some.",
        )
    return sorted(cases, key=str)


def _walk(root: Path) -> Iterator[Case]:
    for folder, _, files in os.walk(root):
        case = Case.at(Path(folder)) if files else None
        if case is not None:
            yield case


def _unpack(packed: bytes, place: str) -> bytes:
    snappy = _import_optional("cramjam").snappy
    try:
        size = snappy.decompress_raw_len(packed)
        if size > MAX_BYTES:
            raise Malformed(f"{place} would unpack to {size} bytes, of at most {MAX_BYTES}.")
        return bytes(snappy.decompress_raw(packed))
    except _import_optional("cramjam").DecompressionError:
        raise Malformed(f"{place} is not one raw snappy block.") from None


def _import_optional(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        fix = "Install it with: pip install 'anchor-ledger[vectors]'"
        raise Unavailable(f"Running vectors needs the package {name}.", fix=fix) from None
