"""The signature scheme's rules (rule 23), on both backends; pyblst against py_ecc."""

from __future__ import annotations

import sys

import pytest

from anchor.consensus.bls import Bls, NoSignatures, get_backend_name
from anchor.consensus.bls_backends import ORDER, Backend, PyBlst, PyEcc, load_backend
from anchor.errors import InvalidSignature, Misuse
from anchor.params import G2_POINT_AT_INFINITY

FAST, REFERENCE = Bls(PyBlst()), Bls(PyEcc())
INFINITE_KEY = b"\xc0" + bytes(47)
SECRETS = [1, 0x0123456789ABCDEF << 128, ORDER - 1]
KEYS = [FAST.sk_to_pk(secret) for secret in SECRETS]
A, B = b"a" * 32, b"b" * 32
P = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
"""The field's modulus."""

MALFORMED_KEYS = {
    "empty": b"",
    "short": KEYS[0][:-1],
    "long": KEYS[0] + b"\0",
    "zero": bytes(48),
    "infinity": INFINITE_KEY,
    "infinity with a sign": b"\xe0" + bytes(47),
    "infinity with a tail": b"\xc0" + bytes(46) + b"\1",
    "uncompressed flag": bytes([KEYS[1][0] & 0x7F]) + KEYS[1][1:],
    "not on the curve": b"\x80" + bytes(46) + b"\1",
    "outside the group": b"\x80" + bytes(46) + b"\4",
    "not reduced": (P | 1 << 383).to_bytes(48, "big"),
}
MALFORMED_SIGNATURES = {
    "empty": b"",
    "short": FAST.sign(1, A)[:-1],
    "zero": bytes(96),
    "infinity": G2_POINT_AT_INFINITY,
    "infinity with a tail": b"\xc0" + bytes(94) + b"\1",
    "not reduced": FAST.sign(1, A)[:48] + P.to_bytes(48, "big"),
}
both = pytest.mark.parametrize("bls", [FAST, REFERENCE], ids=["pyblst", "py_ecc"])


@pytest.mark.parametrize("secret", SECRETS)
def test_backends_agree(secret: int) -> None:
    assert FAST.sk_to_pk(secret) == REFERENCE.sk_to_pk(secret)
    signature = FAST.sign(secret, A)
    assert signature == REFERENCE.sign(secret, A)
    assert FAST.verify(FAST.sk_to_pk(secret), A, signature)
    assert not FAST.verify(FAST.sk_to_pk(secret), B, signature)


@both
def test_one_signature_over_one_message(bls: Bls) -> None:
    signatures = [FAST.sign(secret, A) for secret in SECRETS[:2]]
    total = bls.aggregate(signatures)
    assert bls.fast_aggregate_verify(KEYS[:2], A, total)
    assert not bls.fast_aggregate_verify(KEYS[:1], A, total)
    assert bls.verify(bls.eth_aggregate_pubkeys(KEYS[:2]), A, total)


@both
def test_one_signature_over_several_messages(bls: Bls) -> None:
    total = FAST.aggregate([FAST.sign(SECRETS[0], A), FAST.sign(SECRETS[1], B)])
    assert bls.aggregate_verify(KEYS[:2], [A, B], total)
    assert not bls.aggregate_verify(KEYS[:2], [B, A], total)
    assert not bls.aggregate_verify(KEYS[:2], [A], total)


@both
@pytest.mark.parametrize("name", MALFORMED_KEYS)
def test_malformed_keys_are_none(bls: Bls, name: str) -> None:
    key = MALFORMED_KEYS[name]
    assert not bls.key_validate(key)
    assert not bls.verify(key, A, FAST.sign(1, A))
    assert not bls.fast_aggregate_verify([KEYS[0], key], A, FAST.sign(1, A))
    assert not bls.eth_fast_aggregate_verify([key], A, G2_POINT_AT_INFINITY)
    with pytest.raises(InvalidSignature):
        bls.eth_aggregate_pubkeys([KEYS[0], key])


@both
@pytest.mark.parametrize("name", MALFORMED_SIGNATURES)
def test_malformed_signatures_verify_nothing(bls: Bls, name: str) -> None:
    signature = MALFORMED_SIGNATURES[name]
    assert not bls.verify(KEYS[0], A, signature)
    assert not bls.eth_fast_aggregate_verify([KEYS[0]], A, signature)


@both
def test_nothing_verifies_for_nobody(bls: Bls) -> None:
    for signature in (G2_POINT_AT_INFINITY, FAST.sign(1, A), bytes(96)):
        assert not bls.fast_aggregate_verify([], A, signature)
        assert not bls.aggregate_verify([], [], signature)
    with pytest.raises(InvalidSignature):
        bls.aggregate([])
    with pytest.raises(InvalidSignature):
        bls.eth_aggregate_pubkeys([])


@both
def test_altair_alone_accepts_nobody_at_infinity(bls: Bls) -> None:
    assert bls.eth_fast_aggregate_verify([], A, G2_POINT_AT_INFINITY)
    assert not bls.eth_fast_aggregate_verify([], A, bytes(96))
    assert not bls.eth_fast_aggregate_verify([], A, FAST.sign(1, A))


@both
def test_keys_that_cancel_out_verify_nothing(bls: Bls) -> None:
    """1 and ORDER - 1 add up to zero: without the check infinity signs any message for the two."""
    pair = [KEYS[0], KEYS[2]]
    assert bls.eth_aggregate_pubkeys(pair) == INFINITE_KEY
    assert not bls.fast_aggregate_verify(pair, A, G2_POINT_AT_INFINITY)
    assert not bls.eth_fast_aggregate_verify(pair, A, G2_POINT_AT_INFINITY)
    assert not bls.aggregate_verify(pair, [A, A], G2_POINT_AT_INFINITY)


@pytest.mark.parametrize("secret", [0, ORDER, -1])
def test_secret_keys_lie_in_range(secret: int) -> None:
    with pytest.raises(Misuse):
        FAST.sign(secret, A)
    with pytest.raises(Misuse):
        FAST.sk_to_pk(secret)


def test_a_key_is_parsed_once_and_a_bad_one_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Backend = PyBlst()
    parsed = []
    decode = backend.decode_key
    monkeypatch.setattr(backend, "decode_key", lambda data: parsed.append(data) or decode(data))
    bls = Bls(backend)
    for _ in range(3):
        assert bls.key_validate(KEYS[1])
        assert not bls.key_validate(bytes(48))
    assert parsed.count(KEYS[1]) == 1
    assert parsed.count(bytes(48)) == 3


def test_no_signatures_accepts_all() -> None:
    none = NoSignatures()
    assert none.verify(KEYS[0], A, bytes(96))
    assert none.fast_aggregate_verify(KEYS, A, bytes(96))
    assert none.aggregate_verify(KEYS, [A], bytes(96))
    assert none.eth_fast_aggregate_verify(KEYS, A, bytes(96))
    assert none.eth_aggregate_pubkeys(KEYS[:2]) == FAST.eth_aggregate_pubkeys(KEYS[:2])


def test_the_reference_serves_where_pyblst_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_backend_name() == "pyblst"
    monkeypatch.setitem(sys.modules, "pyblst", None)
    load_backend.cache_clear()
    try:
        assert get_backend_name() == "py_ecc"
    finally:
        load_backend.cache_clear()
