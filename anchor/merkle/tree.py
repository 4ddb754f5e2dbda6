"""Lazily opened Merkle trees: what proofs are cut from (SSZ, "Merkleization").

A schema turns a value into a `Tree`; a node opens its children only when a proof walks through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from anchor.errors import InvalidProof
from anchor.merkle.hashing import ZERO_HASHES, merkle_root, sha256
from anchor.types import Buffer


class Tree(Protocol):
    """A node of a Merkle tree that knows its root and can open its two children."""

    @property
    def root(self) -> bytes: ...

    def children(self) -> tuple[Tree, Tree]:
        """The left and the right child. Raises InvalidProof below a leaf."""


class Leaf(NamedTuple):
    """A chunk: there is nothing to prove below it."""

    root: bytes

    def children(self) -> tuple[Tree, Tree]:
        raise InvalidProof("The generalized index descends below a leaf of the tree.")


class Pair(NamedTuple):
    """A node over two subtrees."""

    left: Tree
    right: Tree

    @property
    def root(self) -> bytes:
        return sha256(self.left.root + self.right.root)

    def children(self) -> tuple[Tree, Tree]:
        return self.left, self.right


class Chunks(NamedTuple):
    """A subtree of `depth` over 32-byte chunks, zero-filled; `open_chunk(i)` is the tree below chunk i."""

    chunks: bytes
    depth: int
    open_chunk: Callable[[int], Tree] | None = None
    first: int = 0

    @property
    def root(self) -> bytes:
        return merkle_root(self.chunks, self.depth)

    def children(self) -> tuple[Tree, Tree]:
        if self.depth == 0:
            if self.open_chunk is None or not self.chunks:
                return Leaf(self.root).children()
            return self.open_chunk(self.first).children()
        half = 1 << (self.depth - 1)
        left = Chunks(self.chunks[: 32 * half], self.depth - 1, self.open_chunk, self.first)
        right = Chunks(self.chunks[32 * half :], self.depth - 1, self.open_chunk, self.first + half)
        return left, right


def progressive_root(chunks: Buffer, depth: int = 0) -> bytes:
    """Root of the progressive tree over 32-byte chunks (EIP-7916): subtrees of 1, 4, 16, … chunks."""
    view, size = memoryview(chunks), 32 << depth  # a view's slices are no copies
    if not view:
        return ZERO_HASHES[0]
    return sha256(merkle_root(view[:size], depth) + progressive_root(view[size:], depth + 2))


def progressive_tree(
    chunks: bytes, open_chunk: Callable[[int], Tree] | None = None, depth: int = 0, first: int = 0
) -> Tree:
    """The tree whose root is `progressive_root(chunks)`."""
    if not chunks:
        return Leaf(ZERO_HASHES[0])
    size = 1 << depth
    here = Chunks(chunks[: 32 * size], depth, open_chunk, first)
    return Pair(here, progressive_tree(chunks[32 * size :], open_chunk, depth + 2, first + size))


def chunk_depth(count: int) -> int:
    """Depth of the smallest full binary tree with `count` leaves (at least one)."""
    return max(count - 1, 0).bit_length()


def pack(data: bytes) -> bytes:
    """`data` filled up with zero bytes to whole 32-byte chunks."""
    return data + bytes(-len(data) % 32)
