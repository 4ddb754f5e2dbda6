"""What differs between two models: weights, files, lineage. Pure: it compares manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from anchor.ml.inspect import OPAQUE_WEIGHTS
from anchor.ml.manifest import File, Manifest, Tensor, files_root, held_tensors, weights_root

Key = tuple[str, str]
"""(component, name)."""
Content = tuple[Any, ...]
"""What makes two tensors or files equal apart from their names."""


N = TypeVar("N", str, Key)


class Change(NamedTuple):
    """One difference between the first model and the second."""

    kind: str
    """added, removed, renamed, changed; for tensors also dtype, shape, aliased; for files also rewritten."""
    name: str
    """A path, or a tensor's name with its component before it."""
    what: str = ""


class Difference(NamedTuple):
    """Everything in which two models differ."""

    weights_equal: bool
    files_equal: bool
    lineage_equal: bool
    tensors: tuple[Change, ...]
    files: tuple[Change, ...]
    unread: tuple[str, ...]
    """Of the files that differ, those whose tensors no reader here reads: they are in no comparison."""

    @property
    def is_equal(self) -> bool:
        """Weights, files and lineage are the same."""
        return self.weights_equal and self.files_equal and self.lineage_equal

    def to_json(self) -> dict[str, Any]:
        """The difference as plain values."""
        return {
            "equal": self.is_equal,
            "weights_equal": self.weights_equal,
            "files_equal": self.files_equal,
            "lineage_equal": self.lineage_equal,
            "tensors": [change._asdict() for change in self.tensors],
            "files": [change._asdict() for change in self.files],
            "unread": list(self.unread),
        }


def compare_manifests(one: Manifest, other: Manifest) -> Difference:
    """What changes from `one` to `other`."""
    files = tuple(_compare_files(one, other))
    return Difference(
        weights_equal=weights_root(one) == weights_root(other),
        files_equal=files_root(one) == files_root(other),
        lineage_equal=one.lineage == other.lineage,
        tensors=tuple(_compare_tensors(one, other)),
        files=files,
        unread=tuple([path for path in _find_opaque(one, other) if path in {file.name for file in files}]),
    )


def _find_opaque(*manifests: Manifest) -> list[str]:
    """Files that hold tensors by their names, and have no reader."""
    files = {file.path: file for manifest in manifests for file in manifest.files if not file.format}
    return [path for path in sorted(files) if path.endswith(OPAQUE_WEIGHTS)]


def _compare_tensors(one: Manifest, other: Manifest) -> Iterable[Change]:
    before = {(tensor.component, tensor.name): tensor for tensor in one.weights}
    after = {(tensor.component, tensor.name): tensor for tensor in other.weights}
    for key in sorted(before.keys() & after.keys()):
        if before[key] != after[key]:
            yield _changed_tensor(full_name(*key), before[key], after[key])
    removed = {key: _tensor_content(before[key]) for key in sorted(before.keys() - after.keys())}
    added = {key: _tensor_content(after[key]) for key in sorted(after.keys() - before.keys())}
    renamed = _match(removed, added)
    old, new = _Names.of(one), _Names.of(other)
    for key in removed:
        if key in renamed:
            yield Change("renamed", full_name(*key), f"now {full_name(*renamed[key])}")
        else:
            yield _gone("removed", key, before[key], new)
    for key in sorted(added.keys() - set(renamed.values())):
        yield _gone("added", key, after[key], old)


def full_name(component: str, name: str) -> str:
    """A tensor's name with its component before it, for people."""
    return f"{component}/{name}" if component else name


def _changed_tensor(name: str, before: Tensor, after: Tensor) -> Change:
    if before.dtype != after.dtype:
        return Change("dtype", name, f"{before.dtype} → {after.dtype}")
    if before.shape != after.shape:
        return Change("shape", name, f"{list(before.shape)} → {list(after.shape)}")
    places = range(0, len(before.chunks), 32)
    count = sum(before.chunks[place : place + 32] != after.chunks[place : place + 32] for place in places)
    return Change("changed", name, f"{count} of {len(places)} chunks differ")


class _Names(NamedTuple):
    """Under which names a model has a tensor."""

    aliases: Mapping[Key, Key]
    contents: Mapping[Content, list[Key]]

    @classmethod
    def of(cls, manifest: Manifest) -> _Names:
        keys = [(tensor.component, tensor.name) for tensor in manifest.weights]
        contents = {key: _tensor_content(tensor) for key, tensor in zip(keys, manifest.weights, strict=True)}
        aliases = {(alias.component, alias.name): keys[alias.tensor] for alias in manifest.aliases}
        return cls(aliases, _by_content(contents))


def _gone(kind: str, key: Key, tensor: Tensor, other: _Names) -> Change:
    """A tensor that one model has and the other does not, unless as a second name of one that it has."""
    if key in other.aliases:
        return Change("aliased", full_name(*key), f"alias of {full_name(*other.aliases[key])}")
    twins = other.contents.get(_tensor_content(tensor), []) if tensor.length else []
    return Change(kind, full_name(*key), f"the same bytes as {full_name(*twins[0])}" if twins else "")


def _tensor_content(tensor: Tensor) -> Content:
    return tensor.dtype, tensor.shape, tensor.chunks


def _compare_files(one: Manifest, other: Manifest) -> Iterable[Change]:
    before = {file.path: file for file in one.files}
    after = {file.path: file for file in other.files}
    for path in sorted(before.keys() & after.keys()):
        if _file_content(before[path], one) != _file_content(after[path], other):
            yield _changed_file(path, (before[path], one), (after[path], other))
    removed = {path: _file_content(before[path], one) for path in sorted(before.keys() - after.keys())}
    added = {path: _file_content(after[path], other) for path in sorted(after.keys() - before.keys())}
    renamed = _match(removed, added)
    for path in removed:
        yield Change("renamed", path, f"now {renamed[path]}") if path in renamed else Change("removed", path)
    for path in sorted(added.keys() - set(renamed.values())):
        yield Change("added", path)


def _file_content(file: File, manifest: Manifest) -> Content:
    extents = [
        (extent.offset, extent.length, manifest.weights[extent.tensor].chunks) for extent in file.extents
    ]
    return file.size, file.skeleton, tuple(extents)


def _changed_file(path: str, before: tuple[File, Manifest], after: tuple[File, Manifest]) -> Change:
    tensors = [
        {manifest.weights[index] for index in held_tensors(file)} for file, manifest in (before, after)
    ]
    if tensors[0] and tensors[0] == tensors[1]:
        same = before[0].notes_root == after[0].notes_root
        return Change("rewritten", path, f"same weights, {'same' if same else 'other'} metadata")
    sizes = f"{before[0].size} → {after[0].size} bytes"
    return Change("changed", path, sizes if before[0].size != after[0].size else "")


def _match(removed: Mapping[N, Content], added: Mapping[N, Content]) -> dict[N, N]:
    """Removed → added name, where the content is the same and stands for itself alone on both sides."""
    old, new = _by_content(removed), _by_content(added)
    return {
        names[0]: new[content][0]
        for content, names in old.items()
        if len(names) == 1 and len(new.get(content, ())) == 1
    }


def _by_content(names: Mapping[N, Content]) -> dict[Content, list[N]]:
    found: dict[Content, list[N]] = {}
    for name, content in names.items():
        found.setdefault(content, []).append(name)
    return found
