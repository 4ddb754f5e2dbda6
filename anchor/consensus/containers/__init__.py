"""The records of every fork. A fork's module declares only what that fork adds or modifies.

`RECORDS` of a module maps every name to the class that serves in that fork. Annotations name a record,
not a version of it: the scope that a fork builds from its `RECORDS` puts the fork's own in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anchor.merkle.container import Container

Records = Mapping[str, type[Container]]


def collect_records(module: Mapping[str, Any], inherited: Records | None = None) -> Records:
    """The records that a module (its `globals()`) declares, over those of the fork before."""
    own = {
        name: value
        for name, value in module.items()
        if isinstance(value, type) and issubclass(value, Container) and value.__module__ == module["__name__"]
    }
    return {**(inherited or {}), **own}
