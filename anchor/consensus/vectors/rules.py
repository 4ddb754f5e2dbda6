"""The rules that a case is checked against: a fork, under a preset and a configuration."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from anchor.consensus.bls import NoSignatures
from anchor.consensus.presets import Config, get_config, get_preset
from anchor.consensus.vectors.basics import get_bls
from anchor.consensus.vectors.cases import Case

FORKS = ("phase0", "altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas", "ledger")
MUST_NOT_VERIFY = 2
"""The `bls_setting` of cases whose signatures are not to be checked."""


def get_rules(case: Case, fork: str | None = None, **settings: Any) -> Any:
    """The rules of `fork` (by default the case's own), configured as the case says, `settings` over that."""
    config = get_config(case.preset)
    if case.has("config.yaml"):
        config = Config.from_mapping(case.read_yaml("config"), config)
    elif not settings:
        return _get_standard_rules(case.preset, fork or case.fork, _is_signed(case))
    return _make_rules(case.preset, fork or case.fork, config.replace(**settings), _is_signed(case))


def _is_signed(case: Case) -> bool:
    return case.meta.get("bls_setting") != MUST_NOT_VERIFY


@cache
def _get_standard_rules(preset: str, fork: str, signed: bool) -> Any:
    return _make_rules(preset, fork, get_config(preset), signed)


def _make_rules(preset: str, fork: str, config: Config, signed: bool) -> Any:
    rules = getattr(import_module(f"anchor.consensus.forks.{fork}"), fork.capitalize())
    return rules(get_preset(preset), config, get_bls() if signed else NoSignatures())
