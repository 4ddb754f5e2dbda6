"""The manifest: what a model is, byte by byte (specs/02 §2.2). Every record is an SSZ container."""

from __future__ import annotations

from typing import Annotated, Final

from anchor.errors import MalformedSSZ
from anchor.merkle.container import Container
from anchor.merkle.roots import Roots
from anchor.merkle.scope import schema_of
from anchor.merkle.text import Text
from anchor.ml.leaves import CHUNK_SIZE
from anchor.ml.lineage import Lineage
from anchor.types import Bytes32, Limit, uint64

MANIFEST_VERSION: Final = 1
MAX_CHUNKS: Final = 1 << 32
MAX_TENSORS: Final = 1 << 20
MAX_FILES: Final = 1 << 16
MAX_MANIFEST_BYTES: Final = 1 << 30
"""Bytes of an encoded manifest that is looked at: enough for 30 TB of model."""


class Tensor(Container):
    """A tensor's description and its bytes' digests: the same whatever file holds it."""

    component: Annotated[str, Text(1024)]
    """The part of a pipeline that it belongs to: a folder, empty at the root (specs/02 §2.5)."""
    name: Annotated[str, Text(1024)]
    dtype: Annotated[str, Text(32)]
    """A name of `dtypes.BITS`."""
    shape: Annotated[tuple[uint64, ...], Limit(16)]
    length: uint64
    """Bytes of the canonical form: C order, little-endian."""
    chunks: Annotated[bytes, Roots(MAX_CHUNKS)]
    """SHA-256 of every 2²⁰ bytes, joined."""


class Alias(Container):
    """A second name for a whole tensor (tied weights)."""

    component: Annotated[str, Text(1024)]
    name: Annotated[str, Text(1024)]
    tensor: uint64
    """Position in the manifest's weights."""


class Extent(Container):
    """A range of a file that is one tensor's canonical bytes."""

    offset: uint64
    length: uint64
    tensor: uint64
    """Position in the manifest's weights."""


class File(Container):
    """A file: the tensors that lie in it, and all other bytes, its skeleton."""

    path: Annotated[str, Text(1024)]
    format: Annotated[str, Text(32)]
    """The reader that found the tensors; empty for an opaque file, which has none."""
    size: uint64
    extents: Annotated[tuple[Extent, ...], Limit(MAX_TENSORS)]
    unplaced: Annotated[tuple[uint64, ...], Limit(MAX_TENSORS)]
    """Tensors that the file holds otherwise than as an extent: empty ones, and ones that must be decoded."""
    notes_root: Bytes32
    """Root of the file's own key-value notes, `Notes`; zero for an opaque file."""
    skeleton: Annotated[bytes, Roots(MAX_CHUNKS)]
    """SHA-256 of every 2²⁰ bytes of what lies in no extent, as one stream."""


class Manifest(Container):
    """A model: its weights, its files, and where it comes from."""

    version: uint64
    weights: Annotated[tuple[Tensor, ...], Limit(MAX_TENSORS)]
    aliases: Annotated[tuple[Alias, ...], Limit(MAX_TENSORS)]
    files: Annotated[tuple[File, ...], Limit(MAX_FILES)]
    ignored: Annotated[tuple[Annotated[str, Text(32)], ...], Limit(16)]
    """Rules of the fixed ignore list that were in force."""
    lineage: Lineage


class Note(Container):
    """One entry of a file's own metadata."""

    key: Annotated[str, Text(1 << 27)]
    value: Annotated[str, Text(1 << 27)]


class Notes(Container):
    """A file's own metadata in canonical order, so that two ways of writing it are seen to be equal."""

    entries: Annotated[tuple[Note, ...], Limit(1 << 20)]
    """Sorted by key."""


def chunk_count(length: int) -> int:
    """Chunks of `length` bytes."""
    return -(-length // CHUNK_SIZE)


def held_tensors(file: File) -> list[int]:
    """Positions in the weights of all tensors that a file holds."""
    return [*(extent.tensor for extent in file.extents), *file.unplaced]


MANIFEST_HEAD: Final = MANIFEST_VERSION.to_bytes(8, "little") + (28).to_bytes(4, "little")
"""How every encoded manifest begins: its version, and where its variable part starts."""


def encode_manifest(manifest: Manifest) -> bytes:
    """The one encoding of `manifest`."""
    return schema_of(Manifest).encode(manifest)


def decode_manifest(data: bytes | memoryview) -> Manifest:
    """The manifest that `data` encodes; its rules are `verify_manifest`'s to check.

    Raises MalformedSSZ when it is not the one encoding of a manifest, or longer than any sane one.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise MalformedSSZ(f"A manifest has at most {MAX_MANIFEST_BYTES} bytes, not {len(data)}.")
    manifest: Manifest = schema_of(Manifest).decode(data)
    return manifest


def manifest_root(manifest: Manifest) -> bytes:
    """What a publication signs: the root of everything."""
    return schema_of(Manifest).hash_tree_root(manifest)


def weights_root(manifest: Manifest) -> bytes:
    """The root of the weights alone: equal for two layouts of the same weights (rule 11)."""
    return schema_of(Manifest).schemas["weights"].hash_tree_root(manifest.weights)


def files_root(manifest: Manifest) -> bytes:
    """The root of the files, with their layout."""
    return schema_of(Manifest).schemas["files"].hash_tree_root(manifest.files)


def compute_notes_root(notes: tuple[tuple[str, str], ...]) -> bytes:
    """The root of a file's own metadata, given sorted by key."""
    entries = tuple(Note(key=key, value=value) for key, value in notes)
    return schema_of(Notes).hash_tree_root(Notes(entries=entries))
