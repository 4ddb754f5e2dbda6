"""A manifest, seen file by file: what each one should hold, and which part of it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from anchor.errors import Misuse
from anchor.ml.formats.layout import Descriptor, Layout, Placed
from anchor.ml.leaves import complement
from anchor.ml.manifest import File, Manifest, Tensor, held_tensors
from anchor.ml.streams import Stream


class Anchored(NamedTuple):
    """A file as the manifest describes it."""

    file: File
    placed: tuple[tuple[int, Tensor], ...]
    """(offset, tensor), ascending: those that lie in it as one range."""
    unplaced: tuple[Tensor, ...]
    layout: Layout
    """What its reader should find; without notes, of which the manifest holds only the root."""
    skeleton: Stream
    is_whole: bool
    """All of it was asked for."""
    wanted: frozenset[str]
    """Names of the tensors that were asked for."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Name → tensor."""
        return {tensor.name: tensor for tensor in (*(tensor for _, tensor in self.placed), *self.unplaced)}

    @property
    def wanted_bytes(self) -> int:
        """How many bytes there are to hash."""
        wanted = sum(tensor.length for _, tensor in self.placed if tensor.name in self.wanted)
        return self.skeleton.length + wanted


def select_files(manifest: Manifest, only: Sequence[str] = ()) -> list[Anchored]:
    """The manifest's files, or those that `only` asks for: patterns (fnmatch) of tensor names and paths.

    A pattern that a path matches takes the whole file; one that a tensor's name matches (with or without its
    component before it) takes that tensor and its file's skeleton. Raises Misuse for a pattern that takes
    nothing (rule 3).
    """
    aliases: dict[int, list[str]] = {}
    for alias in manifest.aliases:
        aliases.setdefault(alias.tensor, []).append(alias.name)
    unused = set(only)
    found = []
    for file in manifest.files:
        matching = {pattern for pattern in only if fnmatchcase(file.path, pattern)}
        is_whole = not only or bool(matching)
        tensors = [manifest.weights[extent.tensor] for extent in file.extents]
        empty = [manifest.weights[index] for index in file.unplaced]
        wanted = set()
        for tensor in (*tensors, *empty):
            mine = {pattern for pattern in only if _takes(pattern, tensor)}
            matching |= mine
            if is_whole or mine:
                wanted.add(tensor.name)
        unused -= matching
        if is_whole or wanted:
            names = [
                (name, manifest.weights[index].name)
                for index in held_tensors(file)
                for name in aliases.get(index, ())
            ]
            found.append(_anchored(file, tensors, empty, names, is_whole, frozenset(wanted)))
    if unused:
        raise Misuse(
            f"{min(unused)!r} matches no tensor and no file of this model.",
            fix="See `anchor inspect` for their names.",
        )
    return found


def _takes(pattern: str, tensor: Tensor) -> bool:
    if fnmatchcase(tensor.name, pattern):
        return True
    return bool(tensor.component) and fnmatchcase(f"{tensor.component}/{tensor.name}", pattern)


def _anchored(
    file: File,
    tensors: list[Tensor],
    empty: list[Tensor],
    aliases: list[tuple[str, str]],
    is_whole: bool,
    wanted: frozenset[str],
) -> Anchored:
    offsets = [extent.offset for extent in file.extents]
    described = [Placed(describe(tensor), offset) for tensor, offset in zip(tensors, offsets, strict=True)]
    described += [Placed(describe(tensor), None) for tensor in empty]
    described.sort(key=lambda placed: placed.tensor.name)
    extents = [(extent.offset, extent.length) for extent in file.extents]
    return Anchored(
        file=file,
        placed=tuple(zip(offsets, tensors, strict=True)),
        unplaced=tuple(empty),
        layout=Layout(tuple(described), (), tuple(sorted(aliases)), ()),
        skeleton=Stream(complement(file.size, extents), file.skeleton),
        is_whole=is_whole,
        wanted=wanted,
    )


def describe(tensor: Tensor) -> Descriptor:
    """A tensor of a manifest, as a reader would describe it."""
    return Descriptor(tensor.name, tensor.dtype, tensor.shape, tensor.length)
