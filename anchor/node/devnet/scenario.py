"""A scenario: what is done to a devnet, step by step, and what must be seen. Read from YAML, checked first.

name: A partition heals
nodes: 4
steps:
  - finalizes: {within: 60}
  - partition: "1,2/3,4"
  - stalls: {for: 20}
  - heal:
  - agree: {within: 60}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from anchor.errors import Misuse
from anchor.files import read_bounded

MAX_FILE_BYTES: Final = 1 << 16
MAX_STEPS: Final = 1000
MAX_SECONDS: Final = 3600

NODE: Final = "node"
SECONDS: Final = "seconds"
WORD: Final = "word"
GROUPS: Final = "groups"
COUNT: Final = "count"

STEPS: Final[Mapping[str, Mapping[str, str]]] = {
    # done to the devnet
    "kill": {"node": NODE},
    "start": {"node": NODE},
    "partition": {"groups": GROUPS},
    "heal": {},
    "equivocate": {"node": NODE},
    "skew": {"node": NODE, "by": SECONDS},
    "join": {},
    "publish": {"node": NODE, "model": WORD, "version": WORD},
    "sleep": {"for": SECONDS},
    # must be seen
    "finalizes": {"within": SECONDS},
    "stalls": {"for": SECONDS},
    "agree": {"within": SECONDS},
    "slashed": {"node": NODE, "within": SECONDS},
    "verifies": {"node": NODE, "model": WORD, "version": WORD},
}
"""What a step takes, by name. A step with one argument may give it bare."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a scenario."""

    verb: str
    """Of STEPS."""
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.verb, *[f"{name} {_show(value)}" for name, value in self.values.items()]])


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to run, and on what."""

    name: str
    nodes: int
    validators: int
    seconds_per_slot: int
    steps: tuple[Step, ...]


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file. Raises Misuse where a line is not what it can be, Unavailable when missing."""
    import yaml

    text = read_bounded(path, MAX_FILE_BYTES, "a scenario")
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark else "some line"
        raise Misuse(f"{path} is no YAML at {line}.", fix="See the scenarios in devnet/.") from None
    return parse_scenario(values, str(path))


def parse_scenario(values: Any, where: str) -> Scenario:
    """The scenario that `values` tell, read from `where`. Raises Misuse."""
    if not isinstance(values, dict) or not isinstance(values.get("steps"), list) or not values["steps"]:
        raise Misuse(f"{where} is no scenario: it has no steps.", fix="See the scenarios in devnet/.")
    known = {"name", "nodes", "validators", "seconds_per_slot", "steps"}
    if unknown := sorted(map(str, values.keys() - known)):
        raise Misuse(f"{where} says {unknown[0]!a}, which no scenario has: {', '.join(sorted(known))}.")
    nodes = _read(COUNT, values.get("nodes", 4), where)
    most = nodes + sum([step in ("join", {"join": None}) for step in values["steps"]])
    steps = tuple(
        [_parse_step(step, f"Step {n} of {where}", most) for n, step in enumerate(values["steps"], 1)]
    )
    if len(steps) > MAX_STEPS:
        raise Misuse(f"{where} has {len(steps)} steps; at most {MAX_STEPS} are run.")
    return Scenario(
        name=_read(WORD, values.get("name", where), where),
        nodes=nodes,
        validators=_read(COUNT, values.get("validators", 64), where),
        seconds_per_slot=_read(COUNT, values.get("seconds_per_slot", 1), where),
        steps=steps,
    )


def _parse_step(step: Any, where: str, nodes: int) -> Step:
    if isinstance(step, str):
        step = {step: None}
    if not isinstance(step, dict) or len(step) != 1:
        raise Misuse(f"{where} is not one verb with what it takes.", fix="Write it as: - kill: 2")
    [(verb, given)] = step.items()
    if verb not in STEPS:
        raise Misuse(f"{where} has the verb {verb!a}; there are {', '.join(STEPS)}.")
    takes = STEPS[verb]
    if not isinstance(given, dict):
        given = {} if given is None else {next(iter(takes), ""): given}
    if given.keys() != takes.keys():
        raise Misuse(f"{where}: {verb} takes {', '.join(takes) or 'nothing'}, and got {_list(given)}.")
    values = {name: _read(takes[name], value, f"{where}, {name}") for name, value in given.items()}
    for number in _get_numbers(values):
        if not 1 <= number <= nodes:
            raise Misuse(f"{where} names node {number}, and there are {nodes}.")
    return Step(verb, values)


def _list(given: Mapping[Any, Any]) -> str:
    return ", ".join([ascii(name)[1:-1] for name in map(str, given)]) or "nothing"


def _get_numbers(values: Mapping[str, Any]) -> list[int]:
    groups = values.get("groups", ())
    own = [values["node"]] if "node" in values else []
    return [*own, *[number for group in groups for number in group]]


def _read(kind: str, value: Any, where: str) -> Any:
    """A value of its kind. Raises Misuse."""
    if kind == GROUPS:
        return parse_groups(str(value))
    if kind == SECONDS:
        return parse_seconds(str(value))
    if kind == WORD and isinstance(value, str | int | float) and str(value).isprintable():
        return str(value)
    if kind in (NODE, COUNT) and type(value) is int and 0 < value < 1 << 16:
        return value
    raise Misuse(f"{where} is {value!a}; it must be a {kind}.")


def parse_seconds(text: str) -> float:
    """ "3", "3s", "-0.5 s": seconds. Raises Misuse."""
    try:
        seconds = float(text.strip().removesuffix("s"))
    except ValueError:
        seconds = float("nan")
    if not abs(seconds) <= MAX_SECONDS:
        raise Misuse(
            f"{text!a} is no time of at most {MAX_SECONDS} seconds.", fix="Write it as 3s, or -0.5s."
        )
    return seconds


def parse_groups(text: str) -> tuple[tuple[int, ...], ...]:
    """ "1,2/3,4": nodes that talk to each other, group by group. Raises Misuse."""
    parts = [part.split(",") for part in text.replace(" ", "").split("/")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 6 for part in parts for word in part):
        raise Misuse(f"{text!a} are no groups of nodes.", fix="Write them as 1,2/3,4")
    groups = tuple([tuple(map(int, part)) for part in parts])
    numbers = [number for group in groups for number in group]
    if len(groups) < 2 or len(set(numbers)) != len(numbers):
        raise Misuse(f"{text!a} is no partition: two groups or more, no node in two.", fix="Write 1,2/3,4")
    return groups


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join([",".join(map(str, group)) for group in value])
    return f"{value:g} s" if isinstance(value, float) else str(value)
