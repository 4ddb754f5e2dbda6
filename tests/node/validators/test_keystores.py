"""Keystores: the proposal's vectors, what is refused, and folders of many."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.errors import MalformedFile, Misuse
from anchor.node.validators.folder import load_keyring
from anchor.node.validators.keystores import (
    Keystore,
    Pbkdf2,
    Scrypt,
    decode_keystore,
    decrypt_key,
    encode_keystore,
    encode_password,
    encrypt_key,
)

TYPED = "".join([chr(0x1D51E + ord(letter) - ord("a")) for letter in "testpassword"]) + "\U0001f511"
"""In letters of another script."""
SECRET = 0x19D6689C085AE165831E934FF763AE46A2A6C172B3F1B60A8CE26F
SALT = "d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"
IV = "264daa3f303d7259501c93d997d84fe6"
PUBKEY = "9612d7a727c9d0a22e185a1c768478dfe919cada9266988cb32359c11f2b7b27f4ae4040902382ae2910c15e2b420d07"
VECTORS = {
    "scrypt": (
        {"dklen": 32, "n": 262144, "p": 1, "r": 8, "salt": SALT},
        "d2217fe5f3e9a1e34581ef8a78f7c9928e436d36dacc5e846690a5581e8ea484",
        "06ae90d55fe0a6e9c5c3bc5b170827b2e5cce3929ed3f116c2811e6366dfe20f",
        "m/12381/60/3141592653/589793238",
        "1d85ae20-35c5-4611-98e8-aa14a633906f",
    ),
    "pbkdf2": (
        {"dklen": 32, "c": 262144, "prf": "hmac-sha256", "salt": SALT},
        "8a9f5d9912ed7e75ea794bc5a89bca5f193721d30868ade6f73043c6ea6febf1",
        "cee03fde2af33149775b7223e7845e4fb2c8ae1792e5f99fe9ecf474cc8c16ad",
        "m/12381/60/0/0",
        "64625def-3331-4eea-ab6f-782f3ed16a83",
    ),
}
"""EIP-2335, test cases."""
BLS = Bls()


def document(function: str) -> dict[str, Any]:
    """The vector's file."""
    params, checksum, ciphertext, path, name = VECTORS[function]
    return {
        "crypto": {
            "kdf": {"function": function, "params": dict(params), "message": ""},
            "checksum": {"function": "sha256", "params": {}, "message": checksum},
            "cipher": {"function": "aes-128-ctr", "params": {"iv": IV}, "message": ciphertext},
        },
        "description": f"This is a test keystore that uses {function} to secure the secret.",
        "pubkey": PUBKEY,
        "path": path,
        "uuid": name,
        "version": 4,
    }


def encoded(function: str) -> bytes:
    return json.dumps(document(function)).encode()


@pytest.mark.parametrize("function", VECTORS)
def test_the_proposals_vectors(function: str) -> None:
    keystore = decode_keystore(encoded(function), "k")
    key = keystore.kdf.derive(encode_password(TYPED))
    assert decrypt_key(keystore, key, "k", BLS) == SECRET
    assert json.loads(encode_keystore(keystore)) == document(function)
    drawn = iter([bytes.fromhex(IV), bytes(16)])
    made = encrypt_key(SECRET, key, keystore.kdf, lambda _: next(drawn), BLS)
    assert (made.ciphertext, made.checksum) == (keystore.ciphertext, keystore.checksum)
    assert made.pubkey.hex() == PUBKEY


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(TYPED, "testpassword\U0001f511"), ("a\x00b\x1f\x7f\x80\x9fc d", "abc d"), ("caf\u00e9", "cafe\u0301")],
)
def test_a_password_is_what_was_meant(typed: str, meant: str) -> None:
    assert encode_password(typed) == meant.encode()


@pytest.mark.parametrize("nothing", ["", "\x00\n", "a\udcff"])
def test_a_password_that_is_none_is_refused(nothing: str) -> None:
    with pytest.raises(Misuse, match="empty, or not UTF-8"):
        encode_password(nothing)


CHEAP = st.one_of(
    st.builds(Scrypt, st.binary(min_size=1, max_size=32), st.just(2), st.just(1)),
    st.builds(Pbkdf2, st.binary(min_size=1, max_size=32), st.integers(1, 3)),
)


@given(secret=st.integers(1, ORDER - 1), kdf=CHEAP)
def test_what_was_encrypted_opens(secret: int, kdf: Scrypt | Pbkdf2) -> None:
    key = kdf.derive(b"password")
    keystore = encrypt_key(secret, key, kdf, os.urandom, BLS)
    again = decode_keystore(encode_keystore(keystore), "k")
    assert again == keystore
    assert decrypt_key(again, again.kdf.derive(b"password"), "k", BLS) == secret


def _cheap(secret: int = 5, salt: bytes = b"s") -> Keystore:
    kdf = Scrypt(salt, 2)
    return encrypt_key(secret, kdf.derive(b"password"), kdf, os.urandom, BLS)


def test_a_wrong_password_is_one_sentence() -> None:
    with pytest.raises(Misuse, match=r"^The password does not open k\. Check it, and try again\.$"):
        decrypt_key(_cheap(), Scrypt(b"s", 2).derive(b"other"), "k", BLS)


