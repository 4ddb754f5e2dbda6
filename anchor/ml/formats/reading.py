"""Read a file by position; a file that ends early is not what it said it was."""

from __future__ import annotations

import os

from anchor.errors import MalformedFile, Unavailable


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


def read_exactly(fd: int, offset: int, length: int) -> bytes:
    """`length` bytes from `offset` on. Raises MalformedFile when the file ends before."""
    data = read_up_to(fd, offset, length)
    if len(data) != length:
        end = offset + len(data)
        raise MalformedFile(
            f"The file ends at byte {end}, before byte {offset + length}.", cause="cut", fix="Fetch it again."
        )
    return data
