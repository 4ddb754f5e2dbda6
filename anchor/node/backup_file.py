"""The file that a backup is: records, and a digest that tells at once when it was damaged.

"anchor backup 1\\n", then records: a letter, a length (eight bytes, little-endian), that many bytes

    of one operator's ledger    "h" its header, "b" each block, ascending, "m" each manifest
    of a network's node         "n" its header, "b" each block, "m" each manifest, "p" each entry that waits
    of both, at the end         "e" SHA-256 of all that came before
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Final

from anchor.errors import MalformedFile, MalformedSSZ
from anchor.merkle.ssz import Schema
from anchor.ml.manifest import MAX_MANIFEST_BYTES

MAGIC: Final = b"anchor backup 1\n"
HEADER: Final = b"h"
NETWORK: Final = b"n"
BLOCK: Final = b"b"
MANIFEST: Final = b"m"
PENDING: Final = b"p"
LIMITS: Final = {
    HEADER: 1 << 24,
    NETWORK: 1 << 24,
    BLOCK: 1 << 22,
    MANIFEST: MAX_MANIFEST_BYTES,
    PENDING: 1 << 22,
}
"""Bytes of each kind of record that are read."""
END: Final = b"e" + (32).to_bytes(8, "little")
END_BYTES: Final = len(END) + 32
Progress = Callable[[int], None]
Record = tuple[bytes, bytes]
"""Its kind, and its contents."""


class Writer:
    """Writes records, and the digest of all of them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, sha256()
        self._put(MAGIC)

    def write(self, kind: bytes, data: bytes) -> None:
        """The next record."""
        self._put(kind + len(data).to_bytes(8, "little"))
        self._put(data)

    def finish(self) -> None:
        """The last one."""
        self._put(END + self._digest.digest())

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)


def read_records(file: BinaryIO, path: Path, progress: Progress) -> Iterator[Record]:
    """The records of a file that is whole. Raises MalformedFile for another."""
    end = _require_whole(file, path)
    place = file.seek(len(MAGIC))
    while place < end:
        head = file.read(9)
        kind, length = head[:1], int.from_bytes(head[1:], "little")
        place += 9 + length
        if length > LIMITS.get(kind, 0) or place > end:
            raise broken(path, f"has a record {kind!r} of {length} bytes")
        yield kind, file.read(length)
        progress(9 + length)


def _require_whole(file: BinaryIO, path: Path) -> int:
    """Where the records end. Raises MalformedFile unless the file is as it was written."""
    end = left = file.seek(0, SEEK_END) - END_BYTES
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC or left < len(MAGIC):
        raise broken(path, "does not start as one")
    digest, left = sha256(MAGIC), left - len(MAGIC)
    while left and (part := file.read(min(left, 1 << 20))):
        digest.update(part)
        left -= len(part)
    if file.read() != END + digest.digest():
        raise broken(path, "is not as it was written")
    return end


def decode_record(schema: Schema[Any], data: bytes, path: Path) -> Any:
    """What a record holds. Raises MalformedFile where that cannot be read."""
    try:
        return schema.decode(data)
    except MalformedSSZ as error:
        raise broken(path, f"holds what cannot be read ({error.what})") from None


def broken(path: Path, how: str) -> MalformedFile:
    """What is wrong with a backup."""
    fix = "Take another copy of it, or an older backup."
    return MalformedFile(f"{path} is no whole backup: it {how}.", cause="backup", fix=fix)
