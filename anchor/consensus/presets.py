"""Presets (sizes and limits, fixed at build time) and configurations (what a network chooses).

Both are mappings whose entries are attributes too: `preset.SLOTS_PER_EPOCH`, `config.GENESIS_DELAY`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from anchor.consensus import config_values, preset_values
from anchor.errors import Misuse

V = TypeVar("V")


class Constants(Mapping[str, V], Generic[V]):
    """An immutable mapping of names to values, each an attribute as well."""

    def __init__(self, name: str, values: Mapping[str, V]) -> None:
        self.__dict__.update(values)
        self.__dict__["name"], self.__dict__["_values"] = name, dict(values)

    if TYPE_CHECKING:
        name: str
        """What these constants are called: "minimal", "mainnet", or a network's name."""
        _values: dict[str, V]

    def replace(self, name: str | None = None, **changes: V) -> Self:
        """A copy with some values changed, and another name if one is given."""
        return type(self)(name or self.name, self._values | changes)

    def __getitem__(self, key: str) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> V:  # only reached when the name is missing
        raise AttributeError(f"{type(self).__name__} {self.name} has no {name}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: use replace({name}=...)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Preset(Constants[int]):
    """The constants of all forks under one preset."""


class Config(Constants[Any]):
    """The runtime configuration of one network."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], base: Config | None = None) -> Config:
        """`base` (by default what PRESET_BASE names) with `values` over it.

        `values` is a parsed `config.yaml`, or a node's /eth/v1/config/spec, where all are strings. Names
        that `base` doesn't have are left out. Raises Misuse when a value is not what its name holds.
        """
        base = base or get_config(str(values.get("PRESET_BASE", "mainnet")))
        given = dict(values)
        if "SECONDS_PER_SLOT" in given:  # what SLOT_DURATION_MS was called
            given.setdefault(
                "SLOT_DURATION_MS", 1000 * _parse("SECONDS_PER_SLOT", given["SECONDS_PER_SLOT"], 0)
            )
        known = {name: _parse(name, given[name], base[name]) for name in base if name in given}
        return base.replace(known.get("CONFIG_NAME"), **known)

    @property
    def seconds_per_slot(self) -> int:
        """Whole seconds of a slot."""
        return int(self["SLOT_DURATION_MS"]) // 1000


def _parse(name: str, value: Any, like: Any) -> Any:
    """`value` in the type of `like`."""
    try:
        if isinstance(like, bytes):
            return _parse_bytes(value, len(like))
        if isinstance(like, int):
            return _parse_number(value)
        if isinstance(like, tuple):
            return tuple([{key: _parse_number(part) for key, part in entry.items()} for entry in value])
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise Misuse(f"{value!r} is no value for {name} of a network configuration.") from None
    return str(value)


def _parse_number(value: int | str) -> int:
    number = int(value)
    if str(number) != str(value) or number < 0:
        raise ValueError(value)
    return number


def _parse_bytes(value: int | str | bytes, size: int) -> bytes:
    if isinstance(value, int):  # YAML reads an unquoted 0x00000001 as a number
        return value.to_bytes(size, "big")
    data = value if isinstance(value, bytes) else bytes.fromhex(value.removeprefix("0x"))
    if len(data) != size:
        raise ValueError(value)
    return data


def _pick(values: Mapping[str, Any], column: int) -> dict[str, Any]:
    """The minimal (column 0) or mainnet (column 1) value of every name; a pair is told by its type."""
    return {name: value[column] if isinstance(value, tuple) else value for name, value in values.items()}


MINIMAL: Final = Preset("minimal", _pick(preset_values.ALL, 0))
MAINNET: Final = Preset("mainnet", _pick(preset_values.ALL, 1))
MINIMAL_CONFIG: Final = Config("minimal", _pick(config_values.ALL, 0))
MAINNET_CONFIG: Final = Config("mainnet", _pick(config_values.ALL, 1))
LEDGER: Final = MAINNET.replace("ledger", **preset_values.LEDGER)
LEDGER_CONFIG: Final = MAINNET_CONFIG.replace("ledger", **config_values.LEDGER)
"""What ledger networks have in common; each draws a fork version of its own."""


def make_ledger_config(version: bytes, seconds_per_slot: int) -> Config:
    """The configuration of the ledger network with this fork version and slot."""
    return LEDGER_CONFIG.replace(
        f"ledger-{version.hex()}",
        GENESIS_FORK_VERSION=version,
        ALTAIR_FORK_VERSION=version,
        SLOT_DURATION_MS=1000 * seconds_per_slot,
    )


def get_preset(name: str) -> Preset:
    """The preset "minimal", "mainnet" or "ledger". Raises Misuse for another name."""
    return _choose({"minimal": MINIMAL, "mainnet": MAINNET, "ledger": LEDGER}, name)


def get_config(name: str) -> Config:
    """The configuration "minimal", "mainnet" or "ledger". Raises Misuse for another name."""
    return _choose({"minimal": MINIMAL_CONFIG, "mainnet": MAINNET_CONFIG, "ledger": LEDGER_CONFIG}, name)


def _choose(known: Mapping[str, V], name: str) -> V:
    if name not in known:
        raise Misuse(f"There is no preset {name!r}.", fix=f"Choose one of: {', '.join(known)}.")
    return known[name]
