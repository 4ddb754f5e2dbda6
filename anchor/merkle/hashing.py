"""SHA-256 in the shapes that Merkle trees need: one message, a level, a whole subtree, many leaves.

The native kernel serves them where it was built, and `hashlib` where it was not, with the same
results. `_hashlib.py` documents the functions.
"""

from __future__ import annotations

from typing import Final

try:
    from anchor.merkle import _native
except ImportError:
    from anchor.merkle._hashlib import hash_pairs, hash_pairs_into, merkle_root

    _backend, _has_sha_instructions = "hashlib", False
else:
    from anchor.merkle._native import hash_pairs, hash_pairs_into, merkle_root

    _backend, _has_sha_instructions = f"native ({_native.IMPLEMENTATIONS[0]})", _native.HAS_SHA_INSTRUCTIONS

# Long messages: without SHA instructions OpenSSL is faster than the kernel.
if _has_sha_instructions:
    from anchor.merkle._native import hash_leaves, hash_mapped, hash_slices, sha256
else:
    from anchor.merkle._hashlib import hash_leaves, hash_mapped, hash_slices, sha256

ZERO_HASHES: Final = tuple([merkle_root(b"", depth) for depth in range(65)])
"""`ZERO_HASHES[d]` is the root of a subtree of depth d whose leaves are all zero."""
BACKEND: Final = _backend
"""The path in use, for people: "native (SHA-NI)", "native (portable)", …, "hashlib"."""

__all__ = [
    "BACKEND",
    "ZERO_HASHES",
    "hash_leaves",
    "hash_mapped",
    "hash_pairs",
    "hash_pairs_into",
    "hash_slices",
    "merkle_root",
    "sha256",
]
