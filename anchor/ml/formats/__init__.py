"""The registry of readers, and a word for what a file's content is.

To add a format, write a module with a `FORMAT` and name it here; nothing else changes.
"""

from __future__ import annotations

from typing import Final

from anchor.ml.formats import safetensors
from anchor.ml.formats.layout import Format

FORMATS: Final[tuple[Format, ...]] = (safetensors.FORMAT,)

READERS: Final = {form.name: form for form in FORMATS}
"""By the name that a manifest records."""

HEAD_BYTES: Final = 1024
"""First bytes that `find_format` and `content_word` look at."""

LFS_PREFIX: Final = b"version https://git-lfs.github.com/spec/v1\n"
UNFETCHED: Final = "It is a Git LFS pointer: the file itself was not fetched (`git lfs pull` does)."

_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (LFS_PREFIX, "Git LFS pointer"),
    (b"GGUF", "GGUF"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"\x93NUMPY", "NumPy array"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x7fELF", "ELF program"),
    (b"%PDF-", "PDF"),
    (b"<!DOCTYPE", "HTML page"),
    (b"<html", "HTML page"),
)


def declared_format(path: str) -> Format | None:
    """The format that a file's name declares."""
    return next((form for form in FORMATS if path.endswith(form.suffixes)), None)


def find_format(path: str, head: bytes, size: int) -> Format | None:
    """The format to read a file by: the one its name declares, or else the one its content looks like."""
    return declared_format(path) or next((form for form in FORMATS if form.is_like(head, size)), None)


def content_word(head: bytes, size: int) -> str:
    """What a file's first bytes look like, in a few words for people."""
    if not size:
        return "empty file"
    for form in FORMATS:
        if form.is_like(head, size):
            return form.name
    if head.startswith(b"PK\x03\x04"):
        return "PyTorch zip" if b"/data.pkl" in head[:200] else "zip"
    start = head.lstrip()
    for magic, word in _MAGIC:
        if head.startswith(magic) or start[: len(magic)].lower() == magic.lower():
            return word
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    if head[257:262] == b"ustar":
        return "tar"
    if not head.strip(b"\0"):
        return "zeros"
    return "text" if _is_text(head) else "unknown data"


def _is_text(head: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\n\r\f\x1b" for byte in head)
