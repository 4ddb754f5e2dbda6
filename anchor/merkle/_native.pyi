"""The kernel in C (`_kernel/`): the functions of `_hashlib`, with the same results and refusals.

It is not there where the package was installed without a compiler.
"""

from typing import Any

from anchor.types import Buffer

IMPLEMENTATIONS: tuple[str, ...]
"""What this machine can run, best first: of "SHA-NI", "ARMv8", "AVX2", "portable"."""

HAS_SHA_INSTRUCTIONS: bool
"""Whether the best one uses them: only then does it beat OpenSSL on long messages."""

def sha256(data: Buffer, /) -> bytes: ...
def hash_pairs(nodes: Buffer, /) -> bytes: ...
def hash_pairs_into(out: Any, nodes: Any, /) -> None:
    """Also refuses an output that starts inside the input, past its beginning."""

def merkle_root(chunks: Buffer, depth: int, /) -> bytes: ...
def hash_leaves(data: Buffer, leaf_size: int = 1 << 20, /) -> bytes: ...
def hash_slices(data: Buffer, lengths: list[int], /) -> bytes: ...
def hash_mapped(fd: int, offset: int, size: int, lengths: list[int], /) -> bytes | None:
    """Installs a handler of SIGBUS when it is first called; where another one took its place, gives None."""

def shuffle_into(out: Any, seed: bytes, rounds: int, /) -> None:
    """Fill native uint64 `out` with `compute_shuffled_index(i, len(out), seed, rounds)` for each i."""

def select(implementation: str, /) -> None:
    """Use this one of IMPLEMENTATIONS. For tests, while no other thread hashes."""
