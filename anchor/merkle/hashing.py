"""SHA-256 in the three shapes that a Merkle tree needs: one message, many pairs, a whole subtree."""

from __future__ import annotations

from hashlib import sha256 as _sha256
from typing import Any, Final

Buffer = bytes | bytearray | memoryview


def sha256(data: Buffer) -> bytes:
    """SHA-256 of `data`: 32 bytes."""
    return _sha256(data).digest()


def _zero_hashes(levels: int) -> tuple[bytes, ...]:
    hashes = [bytes(32)]
    for _ in range(levels):
        hashes.append(sha256(hashes[-1] * 2))
    return tuple(hashes)


ZERO_HASHES: Final = _zero_hashes(64)
"""`ZERO_HASHES[d]` is the root of a subtree of depth d whose leaves are all zero."""


def hash_pairs(nodes: Buffer) -> bytes:
    """SHA-256 of every 64-byte block of `nodes`: one tree level, `len(nodes) // 2` bytes."""
    if len(nodes) % 64:
        raise ValueError(f"a level has whole pairs of 32-byte nodes, not {len(nodes)} bytes")
    view = memoryview(nodes)
    return b"".join([_sha256(view[i : i + 64]).digest() for i in range(0, len(view), 64)])


def hash_pairs_into(out: Any, nodes: Any) -> None:
    """`hash_pairs`, written into the writable buffer `out`; the two may start at the same place."""
    memoryview(out).cast("B")[:] = hash_pairs(memoryview(nodes).cast("B"))


def merkle_root(chunks: Buffer, depth: int) -> bytes:
    """Root of the subtree of `depth` over 32-byte `chunks`, filled up with zero chunks on the right.

    Raises ValueError when the chunks do not fit in `depth`, or are not whole.
    """
    if len(chunks) % 32 or len(chunks) > 32 << depth:
        raise ValueError(f"{len(chunks)} bytes of chunks do not fit a tree of depth {depth}")
    if not chunks:
        return ZERO_HASHES[depth]
    level = bytes(chunks)
    for d in range(depth):
        if len(level) == 32:
            return _raise_to(level, d, depth)
        level = hash_pairs(level if len(level) % 64 == 0 else level + ZERO_HASHES[d])
    return level


def _raise_to(node: bytes, low: int, high: int) -> bytes:
    for d in range(low, high):
        node = sha256(node + ZERO_HASHES[d])
    return node
