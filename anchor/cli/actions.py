"""Commands that do several things: which options each of them takes, and needs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import NamedTuple

from anchor.errors import Misuse


class Takes(NamedTuple):
    """What an action takes."""

    files: tuple[str, ...] = ()
    """Names of the arguments before the options; one that ends with … stands for one or more."""
    needs: tuple[str, ...] = ()
    """Options without which it does nothing."""
    may: tuple[str, ...] = ()
    """Options that it takes too."""


def add_action(parser: ArgumentParser, actions: Mapping[str, Takes]) -> None:
    """The action, and what comes before the options."""
    parser.add_argument("action", choices=list(actions), help="what to do")
    parser.add_argument("words", nargs="*", metavar="WORD", help="what to do it with; see above")


def require_action(command: str, options: Namespace, actions: Mapping[str, Takes], named: set[str]) -> None:
    """Raises Misuse unless the action has what it needs, and nothing of `named` that it does not take."""
    takes, name = actions[options.action], f"`anchor {command} {options.action}`"
    fix = f"See: anchor {command} --help"
    count, least = len(options.words), len(takes.files)
    is_open = bool(takes.files) and takes.files[-1].endswith("…")
    if count < least or (count > least and not is_open):
        wanted = " ".join(takes.files).replace("…", " …") or "nothing"
        raise Misuse(f"{name} takes {wanted} before its options, and {count} words are given.", fix=fix)
    given = {option for option in named if getattr(options, option) not in (None, [])}
    for option in sorted(given - {*takes.needs, *takes.may}):
        raise Misuse(f"{name} takes no {_spell(option)}.", fix=fix)
    for option in takes.needs:
        if option not in given:
            raise Misuse(f"{name} needs {_spell(option)}.", fix=fix)


def _spell(name: str) -> str:
    return f"--{name.replace('_', '-')}"
