"""The kernel's functions over `hashlib`: where there is no native kernel, and as its oracle in tests."""

from __future__ import annotations

from hashlib import sha256 as _sha256
from typing import Any, Final

from anchor.types import Buffer


def sha256(data: Buffer, /) -> bytes:
    """SHA-256 of `data`: 32 bytes."""
    return _sha256(data).digest()


def _zero_hashes(levels: int) -> tuple[bytes, ...]:
    hashes = [bytes(32)]
    for _ in range(levels):
        hashes.append(sha256(hashes[-1] * 2))
    return tuple(hashes)


_ZERO_HASHES: Final = _zero_hashes(64)


def _flat(buffer: Buffer) -> memoryview:
    """The bytes of any contiguous buffer, whatever its items and shape are."""
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")


def hash_pairs(nodes: Buffer, /) -> bytes:
    """SHA-256 of every 64-byte block of `nodes`: one tree level, half as many bytes.

    Raises ValueError where `nodes` is not whole pairs.
    """
    view = _flat(nodes)
    if len(view) % 64:
        raise ValueError(f"a level has whole pairs of 32-byte nodes, not {len(view)} bytes")
    return b"".join([_sha256(view[i : i + 64]).digest() for i in range(0, len(view), 64)])


def hash_pairs_into(out: Any, nodes: Any, /) -> None:
    """`hash_pairs` into the start of the writable buffer `out`, which may be `nodes` itself.

    Both are contiguous buffers of any shape: NumPy columns are hashed where they are.
    Raises ValueError where `nodes` is not whole pairs or `out` is too short for their digests.
    """
    digests = hash_pairs(nodes)
    view = memoryview(out)
    if view.readonly:
        raise BufferError("the output is read-only")
    if view.nbytes < len(digests):
        raise ValueError(f"the output holds {view.nbytes} bytes, {len(digests)} are needed")
    if digests:
        view.cast("B")[: len(digests)] = digests


def merkle_root(chunks: Buffer, depth: int, /) -> bytes:
    """Root of the subtree of `depth` (0 to 64) over 32-byte `chunks`, filled up with zero chunks.

    Raises ValueError where the chunks do not fit in `depth`, or are not whole.
    """
    level: bytes | memoryview = _flat(chunks)
    if not 0 <= depth <= 64:
        raise ValueError(f"a tree has a depth of 0 to 64, not {depth}")
    if len(level) % 32 or len(level) > 32 << depth:
        raise ValueError(f"{len(level)} bytes of chunks do not fit a tree of depth {depth}")
    if not level:
        return _ZERO_HASHES[depth]
    for d in range(depth):
        if len(level) % 64:
            level = bytes(level) + _ZERO_HASHES[d]
        level = hash_pairs(level)
    return bytes(level)


def hash_leaves(data: Buffer, leaf_size: int = 1 << 20, /) -> bytes:
    """SHA-256 of each `leaf_size` bytes of `data`, one after another; the last leaf is what is left.

    Raises ValueError where `leaf_size` is not positive.
    """
    if leaf_size < 1:
        raise ValueError(f"a leaf has at least one byte, not {leaf_size}")
    view = _flat(data)
    return b"".join([_sha256(view[i : i + leaf_size]).digest() for i in range(0, len(view), leaf_size)])


def hash_slices(data: Buffer, lengths: list[int], /) -> bytes:
    """SHA-256 of consecutive slices of `data`, one digest for each of `lengths`.

    Raises ValueError where the lengths are negative or do not add up to the data's length.
    """
    view = _flat(data)
    digests, start = [], 0
    for i, length in enumerate(lengths):
        if not 0 <= length <= len(view) - start:
            raise ValueError(f"slice {i} has length {length}, {len(view) - start} bytes are left for it")
        digests.append(_sha256(view[start : start + length]).digest())
        start += length
    if start != len(view):
        raise ValueError(f"{len(view) - start} bytes are in none of the slices")
    return b"".join(digests)


def hash_mapped(fd: int, offset: int, size: int, lengths: list[int], /) -> bytes | None:
    """`hash_slices` of `size` bytes, from `offset` on, of the file open at `fd`, mapped instead of read.

    None where they must be read: the file cannot be mapped, or was truncated meanwhile. Here it is always
    None, for an access to a truncated map ends the process; the kernel in C has a guard against that.
    """
    return None
