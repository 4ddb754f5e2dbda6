"""What a reader finds in a file: tensors, and where their bytes lie. Readers parse, and execute nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

CUT_CAUSES: Final = frozenset({"cut", "header-cut", "too-short"})
"""Causes of a MalformedFile that a download broken off leaves behind."""


ReadAt = Callable[[int, int], bytes]
"""(offset, length) → exactly these bytes of a file. Raises MalformedFile where the file ends before."""


class Descriptor(NamedTuple):
    """What a tensor is, apart from its bytes."""

    name: str
    dtype: str
    """A name of `dtypes.BITS`."""
    shape: tuple[int, ...]
    length: int
    """Canonical bytes: what dtype and shape give."""


class Placed(NamedTuple):
    """A tensor in a file."""

    tensor: Descriptor
    offset: int | None
    """Where its canonical bytes lie in the file as one range; None when it is empty, or must be decoded."""


class Unsupported(NamedTuple):
    """A tensor that cannot be described here (an unknown dtype, say); its bytes belong to the skeleton."""

    name: str
    why: str
    offset: int
    length: int


class Layout(NamedTuple):
    """A file, as its reader understands it."""

    tensors: tuple[Placed, ...]
    """Sorted by name's bytes; names are unique."""
    unsupported: tuple[Unsupported, ...]
    aliases: tuple[tuple[str, str], ...]
    """(name, name of the tensor of `tensors` that it is), sorted."""
    metadata: tuple[tuple[str, str], ...]
    """The file's own key-value notes, sorted by key."""


class Format(NamedTuple):
    """A reader, as the registry knows it."""

    name: str
    """As the manifest records it."""
    suffixes: tuple[str, ...]
    """File names that declare this format: what has one and cannot be read is malformed."""
    is_like: Callable[[bytes, int], bool]
    """(first bytes, file size) → whether the content looks like it."""
    read: Callable[[ReadAt, int], Layout]
    """(file, its size) → layout. Raises MalformedFile."""
