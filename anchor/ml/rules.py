"""The rules that a manifest must hold to, whoever signed it (specs/02 §2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from anchor.errors import InvalidManifest, Unsafe
from anchor.ml.components import assign_components, find_twice
from anchor.ml.dtypes import BITS, byte_length
from anchor.ml.lineage import OPERATIONS, Lineage
from anchor.ml.manifest import MANIFEST_VERSION, Extent, File, Manifest, Tensor, chunk_count, held_tensors
from anchor.ml.paths import IGNORED, clash, is_ignored, path_defect


def verify_manifest(manifest: Manifest) -> None:
    """Holds a decoded manifest to its rules. Raises InvalidManifest, or Unsafe for a path that is unfit."""
    if manifest.version != MANIFEST_VERSION:
        raise InvalidManifest(
            f"The manifest has version {manifest.version}, and this program knows {MANIFEST_VERSION}.",
            fix="Use a newer release.",
        )
    if not manifest.files:
        raise InvalidManifest("The manifest names no file.")
    _verify_weights(manifest.weights)
    _verify_aliases(manifest)
    _verify_paths(manifest)
    for file in manifest.files:
        _verify_file(file, manifest.weights)
    _verify_holders(manifest)
    _verify_components(manifest)
    verify_lineage(manifest.lineage)


def _verify_weights(weights: tuple[Tensor, ...]) -> None:
    _require_ascending([(tensor.component, tensor.name) for tensor in weights], "weights")
    for tensor in weights:
        if tensor.dtype not in BITS:
            raise InvalidManifest(f"Tensor {tensor.name!r} has the unknown dtype {tensor.dtype!r}.")
        if tensor.length != byte_length(tensor.dtype, tensor.shape):
            raise InvalidManifest(
                f"Tensor {tensor.name!r} has {tensor.length} bytes, which is not what {tensor.dtype} "
                f"{list(tensor.shape)} gives."
            )
        _require_chunks(tensor.chunks, tensor.length, f"Tensor {tensor.name!r}")


def _verify_aliases(manifest: Manifest) -> None:
    _require_ascending([(alias.component, alias.name) for alias in manifest.aliases], "aliases")
    names = {(tensor.component, tensor.name) for tensor in manifest.weights}
    for alias in manifest.aliases:
        if alias.tensor >= len(manifest.weights):
            raise InvalidManifest(f"Alias {alias.name!r} stands for a tensor that is not there.")
        if (alias.component, alias.name) in names:
            raise InvalidManifest(f"{alias.name!r} is both a tensor and an alias.")
        if manifest.weights[alias.tensor].component != alias.component:
            raise InvalidManifest(f"Alias {alias.name!r} stands for a tensor of another component.")


def _verify_paths(manifest: Manifest) -> None:
    paths = [file.path for file in manifest.files]
    for path in paths:
        if defect := path_defect(path):
            raise Unsafe(f"The manifest names {path!r}, and {defect}.")
    _require_ascending(paths, "files")
    if both := clash(paths):
        raise InvalidManifest(f"{both[0]!r} and {both[1]!r} cannot both exist on every file system.")
    _require_ascending(manifest.ignored, "ignore rules")
    if unknown := set(manifest.ignored) - set(IGNORED):
        raise InvalidManifest(f"The manifest ignores {min(unknown)!r}, which is not on the fixed list.")
    for path in paths:
        if is_ignored(path, manifest.ignored):
            raise InvalidManifest(f"The manifest both names and ignores {path!r}.")


def _verify_file(file: File, weights: tuple[Tensor, ...]) -> None:
    where = f"File {file.path!r}"
    if not file.format and (file.extents or file.unplaced or any(file.notes_root)):
        raise InvalidManifest(f"{where} is opaque, and has tensors or notes.")
    end = covered = 0
    for extent in file.extents:
        _verify_extent(extent, end, file, weights)
        end = extent.offset + extent.length
        covered += extent.length
    _require_ascending(file.unplaced, f"unplaced tensors of {file.path!r}")
    if file.unplaced and file.unplaced[-1] >= len(weights):
        raise InvalidManifest(f"{where} holds a tensor that is not there.")
    _require_chunks(file.skeleton, file.size - covered, where)


def _verify_extent(extent: Extent, end: int, file: File, weights: tuple[Tensor, ...]) -> None:
    where = f"File {file.path!r} has an extent at {extent.offset} of {extent.length} bytes, which"
    if extent.offset < end:
        raise InvalidManifest(f"{where} begins before the last one ends at {end}.")
    if extent.offset + extent.length > file.size:
        raise InvalidManifest(f"{where} ends beyond the file's {file.size} bytes.")
    if extent.tensor >= len(weights):
        raise InvalidManifest(f"{where} is a tensor that is not there.")
    if not extent.length or extent.length != weights[extent.tensor].length:
        raise InvalidManifest(f"{where} is not one whole tensor that has bytes.")


def _verify_holders(manifest: Manifest) -> None:
    """Every tensor lies in one extent, or is held without one; never both, never neither."""
    placed = [extent.tensor for file in manifest.files for extent in file.extents]
    unplaced = {index for file in manifest.files for index in file.unplaced}
    once = set(placed)
    if len(once) != len(placed) or once & unplaced:
        raise InvalidManifest("The manifest places a tensor twice.")
    for index, tensor in enumerate(manifest.weights):
        if index not in once and index not in unplaced:
            raise InvalidManifest(f"No file holds tensor {tensor.name!r}.")


def _verify_components(manifest: Manifest) -> None:
    """Components follow from paths and names, so that nobody can choose them."""
    called: dict[int, list[str]] = {index: [tensor.name] for index, tensor in enumerate(manifest.weights)}
    for alias in manifest.aliases:
        called[alias.tensor].append(alias.name)
    held = {file.path: indices for file in manifest.files if (indices := held_tensors(file))}
    names = {path: [name for index in indices for name in called[index]] for path, indices in held.items()}
    if twice := find_twice(names):
        raise InvalidManifest(
            f"Tensor {twice[0].name!r} is both in {twice[0].first!r} and in {twice[0].second!r}."
        )
    for path, component in assign_components(names).items():
        for index in held[path]:
            if manifest.weights[index].component != component:
                raise InvalidManifest(
                    f"Tensor {manifest.weights[index].name!r} of {path!r} belongs to component "
                    f"{component!r}, not {manifest.weights[index].component!r}."
                )


def verify_lineage(lineage: Lineage) -> None:
    """The operation is a known one, has as many parents as it takes, and lists are sorted."""
    if lineage.operation not in OPERATIONS:
        raise InvalidManifest(f"{lineage.operation!r} is no operation that makes a model.")
    fewest, most = OPERATIONS[lineage.operation]
    if not fewest <= len(lineage.parents) <= most:
        raise InvalidManifest(
            f"{lineage.operation or 'a model of unstated origin'!r} has {fewest} to {most} parents, not "
            f"{len(lineage.parents)}."
        )
    for what in ("recipe", "hyperparameters", "metrics"):
        _require_ascending([setting.key for setting in getattr(lineage, what)], what)


def _require_ascending(keys: Iterable[Any], what: str) -> None:
    for before, after in pairwise(keys):
        if not before < after:
            raise InvalidManifest(f"The {what} are not strictly sorted: {after!r} follows {before!r}.")


def _require_chunks(digests: bytes, length: int, where: str) -> None:
    if len(digests) != 32 * chunk_count(length):
        raise InvalidManifest(
            f"{where} has {len(digests) // 32} chunk digests, and {length} bytes take {chunk_count(length)}."
        )
