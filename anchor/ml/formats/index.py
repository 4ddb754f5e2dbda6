"""The index of a sharded model: which file holds which tensor, held against what is there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from anchor.errors import MalformedFile
from anchor.ml.components import STATE_SETS, set_of
from anchor.ml.formats.layout import Layout
from anchor.ml.formats.strict_json import parse
from anchor.ml.paths import path_defect
from anchor.ml.report import Answer, Finding

MAX_INDEX_BYTES: Final = 100_000_000

Layouts = Mapping[str, Layout | None]
"""Path → layout; None for a file whose tensors are not known."""


class ShardIndex(NamedTuple):
    """A parsed index."""

    path: str
    places: dict[str, str]
    """Name of a tensor → path of the shard that it is taken from."""
    total_size: object
    """As the index states it; None when it does not."""

    def shards(self) -> dict[str, list[str]]:
        """Path of a shard → names of the tensors that are taken from it."""
        found: dict[str, list[str]] = {}
        for name, shard in self.places.items():
            found.setdefault(shard, []).append(name)
        return found


def is_index(path: str) -> bool:
    """Whether a file is an index of shards by its name: `model.safetensors.index.json` and its like."""
    return path.endswith(".json") and ".index." in path.rpartition("/")[2]


def read_index(path: str, data: bytes) -> ShardIndex | None:
    """The index at `path` with content `data`; None when it is some other JSON. Raises MalformedFile."""
    fields = parse(data, f"{path!r}")
    if not isinstance(fields, dict) or "weight_map" not in fields:
        return None
    weight_map, metadata = fields["weight_map"], fields.get("metadata")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise MalformedFile(f"{path!r} has a weight_map that does not name a file each.", cause="index")
    folder = path.rpartition("/")[0]
    for shard in set(weight_map.values()):
        if defect := path_defect(shard):
            raise MalformedFile(f"{path!r} names the shard {shard!r}, and {defect}.", cause="index")
    places = {name: f"{folder}/{shard}".lstrip("/") for name, shard in weight_map.items()}
    return ShardIndex(path, places, metadata.get("total_size") if isinstance(metadata, dict) else None)


def check_index(index: ShardIndex, layouts: Layouts) -> list[Finding]:
    """Everything in which an index and the files of its folder disagree."""
    shards = index.shards()
    findings = [
        Finding(Answer.MISSING, shard, f"{index.path!r} names it, and it is not there.", tuple(names))
        for shard, names in shards.items()
        if shard not in layouts
    ]
    for shard, names in shards.items():
        layout = layouts.get(shard)
        if layout is not None:
            findings += _compare(index.path, shard, frozenset(names), _names_in(layout))
    return findings + _find_stray(index, shards, layouts) + _check_total(index, shards, layouts)


def _names_in(layout: Layout) -> frozenset[str]:
    return frozenset(
        [placed.tensor.name for placed in layout.tensors]
        + [tensor.name for tensor in layout.unsupported]
        + [name for name, _ in layout.aliases]
    )


def _compare(path: str, shard: str, indexed: frozenset[str], held: frozenset[str]) -> list[Finding]:
    findings = []
    if absent := sorted(indexed - held):
        what = f"{path!r} places tensors in it that it does not hold."
        findings.append(Finding(Answer.MALFORMED, shard, what, tuple(absent)))
    if omitted := sorted(held - indexed):
        what = f"It holds tensors that {path!r} does not take from it."
        findings.append(Finding(Answer.MALFORMED, shard, what, tuple(omitted)))
    return findings


def _find_stray(index: ShardIndex, shards: Collection[str], layouts: Layouts) -> list[Finding]:
    """Weights beside the indexed ones: some loaders take them too."""
    folder = index.path.rpartition("/")[0]
    return [
        Finding(Answer.EXTRA, path, f"It holds weights, and {index.path!r} does not name it.")
        for path, layout in layouts.items()
        if layout is not None
        and path not in shards
        and path.rpartition("/")[0] == folder
        and set_of(path) not in STATE_SETS
    ]


def _check_total(index: ShardIndex, shards: Collection[str], layouts: Layouts) -> list[Finding]:
    """A wrong total is a remark: no loader relies on it."""
    known = [layouts.get(shard) for shard in shards]
    if None in known:
        return []
    total = sum(
        placed.tensor.length for layout in known if layout is not None for placed in layout.tensors
    ) + sum(tensor.length for layout in known if layout is not None for tensor in layout.unsupported)
    if index.total_size == total:
        return []
    said = "no total_size" if index.total_size is None else f"a total_size of {index.total_size!r}"
    return [Finding(None, index.path, f"It states {said}, and its shards hold {total} bytes of tensors.")]
