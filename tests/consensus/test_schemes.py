"""Signatures of entries: the attacks of rule 14 on keys and points, and the laws of signing."""

from __future__ import annotations

import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.containers.entries import Key
from anchor.consensus.schemes import SMALL_ORDER_Y, SigningKey, require_key, require_point, verify_signature
from anchor.errors import InvalidSignature, Misuse, Unavailable
from anchor.params import SCHEME_ED25519, SCHEME_ML_DSA_65
from tests.oracles import naive_edwards as curve

SMALL = sorted(curve.find_small_order_points())
ALICE = SigningKey(SCHEME_ED25519, b"\x01" * 32)
LASTING = SigningKey(SCHEME_ML_DSA_65, b"\x02" * 32)


def _key(encoded: bytes) -> Key:
    return Key(scheme=SCHEME_ED25519, public_key=encoded)


def _openssl_accepts(key: bytes, message: bytes, signature: bytes) -> None:
    Ed25519PublicKey.from_public_bytes(key).verify(signature, message)  # raises where it does not


def test_all_small_orders_are_known() -> None:
    assert {y for _, y in SMALL} == SMALL_ORDER_Y


def test_a_key_of_small_order_would_sign_everything() -> None:
    key, signature = curve.encode(curve.IDENTITY), curve.encode(curve.IDENTITY) + bytes(32)
    for message in (b"one", b"another"):
        _openssl_accepts(key, message, signature)
        with pytest.raises(InvalidSignature, match="small order"):
            verify_signature(_key(key), message, signature)


@pytest.mark.parametrize("point", SMALL)
@pytest.mark.parametrize("sign", [0, 0x80])
def test_no_point_of_small_order_is_a_key(point: curve.Point, sign: int) -> None:
    encoded = bytearray(curve.encode(point))
    encoded[31] ^= sign
    with pytest.raises(InvalidSignature, match="small order"):
        require_key(_key(bytes(encoded)))


def test_a_signature_may_not_have_an_r_of_small_order() -> None:
    seed, message = bytes(range(32)), b"message"
    public = SigningKey(SCHEME_ED25519, seed).public
    r = curve.encode(curve.IDENTITY)
    s = curve.hash_to_scalar(r, public.public_key, message) * curve.get_secret_scalar(seed) % curve.L
    signature = r + s.to_bytes(32, "little")
    _openssl_accepts(public.public_key, message, signature)
    with pytest.raises(InvalidSignature, match=r"R 0x01.* small order"):
        verify_signature(public, message, signature)


def test_an_s_that_is_not_reduced_is_a_second_signature() -> None:
    signature = ALICE.sign(b"message")
    s = int.from_bytes(signature[32:], "little") + curve.L
    with pytest.raises(InvalidSignature, match="S is not below"):
        verify_signature(ALICE.public, b"message", signature[:32] + s.to_bytes(32, "little"))


@pytest.mark.parametrize("y", [y for y in range(2, 19) if curve.find_x(y) is not None])
def test_a_point_has_one_encoding(y: int) -> None:
    """y + p means the same y, and fits 255 bits for y < 19."""
    require_point(y.to_bytes(32, "little"), "key")
    for sign in (0, 1 << 255):
        with pytest.raises(InvalidSignature, match="canonical"):
            require_point((y + curve.P | sign).to_bytes(32, "little"), "key")


def test_a_key_lies_on_the_curve() -> None:
    for y in range(2, 100):
        encoded = y.to_bytes(32, "little")
        if curve.find_x(y) is not None:
            require_point(encoded, "key")
        else:
            with pytest.raises(InvalidSignature, match="not on the curve"):
                require_point(encoded, "key")


@settings(max_examples=25, deadline=None)
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=64), data=st.data())
def test_what_a_key_signs_verifies_and_nothing_else(seed: bytes, message: bytes, data: st.DataObject) -> None:
    key = SigningKey(SCHEME_ED25519, seed)
    signature = key.sign(message)
    verify_signature(key.public, message, signature)
    place = data.draw(st.integers(0, 8 * 64 - 1))
    broken = bytearray(signature)
    broken[place // 8] ^= 1 << place % 8
    with pytest.raises(InvalidSignature):
        verify_signature(key.public, message, bytes(broken))
    with pytest.raises(InvalidSignature):
        verify_signature(key.public, message + b"!", signature)


def test_ml_dsa_signatures_verify_and_no_others() -> None:
    signature = LASTING.sign(b"message")
    verify_signature(LASTING.public, b"message", signature)
    broken = bytes([signature[0] ^ 1]) + signature[1:]
    for wrong, message in ((broken, b"message"), (signature, b"messages"), (signature[:-1], b"message")):
        with pytest.raises(InvalidSignature):
            verify_signature(LASTING.public, message, wrong)


def test_keys_have_a_known_scheme_and_its_size() -> None:
    for key in (
        Key(scheme=0, public_key=ALICE.public.public_key),
        Key(scheme=SCHEME_ML_DSA_65, public_key=ALICE.public.public_key),
        Key(scheme=SCHEME_ED25519, public_key=ALICE.public.public_key + b"\0"),
    ):
        with pytest.raises(InvalidSignature):
            require_key(key)
        with pytest.raises(InvalidSignature):
            verify_signature(key, b"", ALICE.sign(b""))


def test_a_signing_key_shows_no_secret() -> None:
    assert "01" * 4 not in repr(ALICE)
    assert r"\x01" not in repr(ALICE)
    with pytest.raises(Misuse):
        SigningKey(SCHEME_ED25519, b"short")
    with pytest.raises(Misuse):
        SigningKey(7, bytes(32))


def test_an_old_library_is_told_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    public, signature = LASTING.public, LASTING.sign(b"message")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.mldsa", None)
    with pytest.raises(Unavailable, match="needs a newer cryptography"):
        verify_signature(public, b"message", signature)
    with pytest.raises(Unavailable, match="needs a newer cryptography"):
        LASTING.sign(b"message")