def test_another_key_than_is_said_is_refused() -> None:
    """The name in the clear is bound to nothing; another key would be guarded than signs."""
    text = encode_keystore(_cheap()).replace(BLS.sk_to_pk(5).hex().encode(), BLS.sk_to_pk(6).hex().encode())
    with pytest.raises(MalformedFile, match="and holds another"):
        decrypt_key(decode_keystore(text, "k"), Scrypt(b"s", 2).derive(b"password"), "k", BLS)


@pytest.mark.parametrize(
    ("function", "path", "value"),
    [
        ("scrypt", "crypto.kdf.params.n", 1 << 30),
        ("scrypt", "crypto.kdf.params.n", 3),
        ("scrypt", "crypto.kdf.params.n", 1),
        ("scrypt", "crypto.kdf.params.n", 0),
        ("scrypt", "crypto.kdf.params.n", -2),
        ("scrypt", "crypto.kdf.params.n", "16"),
        ("scrypt", "crypto.kdf.params.n", True),
        ("scrypt", "crypto.kdf.params.r", 1 << 20),
        ("scrypt", "crypto.kdf.params.r", 0),
        ("scrypt", "crypto.kdf.params.p", 1 << 20),
        ("scrypt", "crypto.kdf.params.dklen", 1 << 40),
        ("scrypt", "crypto.kdf.params.salt", ""),
        ("scrypt", "crypto.kdf.params.salt", "zz"),
        ("scrypt", "crypto.kdf.params.salt", "00" * 129),
        ("scrypt", "crypto.kdf.function", "argon2"),
        ("scrypt", "crypto.kdf.params", None),
        ("scrypt", "crypto.checksum.function", "keccak"),
        ("scrypt", "crypto.cipher.function", "aes-256-ctr"),
        ("scrypt", "crypto.cipher.message", "00"),
        ("scrypt", "crypto.cipher.params.iv", "00" * 15),
        ("scrypt", "crypto.cipher.params.iv", "00 " * 16),
        ("scrypt", "crypto", []),
        ("scrypt", "pubkey", "00"),
        ("scrypt", "pubkey", 0),
        ("scrypt", "path", "\n"),
        ("scrypt", "uuid", None),
        ("scrypt", "description", "x" * 2000),
        ("scrypt", "version", 3),
        ("pbkdf2", "crypto.kdf.params.c", 1 << 30),
        ("pbkdf2", "crypto.kdf.params.c", 0),
        ("pbkdf2", "crypto.kdf.params.prf", "hmac-sha1"),
    ],
)
def test_what_is_no_keystore_is_refused_before_it_costs(function: str, path: str, value: object) -> None:
    whole = place = document(function)
    *steps, last = path.split(".")
    for step in steps:
        place = place[step]
    place[last] = value
    start = time.monotonic()
    with pytest.raises(MalformedFile, match="k is no keystore of version 4"):
        decode_keystore(json.dumps(whole).encode(), "k")
    assert time.monotonic() - start < 1


def test_cut_or_foreign_files_are_refused() -> None:
    data = encode_keystore(_cheap()).rstrip()
    for end in range(len(data)):
        with pytest.raises(MalformedFile, match="no keystore"):
            decode_keystore(data[:end], "k")
    for other in (b"[]", b"null", b'{"version": 4}', b"[" * 4000, b"\xff"):
        with pytest.raises(MalformedFile, match="no keystore"):
            decode_keystore(other, "k")


# Many of them


def _write(folder: Path, *keystores: Keystore) -> list[Path]:
    paths = [folder / f"keystore-{number}.json" for number in range(len(keystores))]
    for path, keystore in zip(paths, keystores, strict=True):
        path.write_bytes(encode_keystore(keystore))
    return paths


def test_keys_of_one_salt_open_with_one_derivation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = _write(tmp_path, *[_cheap(secret) for secret in range(1, 65)])
    calls: list[bytes] = []
    derive = Scrypt.derive

    def count(kdf: Scrypt, password: bytes) -> bytes:
        calls.append(kdf.salt)
        return derive(kdf, password)

    monkeypatch.setattr(Scrypt, "derive", count)
    keyring = load_keyring(paths, "password")
    assert sorted(keyring.secret_keys.values()) == list(range(1, 65))
    assert len(calls) == 1


def test_keys_from_elsewhere_have_salts_of_their_own(tmp_path: Path) -> None:
    keyring = load_keyring(_write(tmp_path, *[_cheap(n, b"%d" % n) for n in range(1, 9)]), "password")
    assert {BLS.sk_to_pk(n): n for n in range(1, 9)} == dict(keyring.secret_keys)


def test_one_password_opens_all_or_none(tmp_path: Path) -> None:
    kdf = Scrypt(b"other", 2)
    other = encrypt_key(7, kdf.derive(b"another"), kdf, os.urandom, BLS)
    with pytest.raises(Misuse, match=r"does not open .*keystore-1\.json"):
        load_keyring(_write(tmp_path, _cheap(), other), "password")


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"keystore-1\.json holds a key that another"):
        load_keyring(_write(tmp_path, _cheap(), _cheap()), "password")
