"""From a model on disk to its manifest."""

from __future__ import annotations

import os
from typing import NamedTuple

from anchor.errors import MissingFile, Unavailable, Unsafe
from anchor.merkle.scope import schema_of
from anchor.ml.components import assign_components
from anchor.ml.formats.layout import Layout
from anchor.ml.leaves import Progress, hash_ranges, hash_skeleton
from anchor.ml.lineage import Lineage
from anchor.ml.manifest import (
    MANIFEST_VERSION,
    Alias,
    Extent,
    File,
    Manifest,
    Tensor,
    compute_notes_root,
)
from anchor.ml.paths import IGNORED, path_defect
from anchor.ml.report import Answer
from anchor.ml.rules import verify_manifest
from anchor.ml.source import Source
from anchor.ml.survey import Survey, Surveyed, survey, tensor_names

Key = tuple[str, str]
"""(component, name)."""


class _Hashed(NamedTuple):
    """A surveyed file with the digests of what it holds."""

    file: Surveyed
    placed: list[tuple[int, str]]
    """(offset, name) of its extents, ascending."""
    skeleton: bytes


def build_manifest(
    source: Source,
    *,
    lineage: Lineage | None = None,
    found: Survey | None = None,
    progress: Progress = lambda _: None,
) -> Manifest:
    """The manifest of the model at `source`. `found` is its survey, where one was made already.

    Raises Unsafe for what must not be followed or named, MissingFile for a dangling link, Unavailable, and
    InvalidManifest for a lineage or a folder that no manifest may describe.
    """
    found = found or survey(source)
    _refuse_unfit(found)
    components = assign_components(tensor_names({file.path: file.layout for file in found.files}))
    weights: dict[Key, Tensor] = {}
    hashed = [_hash_file(source, file, components, weights, progress) for file in found.files]
    positions = {key: position for position, key in enumerate(sorted(weights))}
    manifest = Manifest(
        version=MANIFEST_VERSION,
        weights=tuple(weights[key] for key in positions),
        aliases=_aliases(found.files, components, positions),
        files=tuple(_file(item, components, positions, weights) for item in hashed),
        ignored=IGNORED,
        lineage=lineage or schema_of(Lineage).default(),
    )
    verify_manifest(manifest)
    return manifest


def _refuse_unfit(found: Survey) -> None:
    for finding in found.findings:
        if finding.answer is Answer.UNSAFE:
            raise Unsafe(
                f"{finding.path!r} cannot be part of a model. {finding.what}",
                fix="Take it out of the folder, or replace it by a regular file.",
            )
    for path in found.listing.files:
        if defect := path_defect(path):
            raise Unsafe(f"{path!r} cannot be named in a manifest: {defect}.", fix="Rename it.")
    opened = {file.path for file in found.files}
    for path in found.listing.files:
        if path not in opened:
            raise MissingFile(f"{path!r} is a link to a file that is not there.", fix="Fetch it again.")


def _hash_file(
    source: Source,
    file: Surveyed,
    components: dict[str, str],
    weights: dict[Key, Tensor],
    progress: Progress,
) -> _Hashed:
    """Hashes a file once, and adds its tensors to `weights`."""
    tensors = file.layout.tensors if file.layout else ()
    placed = sorted((item.offset, item.tensor) for item in tensors if item.offset is not None)
    ranges = [(offset, tensor.length) for offset, tensor in placed]
    fd = source.open(file.path)
    try:
        if os.fstat(fd).st_size != file.size:
            raise Unavailable(f"{file.path!r} changed while it was read.", fix="Try again later.")
        digests = hash_ranges(fd, ranges, progress)
        skeleton = hash_skeleton(fd, file.size, ranges, progress)
    finally:
        os.close(fd)
    chunks = {tensor.name: joined for (_, tensor), joined in zip(placed, digests, strict=True)}
    for item in tensors:
        name, dtype, shape, length = item.tensor
        weights[components[file.path], name] = Tensor(
            component=components[file.path],
            name=name,
            dtype=dtype,
            shape=shape,
            length=length,
            chunks=chunks.get(name, b""),
        )
    return _Hashed(file, [(offset, tensor.name) for offset, tensor in placed], skeleton)


def _file(
    item: _Hashed, components: dict[str, str], positions: dict[Key, int], weights: dict[Key, Tensor]
) -> File:
    file = item.file
    component = components.get(file.path, "")
    extents = tuple(
        Extent(
            offset=offset,
            length=weights[component, name].length,
            tensor=positions[component, name],
        )
        for offset, name in item.placed
    )
    return File(
        path=file.path,
        format=file.format,
        size=file.size,
        extents=extents,
        unplaced=_unplaced(file.layout, component, positions),
        notes_root=compute_notes_root(file.layout.metadata) if file.layout else bytes(32),
        skeleton=item.skeleton,
    )


def _unplaced(layout: Layout | None, component: str, positions: dict[Key, int]) -> tuple[int, ...]:
    tensors = layout.tensors if layout else ()
    return tuple(sorted(positions[component, item.tensor.name] for item in tensors if item.offset is None))


def _aliases(
    files: tuple[Surveyed, ...], components: dict[str, str], positions: dict[Key, int]
) -> tuple[Alias, ...]:
    found = [
        Alias(component=components[file.path], name=name, tensor=positions[components[file.path], target])
        for file in files
        if file.layout
        for name, target in file.layout.aliases
    ]
    return tuple(sorted(found, key=lambda alias: (alias.component, alias.name)))
