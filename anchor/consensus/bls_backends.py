"""Arithmetic on BLS12-381, by pyblst (native) or py_ecc (the reference, in Python).

A backend knows points, not rules: what is refused is written once, in `anchor.consensus.bls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol

DST = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_"
"""Domain of hashing to the curve: minimal public keys, proof of possession."""
ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
"""Of the groups: secret keys lie below it."""
G1 = bytes.fromhex(
    "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb"
)
"""The generator of the keys' group, compressed."""
Point = Any
"""A point in a backend's own form."""


class Backend(Protocol):
    """What the signature functions are made from."""

    name: str

    def decode_key(self, data: bytes) -> Point:
        """The point of G1 that 48 bytes encode. Raises ValueError unless it is canonical and in the group."""

    def decode_signature(self, data: bytes) -> Point:
        """The point of G2 that 96 bytes encode. Raises ValueError unless it is canonical and in the group."""

    def encode_key(self, point: Point) -> bytes: ...
    def encode_signature(self, point: Point) -> bytes: ...
    def add(self, points: Sequence[Point]) -> Point:
        """The sum of at least one point, all of one group."""

    def multiply(self, point: Point, scalar: int) -> Point: ...
    def hash_to_g2(self, message: bytes) -> Point: ...
    def is_infinity(self, point: Point) -> bool: ...
    def check_pairings(self, keys: Sequence[Point], messages: Sequence[Point], signature: Point) -> bool:
        """Whether the pairings of keys with messages have the product of the generator's with `signature`."""


class PyBlst:
    """blst, the library that consensus clients use, through pyblst. Raises ImportError without it."""

    name = "pyblst"

    def __init__(self) -> None:
        self._lib = import_module("pyblst")
        self._g1 = self.decode_key(G1)
        self._infinities = (self._lib.BlstP1Element(), self._lib.BlstP2Element())

    def decode_key(self, data: bytes) -> Point:
        return self._lib.BlstP1Element.uncompress(data)

    def decode_signature(self, data: bytes) -> Point:
        return self._lib.BlstP2Element.uncompress(data)

    def encode_key(self, point: Point) -> bytes:
        return bytes(point.compress())

    encode_signature = encode_key

    def add(self, points: Sequence[Point]) -> Point:
        total = points[0]
        for point in points[1:]:
            total = total + point
        return total

    def multiply(self, point: Point, scalar: int) -> Point:
        return point.scalar_mul(scalar)

    def hash_to_g2(self, message: bytes) -> Point:
        return self._lib.BlstP2Element.hash_to_group(message, DST)

    def is_infinity(self, point: Point) -> bool:
        return point in self._infinities

    def check_pairings(self, keys: Sequence[Point], messages: Sequence[Point], signature: Point) -> bool:
        loop = self._lib.miller_loop
        product = loop(keys[0], messages[0])
        for key, message in zip(keys[1:], messages[1:], strict=True):
            product = product * loop(key, message)
        return bool(self._lib.final_verify(product, loop(self._g1, signature)))


class PyEcc:
    """The reference implementation: always installed, some two hundred times slower."""

    name = "py_ecc"

    def __init__(self) -> None:
        self._curve = import_module("py_ecc.optimized_bls12_381")
        self._codec = import_module("py_ecc.bls.g2_primitives")
        self._hash = import_module("py_ecc.bls.hash_to_curve").hash_to_G2
        self._sha256 = import_module("hashlib").sha256

    def decode_key(self, data: bytes) -> Point:
        return self._require_member(self._codec.pubkey_to_G1(data), data, 48)

    def decode_signature(self, data: bytes) -> Point:
        return self._require_member(self._codec.signature_to_G2(data), data, 96)

    def _require_member(self, point: Point, data: bytes, size: int) -> Point:
        if len(data) != size or not self._codec.subgroup_check(point):
            raise ValueError("not a point of the group")
        return point

    def encode_key(self, point: Point) -> bytes:
        return bytes(self._codec.G1_to_pubkey(point))

    def encode_signature(self, point: Point) -> bytes:
        return bytes(self._codec.G2_to_signature(point))

    def add(self, points: Sequence[Point]) -> Point:
        total = points[0]
        for point in points[1:]:
            total = self._curve.add(total, point)
        return total

    def multiply(self, point: Point, scalar: int) -> Point:
        return self._curve.multiply(point, scalar)

    def hash_to_g2(self, message: bytes) -> Point:
        return self._hash(message, DST, self._sha256)

    def is_infinity(self, point: Point) -> bool:
        return bool(self._curve.is_inf(point))

    def check_pairings(self, keys: Sequence[Point], messages: Sequence[Point], signature: Point) -> bool:
        curve = self._curve
        product = curve.pairing(signature, curve.neg(curve.G1), final_exponentiate=False)
        for key, message in zip(keys, messages, strict=True):
            product *= curve.pairing(message, key, final_exponentiate=False)
        return bool(curve.final_exponentiate(product) == curve.FQ12.one())


@cache
def load_backend() -> Backend:
    """The fastest backend that is installed, imported once."""
    try:
        return PyBlst()
    except ImportError:
        return PyEcc()
