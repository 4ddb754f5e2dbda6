"""Where a model comes from: the publisher's claim, bound to the manifest (specs/02 §2.7)."""

from __future__ import annotations

from typing import Annotated, Final

from anchor.merkle.container import Container
from anchor.merkle.text import Text
from anchor.types import Bytes32, Limit, uint64

OPERATIONS: Final = {
    "": (0, 0),
    "train": (0, 0),
    "fine-tune": (1, 1),
    "adapter": (1, 1),
    "quantise": (1, 1),
    "average": (2, 64),
    "swa": (1, 64),
    "ema": (1, 64),
    "slerp": (2, 2),
    "ties": (2, 64),
    "dare": (2, 64),
    "task-arithmetic": (2, 64),
}
"""How a model was made of its parents: fewest and most of them. Empty: the publisher does not say."""


class Setting(Container):
    """A named value; numbers are written in decimal, as they were given."""

    key: Annotated[str, Text(128)]
    value: Annotated[str, Text(1024)]


class Parent(Container):
    """A model that this one was made from."""

    manifest_root: Bytes32
    name: Annotated[str, Text(256)]
    """What the publisher calls it; the root is what counts."""
    weight: Annotated[str, Text(64)]
    """Its share in a merge, in decimal; empty where there is none."""


class Code(Container):
    """The program that made the model."""

    repository: Annotated[str, Text(256)]
    commit: Annotated[str, Text(64)]


class Dataset(Container):
    """What the model was trained on."""

    name: Annotated[str, Text(256)]
    version: Annotated[str, Text(128)]


class Privacy(Container):
    """A differential-privacy budget, spent up to this checkpoint."""

    epsilon: Annotated[str, Text(64)]
    delta: Annotated[str, Text(64)]
    mechanism: Annotated[str, Text(64)]


class Lineage(Container):
    """How a model was made."""

    operation: Annotated[str, Text(32)]
    """A key of `OPERATIONS`."""
    parents: Annotated[tuple[Parent, ...], Limit(64)]
    recipe: Annotated[tuple[Setting, ...], Limit(256)]
    """What the operation was told: seed, dtypes, normalisation, …; sorted by key."""
    code: Code
    datasets: Annotated[tuple[Dataset, ...], Limit(64)]
    hyperparameters: Annotated[tuple[Setting, ...], Limit(1024)]
    """Sorted by key."""
    hardware: Annotated[str, Text(256)]
    metrics: Annotated[tuple[Setting, ...], Limit(256)]
    """Sorted by key."""
    step: Annotated[tuple[uint64, ...], Limit(1)]
    """Optimiser steps taken; empty when not stated."""
    privacy: Annotated[tuple[Privacy, ...], Limit(1)]
    """Empty when not stated."""
