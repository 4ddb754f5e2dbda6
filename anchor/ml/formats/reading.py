"""Read a file by position; a file that ends early is not what it said it was."""

from __future__ import annotations

import os

from anchor.errors import MalformedFile, Unavailable
from anchor.ml.formats.layout import ReadAt


def read_up_to(fd: int, offset: int, length: int) -> bytes:
    """At most `length` bytes from `offset` on, fewer only where the file ends."""
    parts: list[bytes] = []
    while length:
        try:
            part = os.pread(fd, length, offset)
        except OSError as error:
            raise Unavailable(f"The file cannot be read: {error.strerror}.") from error
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)


def read_at(fd: int) -> ReadAt:
    """The file open at `fd`, as readers take it."""

    def read(offset: int, length: int) -> bytes:
        data = read_up_to(fd, offset, length)
        if len(data) != length:
            raise MalformedFile(
                f"The file ends at byte {offset + len(data)}, before byte {offset + length}.",
                cause="cut",
                fix="Fetch it again.",
            )
        return data

    return read
