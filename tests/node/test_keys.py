"""Keys at rest, and what derives from them."""

from __future__ import annotations

import json
import os

import pytest

from anchor.consensus.bls_backends import ORDER
from anchor.consensus.schemes import SigningKey
from anchor.consensus.text import parse_identity
from anchor.errors import MalformedFile, Misuse
from anchor.node import keys
from anchor.node.keys import (
    KeyFile,
    decode_key_file,
    decrypt_secret,
    derive_administrator_key,
    derive_root_key,
    derive_signing_keys,
    derive_validator_key,
    encode_key_file,
    encrypt_secret,
)

SECRET = bytes(range(32))


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SCRYPT_N", 1 << 4)


PHRASE = "correct horse"


def _file(passphrase: str = PHRASE) -> KeyFile:
    return encrypt_secret(
        SECRET, passphrase, os.urandom, kind="signing", identity="ed25519:00", schemes=(1, 2)
    )


def test_what_was_encrypted_opens_with_its_passphrase() -> None:
    data = encode_key_file(_file())
    file = decode_key_file(data, "k")
    assert decrypt_secret(file, PHRASE, "k") == SECRET
    assert SECRET not in data
    assert (file.kind, file.identity, file.schemes) == ("signing", "ed25519:00", (1, 2))


def test_the_cost_in_force_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert _file().n == keys.SCRYPT_N >= 1 << 16


def test_a_wrong_passphrase_is_one_sentence() -> None:
    with pytest.raises(Misuse, match=r"The passphrase does not open k\."):
        decrypt_secret(_file(), "incorrect horse", "k")


def test_a_passphrase_is_what_was_typed_not_how() -> None:
    assert decrypt_secret(_file("caf\u00e9 caf\u00e9"), "cafe\u0301 cafe\u0301", "k") == SECRET


def test_a_short_passphrase_is_refused() -> None:
    with pytest.raises(Misuse, match="at least 8 characters"):
        _file("1234567")


def test_two_files_of_one_secret_share_nothing() -> None:
    one, two = _file(), _file()
    assert len({one.salt, two.salt}) == len({one.nonce, two.nonce}) == 2
    assert one.ciphertext != two.ciphertext


@pytest.mark.parametrize("field", ["kind", "identity", "schemes"])
def test_what_is_said_in_the_clear_cannot_be_changed(field: str) -> None:
    document = json.loads(encode_key_file(_file()))
    document[field] = [1] if field == "schemes" else "root"
    changed = decode_key_file(json.dumps(document, indent=2).encode() + b"\n", "k")
    with pytest.raises(Misuse, match="does not open"):
        decrypt_secret(changed, PHRASE, "k")


@pytest.mark.parametrize(
    ("field", "value"),
    [("n", 1 << 30), ("n", 3), ("n", 1), ("n", -16), ("n", "16"), ("salt", "AA=="), ("salt", "!"), ("r", 9)],
)
def test_absurd_costs_and_lengths_are_refused(field: str, value: object) -> None:
    document = json.loads(encode_key_file(_file()))
    document["kdf"][field] = value
    with pytest.raises(MalformedFile, match="no key file"):
        decode_key_file(json.dumps(document, indent=2).encode() + b"\n", "k")


def test_cut_or_foreign_files_are_refused() -> None:
    data = encode_key_file(_file())
    for end in range(len(data)):
        with pytest.raises(MalformedFile, match="no key file"):
            decode_key_file(data[:end], "k")
    for other in (b"[]", b"null", b'{"kdf": 1}', b"[" * 4000, b"\xff"):
        with pytest.raises(MalformedFile, match="no key file"):
            decode_key_file(other, "k")


@pytest.mark.parametrize(
    "data", [b"-----BEGIN PRIVATE KEY-----\nMIIG/gIB", b"-----BEGIN RSA PRIVATE KEY-----\n", b"ssh-rsa AAAA"]
)
def test_case_45_an_rsa_key_is_told_from_a_damaged_one(data: bytes) -> None:
    with pytest.raises(MalformedFile, match="no key file of anchor's: it is a key of another") as caught:
        decode_key_file(data, "rsa.pem")
    assert "anchor keygen" in caught.value.fix


@pytest.mark.parametrize("text", ["-----BEGIN PUBLIC KEY-----\nMIIB", "ssh-rsa AAAAB3Nz", "rsa:30820122", ""])
def test_case_45_an_rsa_key_names_no_publisher(text: str) -> None:
    with pytest.raises(Misuse, match="names no publisher") as caught:
        parse_identity(text + "A" * 500)
    assert len(caught.value.what) < 120
    assert "ed25519:" in caught.value.fix


def _expand(key: bytes, info: bytes, size: int) -> bytes:
    """HKDF-Expand by another implementation."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    return HKDFExpand(SHA256(), size, info).derive(key)


def test_validators_keys_follow_the_drafts_keygen() -> None:
    """py_ecc's KeyGen with the same key_info, as oracle."""
    from py_ecc.bls.ciphersuites import G2ProofOfPossession

    for index in (0, 1, 63):
        info = b"anchor validator" + index.to_bytes(8, "big")
        assert derive_validator_key(SECRET, index) == G2ProofOfPossession.KeyGen(SECRET, info)


def test_derived_keys_differ_by_seed_index_purpose_and_scheme() -> None:
    numbers = [derive_validator_key(seed, i) for seed in (SECRET, bytes(32)) for i in range(64)]
    assert len(set(numbers)) == 128
    assert all(0 < number < ORDER for number in numbers)
    administrator, root = derive_administrator_key(SECRET), derive_root_key(SECRET)
    classical, lasting = derive_signing_keys(SECRET, (1, 2))
    assert len({key.public for key in (administrator, root, classical, lasting)}) == 4
    assert (classical.scheme, lasting.scheme) == (1, 2)
    for key, purpose in ((administrator, b"administrator"), (root, b"root"), (lasting, b"signing")):
        seed = _expand(_extract(b"anchor " + purpose), bytes([key.scheme]), 32)
        assert key.public == SigningKey(key.scheme, seed).public


def _extract(salt: bytes) -> bytes:
    import hashlib
    import hmac

    return hmac.new(salt, SECRET, hashlib.sha256).digest()


@pytest.mark.parametrize("cost", ["Infinity", "1e999", "NaN", "9" * 3000])
def test_a_cost_that_is_no_number_is_no_key_file(cost: str) -> None:
    data = encode_key_file(_file()).replace(b'"n": 16', f'"n": {cost}'.encode())
    with pytest.raises(MalformedFile, match="no key file"):
        decode_key_file(data, "k")


def test_a_passphrase_that_is_not_utf_8_is_one_sentence() -> None:
    with pytest.raises(Misuse, match="not UTF-8"):
        _file("correct \udcff horse")
