"""Signature schemes of entries: Ed25519 (RFC 8032) and ML-DSA-65 (FIPS 204), strictly (specs/03-ledger §4).

Ed25519 here refuses what libraries let pass: points of small order, points in another than their one
encoding, and numbers that are not reduced. With those, a signature could hold for every message, or one
signature have many forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from anchor.consensus.containers.entries import Key
from anchor.errors import InvalidSignature, Misuse, Unavailable
from anchor.params import SCHEME_ED25519, SCHEME_ML_DSA_65

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

SCHEME_NAMES: Final = {SCHEME_ED25519: "Ed25519", SCHEME_ML_DSA_65: "ML-DSA-65"}
PUBLIC_KEY_BYTES: Final = {SCHEME_ED25519: 32, SCHEME_ML_DSA_65: 1952}
SIGNATURE_BYTES: Final = {SCHEME_ED25519: 64, SCHEME_ML_DSA_65: 3309}

FIELD_PRIME: Final = 2**255 - 19
GROUP_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
CURVE_D: Final = -121665 * pow(121666, -1, FIELD_PRIME) % FIELD_PRIME
_ORDER_8_Y: Final = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
SMALL_ORDER_Y: Final = frozenset({0, 1, FIELD_PRIME - 1, _ORDER_8_Y, FIELD_PRIME - _ORDER_8_Y})
"""The y of the eight points whose order divides 8."""


class SigningKey:
    """A private key, as the 32-byte seed that both schemes derive it from."""

    def __init__(self, scheme: int, seed: bytes) -> None:
        if scheme not in SCHEME_NAMES or len(seed) != 32:
            raise Misuse(f"A signing key has scheme 1 or 2 and a seed of 32 bytes, not {len(seed)}.")
        self.scheme, self.seed = scheme, seed

    @property
    def public(self) -> Key:
        """The public half."""
        return Key(scheme=self.scheme, public_key=self._load().public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """The signature over `message`."""
        return self._load().sign(message)

    def _load(self) -> Ed25519PrivateKey | MLDSA65PrivateKey:
        if self.scheme == SCHEME_ED25519:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

            return Ed25519PrivateKey.from_private_bytes(self.seed)
        with _ml_dsa():
            from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

            return MLDSA65PrivateKey.from_seed_bytes(self.seed)


def require_key(key: Key) -> None:
    """Raises InvalidSignature unless `key` is one that can sign, safely, under a scheme that we know."""
    size = PUBLIC_KEY_BYTES.get(key.scheme)
    if size is None:
        raise InvalidSignature(f"A key has scheme {key.scheme}, and the ledger knows {_list_schemes()}.")
    if len(key.public_key) != size:
        name = SCHEME_NAMES[key.scheme]
        raise InvalidSignature(f"A {name} public key has {size} bytes, not {len(key.public_key)}.")
    if key.scheme == SCHEME_ED25519:
        require_point(key.public_key, "public key")


def verify_signature(key: Key, message: bytes, signature: bytes) -> None:
    """Raises InvalidSignature unless `signature` is by `key` over `message`.

    Ed25519 is judged without the cofactor: 8·S·B = 8·(R + k·A) alone is not enough.
    """
    require_key(key)
    name, size = SCHEME_NAMES[key.scheme], SIGNATURE_BYTES[key.scheme]
    if len(signature) != size:
        raise InvalidSignature(f"An {name} signature has {size} bytes, not {len(signature)}.")
    if key.scheme == SCHEME_ED25519:
        valid = _is_valid_ed25519(key.public_key, message, signature)
    else:
        valid = _is_valid_ml_dsa(key.public_key, message, signature)
    if not valid:
        raise InvalidSignature(f"The {name} signature is not by key 0x{key.public_key[:32].hex()}.")


def require_point(encoded: bytes, what: str) -> None:
    """Raises InvalidSignature unless `encoded` is the one encoding of a point whose order is not small."""
    y = int.from_bytes(encoded, "little") & ((1 << 255) - 1)
    if y >= FIELD_PRIME:
        raise InvalidSignature(f"The Ed25519 {what} 0x{encoded.hex()} is not in canonical form.")
    if y in SMALL_ORDER_Y:
        raise InvalidSignature(f"The Ed25519 {what} 0x{encoded.hex()} is a point of small order.")
    # x² = (y² - 1) / (d·y² + 1) has a solution just when the product of both sides is a square.
    square = (y * y - 1) * (CURVE_D * y * y + 1) % FIELD_PRIME
    if pow(square, (FIELD_PRIME - 1) // 2, FIELD_PRIME) != 1:
        raise InvalidSignature(f"The Ed25519 {what} 0x{encoded.hex()} is not on the curve.")


def _is_valid_ed25519(public_key: bytes, message: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature as Refused
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    require_point(signature[:32], "signature's R")
    if int.from_bytes(signature[32:], "little") >= GROUP_ORDER:
        raise InvalidSignature("The Ed25519 signature's S is not below the group's order.")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except Refused:
        return False
    return True


def _is_valid_ml_dsa(public_key: bytes, message: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature as Refused

    with _ml_dsa():
        from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

        key = MLDSA65PublicKey.from_public_bytes(public_key)
    try:
        key.verify(signature, message)
    except Refused:
        return False
    return True


@contextmanager
def _ml_dsa() -> Iterator[None]:
    """Raises Unavailable where `cryptography` stands on an OpenSSL from before ML-DSA."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        yield
    except (ImportError, UnsupportedAlgorithm):
        fix = "Install it with: pip install -U 'cryptography>=48'"
        raise Unavailable("ML-DSA-65 needs a newer cryptography package.", fix=fix) from None


def _list_schemes() -> str:
    return ", ".join(f"{scheme} ({name})" for scheme, name in SCHEME_NAMES.items())
