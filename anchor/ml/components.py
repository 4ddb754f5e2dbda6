"""Which part of a pipeline a file's tensors belong to (rule 11, specs/02 §2.5).

A component is a folder. Only where one folder holds two sets of weights under the same names (a quantised
variant, a moving average), or optimiser state, does a set get a component of its own below it. Shards of one
set never do, so that the component does not depend on how the weights are cut.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

MAIN_SETS: Final = ("model", "diffusion_pytorch_model", "pytorch_model")
"""The set that a loader takes when it is given the folder, in order of preference."""
STATE_SETS: Final = frozenset({"optimizer"})
"""Sets that are training state, and no weights."""

_SHARD: Final = re.compile(r"[-_.]\d{5,6}-of-\d{5,6}")

Names = Mapping[str, Collection[str]]
"""Path of a file → names of its tensors."""


class Twice(NamedTuple):
    """A tensor that two files of one set hold: it cannot be told which one is meant."""

    name: str
    first: str
    second: str


def set_of(path: str) -> str:
    """The set that a file is a part of: its name without shard number and suffix."""
    return _SHARD.sub("", path.rpartition("/")[2]).rpartition(".")[0]


def assign_components(names: Names) -> dict[str, str]:
    """Path → component, for the files that hold tensors."""
    folders: dict[str, dict[str, set[str]]] = {}
    for path, held in names.items():
        folders.setdefault(path.rpartition("/")[0], {}).setdefault(set_of(path), set()).update(held)
    own = {folder: _sets_apart(sets) for folder, sets in folders.items()}
    return {path: _component(path, own[path.rpartition("/")[0]]) for path in names}


def find_twice(names: Names) -> list[Twice]:
    """Tensors that stand twice within one set, in the order of paths."""
    seen: dict[tuple[str, str, str], str] = {}
    found: list[Twice] = []
    for path in sorted(names):
        place = (path.rpartition("/")[0], set_of(path))
        for name in names[path]:
            first = seen.setdefault((*place, name), path)
            if first != path:
                found.append(Twice(name, first, path))
    return found


def _sets_apart(sets: Mapping[str, set[str]]) -> frozenset[str]:
    """The sets of one folder that are components of their own."""
    state = sets.keys() & STATE_SETS
    weights = sets.keys() - state
    if sum(len(sets[name]) for name in weights) == len(set[str]().union(*(sets[name] for name in weights))):
        return frozenset(state)
    main = next((name for name in MAIN_SETS if name in weights), None)
    return frozenset(state | (weights - {main}))


def _component(path: str, own: frozenset[str]) -> str:
    folder = path.rpartition("/")[0]
    name = set_of(path)
    return f"{folder}/{name}".lstrip("/") if name in own else folder
