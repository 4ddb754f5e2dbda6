"""BLS signatures of the proof-of-possession scheme (IETF draft-irtf-cfrg-bls-signature, altair/bls).

Rule 23 holds here, whatever the backend: a key is a member of its group and not infinity; nothing verifies
for an empty list, nor for keys or signatures that add up to infinity. `eth_fast_aggregate_verify` alone
accepts no keys with the signature at infinity, as altair specifies.

What sums keys (`fast_aggregate_verify`) is sound only for keys whose possession was proven: the registry
admits no others. The cache holds points of keys that parsed, and proves nothing about possession.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Protocol

from anchor.consensus.bls_backends import G1, ORDER, Backend, Point, load_backend
from anchor.errors import InvalidSignature, Misuse
from anchor.params import G2_POINT_AT_INFINITY

CACHED_KEYS = 2**17
"""Parsed keys kept: parsing one takes 0.1 ms, more than adding fifty. About 300 bytes each."""


def get_backend_name() -> str:
    """Which library does the arithmetic: "pyblst" or "py_ecc"."""
    return load_backend().name


class Signatures(Protocol):
    """What the consensus rules ask about signatures. Bytes that are no key or signature verify as False."""

    def key_validate(self, pubkey: bytes) -> bool: ...
    def verify(self, pubkey: bytes, message: bytes, signature: bytes) -> bool: ...
    def aggregate_verify(
        self, pubkeys: Sequence[bytes], messages: Sequence[bytes], signature: bytes
    ) -> bool: ...
    def fast_aggregate_verify(self, pubkeys: Sequence[bytes], message: bytes, signature: bytes) -> bool: ...
    def eth_fast_aggregate_verify(
        self, pubkeys: Sequence[bytes], message: bytes, signature: bytes
    ) -> bool: ...
    def eth_aggregate_pubkeys(self, pubkeys: Sequence[bytes]) -> bytes: ...


class Bls:
    """The signature scheme, on the fastest backend installed unless one is given."""

    def __init__(self, backend: Backend | None = None) -> None:
        if backend is not None:
            self._backend = backend
        self._key = lru_cache(CACHED_KEYS)(self._parse_key)

    @cached_property
    def _backend(self) -> Backend:
        return load_backend()

    def sk_to_pk(self, secret_key: int) -> bytes:
        """The 48-byte public key of a secret one. Raises Misuse unless 0 < secret_key < ORDER."""
        _require_secret_key(secret_key)
        generator = self._backend.decode_key(G1)
        return self._backend.encode_key(self._backend.multiply(generator, secret_key))

    def sign(self, secret_key: int, message: bytes) -> bytes:
        """The 96-byte signature of `message`. Raises Misuse unless 0 < secret_key < ORDER."""
        _require_secret_key(secret_key)
        point = self._backend.hash_to_g2(message)
        return self._backend.encode_signature(self._backend.multiply(point, secret_key))

    def aggregate(self, signatures: Sequence[bytes]) -> bytes:
        """The sum of at least one signature. Raises InvalidSignature for none, or one that is malformed."""
        if not signatures:
            raise InvalidSignature("There are no signatures to aggregate.")
        return self._backend.encode_signature(self._backend.add([self._signature(s) for s in signatures]))

    def eth_aggregate_pubkeys(self, pubkeys: Sequence[bytes]) -> bytes:
        """The sum of at least one key (altair/bls). Raises InvalidSignature for none, or an invalid one.

        As specified, keys that cancel out give infinity: a committee's key must exist for any committee.
        """
        if not pubkeys:
            raise InvalidSignature("There are no public keys to aggregate.")
        return self._backend.encode_key(self._backend.add([self._key(pubkey) for pubkey in pubkeys]))

    def key_validate(self, pubkey: bytes) -> bool:
        """Whether `pubkey` encodes a key: canonical, in the group, not infinity."""
        try:
            self._key(pubkey)
        except InvalidSignature:
            return False
        return True

    def verify(self, pubkey: bytes, message: bytes, signature: bytes) -> bool:
        """Whether the owner of `pubkey` signed `message`."""
        return self.aggregate_verify([pubkey], [message], signature)

    def fast_aggregate_verify(self, pubkeys: Sequence[bytes], message: bytes, signature: bytes) -> bool:
        """Whether the owners of all `pubkeys` signed the one `message`."""
        if not pubkeys:
            return False
        try:
            key = self._backend.add([self._key(pubkey) for pubkey in pubkeys])
            return self._check([key], [message], self._signature(signature))
        except InvalidSignature:
            return False

    def aggregate_verify(self, pubkeys: Sequence[bytes], messages: Sequence[bytes], signature: bytes) -> bool:
        """Whether the owner of each key signed the message beside it."""
        if not pubkeys or len(pubkeys) != len(messages):
            return False
        try:
            keys = [self._key(pubkey) for pubkey in pubkeys]
            return self._check(keys, messages, self._signature(signature))
        except InvalidSignature:
            return False

    def eth_fast_aggregate_verify(self, pubkeys: Sequence[bytes], message: bytes, signature: bytes) -> bool:
        """`fast_aggregate_verify`, and True for nobody with the signature at infinity (altair/bls)."""
        if not pubkeys and signature == G2_POINT_AT_INFINITY:
            return True
        return self.fast_aggregate_verify(pubkeys, message, signature)

    def _check(self, keys: Sequence[Point], messages: Sequence[bytes], signature: Point) -> bool:
        if any(self._backend.is_infinity(point) for point in (*keys, signature)):
            return False
        points = [self._backend.hash_to_g2(message) for message in messages]
        return self._backend.check_pairings(keys, points, signature)

    def _parse_key(self, pubkey: bytes) -> Point:
        try:
            point = self._backend.decode_key(pubkey)
        except ValueError:
            raise InvalidSignature(f"0x{pubkey.hex()} is no public key.") from None
        if self._backend.is_infinity(point):
            raise InvalidSignature("The point at infinity is no public key.")
        return point

    def _signature(self, signature: bytes) -> Point:
        try:
            return self._backend.decode_signature(signature)
        except ValueError:
            raise InvalidSignature(f"0x{signature.hex()} is no signature.") from None


class NoSignatures(Bls):
    """Takes every signature for valid: for test vectors and simulations that don't sign."""

    def verify(self, pubkey: bytes, message: bytes, signature: bytes) -> bool:
        """True."""
        return True

    def fast_aggregate_verify(self, pubkeys: Sequence[bytes], message: bytes, signature: bytes) -> bool:
        """True."""
        return True

    def aggregate_verify(self, pubkeys: Sequence[bytes], messages: Sequence[bytes], signature: bytes) -> bool:
        """True."""
        return True

    def eth_fast_aggregate_verify(self, pubkeys: Sequence[bytes], message: bytes, signature: bytes) -> bool:
        """True."""
        return True


def _require_secret_key(secret_key: int) -> None:
    if not 0 < secret_key < ORDER:
        raise Misuse("A secret key lies between zero and the order of the group.")
