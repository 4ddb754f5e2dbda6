"""The weights root, written out from the specification with nothing but hashlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

CHUNK = 1 << 20


def _hash(left: bytes, right: bytes) -> bytes:
    return sha256(left + right).digest()


def _merkle(leaves: list[bytes], depth: int) -> bytes:
    zero = bytes(32)
    for _ in range(depth):
        leaves = [*leaves, zero] if len(leaves) % 2 else leaves
        leaves = [_hash(leaves[i], leaves[i + 1]) for i in range(0, len(leaves), 2)]
        zero = _hash(zero, zero)
    return leaves[0] if leaves else zero


def _list(leaves: list[bytes], depth: int, length: int) -> bytes:
    return _hash(_merkle(leaves, depth), length.to_bytes(32, "little"))


def _bytes(data: bytes, limit: int) -> bytes:
    padded = data + bytes(-len(data) % 32)
    leaves = [padded[i : i + 32] for i in range(0, len(padded), 32)]
    return _list(leaves, (limit // 32 - 1).bit_length(), len(data))


def _tensor(component: str, name: str, dtype: str, shape: Sequence[int], data: bytes) -> bytes:
    dimensions = b"".join(dimension.to_bytes(8, "little") for dimension in shape)
    padded = dimensions + bytes(-len(dimensions) % 32)
    chunks = [sha256(data[i : i + CHUNK]).digest() for i in range(0, len(data), CHUNK)]
    fields = [
        _bytes(component.encode(), 1024),
        _bytes(name.encode(), 1024),
        _bytes(dtype.encode(), 32),
        _list([padded[i : i + 32] for i in range(0, len(padded), 32)], 2, len(shape)),
        len(data).to_bytes(8, "little") + bytes(24),
        _list(chunks, 32, len(chunks)),
    ]
    return _merkle(fields, 3)


def naive_weights_root(tensors: Mapping[str, tuple[str, Sequence[int], bytes]], component: str = "") -> bytes:
    """The root of a model's weights, all of one component; name → (dtype, shape, bytes)."""
    leaves = [_tensor(component, name, *tensors[name]) for name in sorted(tensors, key=str.encode)]
    return _list(leaves, 20, len(leaves))
