"""What probably happened to a file whose bytes differ. A hint explains; it never changes an answer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from anchor.merkle.hashing import hash_leaves, sha256
from anchor.ml.anchored import Anchored
from anchor.ml.check import Checked
from anchor.ml.formats import HEAD_BYTES, LFS_PREFIX, UNFETCHED, content_word
from anchor.ml.formats.reading import read_up_to
from anchor.ml.leaves import CHUNK_SIZE
from anchor.ml.manifest import compute_notes_root
from anchor.ml.report import Answer, Damage

MAX_TEXT: Final = 16 << 20
"""Bytes of the largest file whose line endings are looked at."""
MAX_RANGES: Final = 64
"""Damaged ranges that are looked at for zeros."""

_BOM: Final = b"\xef\xbb\xbf"


class LFSPointer(NamedTuple):
    """A Git LFS pointer: what stands in a file's place until it is fetched."""

    oid: bytes
    """SHA-256 of the file that it stands for."""
    size: int


def find_hints(fd: int, anchored: Anchored, checked: Checked, *, reference: int | None) -> tuple[str, ...]:
    """Hints on the file open at `fd`, whose check found that its bytes differ."""
    size = os.fstat(fd).st_size
    head = read_up_to(fd, 0, HEAD_BYTES)
    if pointer := parse_lfs_pointer(head, size):
        return (_about_pointer(pointer, anchored, reference),)
    return (
        *_about_content(head, size, anchored),
        *_about_zeros(fd, checked),
        *_about_text(fd, size, anchored),
        *_about_weights(anchored, checked),
        *_about_unsupported(checked),
    )


def parse_lfs_pointer(head: bytes, size: int) -> LFSPointer | None:
    """The pointer that a file of `size` bytes is, or None."""
    if size > HEAD_BYTES or not head.startswith(LFS_PREFIX):
        return None
    fields = dict(line.partition(b" ")[::2] for line in head.splitlines())
    kind, _, oid = fields.get(b"oid", b"").partition(b":")
    number = fields.get(b"size", b"")
    if kind != b"sha256" or len(oid) != 64 or not number.isdigit() or len(number) > 19:
        return None
    try:
        return LFSPointer(bytes.fromhex(oid.decode()), int(number))
    except ValueError:
        return None


def _about_pointer(pointer: LFSPointer, anchored: Anchored, reference: int | None) -> str:
    if pointer.size != anchored.file.size:
        return f"{UNFETCHED} It points at another file, of {pointer.size} bytes."
    digest = _plain_digest(anchored, reference)
    if digest is None:
        return f"{UNFETCHED} It points at a file of the right size."
    return f"{UNFETCHED} It points at {'the right' if digest == pointer.oid else 'another'} file."


def _plain_digest(anchored: Anchored, reference: int | None) -> bytes | None:
    """SHA-256 of the anchored file in one stream, where it can be known: a manifest has it of small files."""
    if not anchored.placed and anchored.file.size <= CHUNK_SIZE:
        return anchored.file.skeleton or sha256(b"")
    if reference is None:
        return None
    state = hashlib.sha256()
    for start in range(0, os.fstat(reference).st_size, CHUNK_SIZE):
        state.update(read_up_to(reference, start, CHUNK_SIZE))
    return state.digest()


def _about_content(head: bytes, size: int, anchored: Anchored) -> Iterator[str]:
    word = content_word(head, size)
    if not size or (anchored.file.format and word != anchored.file.format):
        yield f"Its content looks like: {word}."


def _about_zeros(fd: int, checked: Checked) -> Iterator[str]:
    damage = [*checked.report.damage, *(item for tensor in checked.tensors for item in tensor.damage)]
    zeros = [item for item in damage[:MAX_RANGES] if _is_zero(fd, item)]
    if zeros:
        first, last = min(item.begin for item in zeros), max(item.end for item in zeros)
        yield f"Bytes {first} to {last} hold zeros where they differ: they were never written."


def _is_zero(fd: int, damage: Damage) -> bool:
    data = read_up_to(fd, damage.begin, damage.end - damage.begin)
    return len(data) > 16 and not data.strip(b"\0")


def _about_text(fd: int, size: int, anchored: Anchored) -> Iterator[str]:
    """Whether the file would be right with other line endings, or without or with a byte order mark."""
    if anchored.placed or max(size, anchored.file.size) > MAX_TEXT:
        return
    data, want = read_up_to(fd, 0, size), anchored.file
    plain = data.removeprefix(_BOM).replace(b"\r\n", b"\n")
    for text in (plain, plain.replace(b"\n", b"\r\n")):
        for candidate in (text, _BOM + text):
            if len(candidate) == want.size and hash_leaves(candidate, CHUNK_SIZE) == want.skeleton:
                yield "It differs only in line endings or a byte order mark."
                return


def _about_weights(anchored: Anchored, checked: Checked) -> Iterator[str]:
    if not checked.tensors or checked.layout is None:
        return
    if checked.report.form is not Answer.OK or any(item.answer is not Answer.OK for item in checked.tensors):
        return
    same_notes = compute_notes_root(checked.layout.metadata) == anchored.file.notes_root
    notes = "so does its metadata" if same_notes else "its metadata differs"
    yield f"It was written anew: its tensors hold the same weights, {notes}."


def _about_unsupported(checked: Checked) -> Iterator[str]:
    for tensor in checked.layout.unsupported if checked.layout else ():
        end = tensor.offset + tensor.length
        if any(item.begin < end and tensor.offset < item.end for item in checked.report.damage):
            yield f"The damage reaches tensor {tensor.name!r}, which has {tensor.why}."
