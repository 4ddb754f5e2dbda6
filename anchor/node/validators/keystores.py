"""Validators' keys at rest: one secret in a JSON file, under a password (EIP-2335, version 4).

Whoever holds many keys opens them all with one password. So keys that are made together share the salt from
which the password's key is derived, and only the cipher's start differs: to guess the one password is as hard
as with a salt for each, and to open all files takes as long as to open one.
"""

from __future__ import annotations

import json
import unicodedata
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import pbkdf2_hmac, scrypt, sha256
from hmac import compare_digest
from typing import Any, Final

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.errors import MalformedFile, Misuse
from anchor.ml.formats.strict_json import parse
from anchor.node.keys import Randomness

VERSION: Final = 4
MAX_FILE_BYTES: Final = 1 << 14
SECRET_BYTES: Final = 32
SCRYPT_N: Final = 1 << 18
"""The proposal's own: with r = 8, 256 MiB and some 0.7 s a try."""
MAX_SCRYPT_COST: Final = 1 << 22
"""n · r · p: twice the proposal's; 512 MiB at most."""
MAX_ROUNDS: Final = 1 << 22
"""Of PBKDF2: sixteen times the proposal's."""
MAX_SALT_BYTES: Final = 128
MAX_WORDS: Final = 1024
"""Characters of what is said in the clear."""


@dataclass(frozen=True, slots=True)
class Scrypt:
    """What derives a key from a password (RFC 7914)."""

    salt: bytes
    n: int
    r: int = 8
    p: int = 1

    def derive(self, password: bytes) -> bytes:
        """32 bytes."""
        memory = 128 * self.r * (self.n + self.p) + (1 << 20)
        return scrypt(password, salt=self.salt, n=self.n, r=self.r, p=self.p, maxmem=memory, dklen=32)

    def is_bounded(self) -> bool:
        """Whether it takes no more time and memory than a key may."""
        is_power = self.n > 1 and self.n & (self.n - 1) == 0
        return is_power and self.r > 0 < self.p and self.n * self.r * self.p <= MAX_SCRYPT_COST


@dataclass(frozen=True, slots=True)
class Pbkdf2:
    """What derives a key from a password (RFC 2898), with HMAC-SHA-256."""

    salt: bytes
    c: int
    """Rounds."""

    def derive(self, password: bytes) -> bytes:
        """32 bytes."""
        return pbkdf2_hmac("sha256", password, self.salt, self.c, 32)

    def is_bounded(self) -> bool:
        """Whether it takes no more time than a key may."""
        return 0 < self.c <= MAX_ROUNDS


@dataclass(frozen=True, slots=True)
class Keystore:
    """An encrypted secret, and what is said of it in the clear."""

    pubkey: bytes
    kdf: Scrypt | Pbkdf2
    iv: bytes
    """Where the cipher starts: 16 bytes, never used twice with one derived key."""
    ciphertext: bytes
    checksum: bytes
    uuid: str
    path: str = ""
    """Where in a tree of keys it stands (EIP-2334); empty for a key that was drawn."""
    description: str = ""


def encode_password(password: str) -> bytes:
    """A password's bytes: what was typed, not how. Raises Misuse for none."""
    typed = unicodedata.normalize("NFKD", password)
    stripped = "".join([mark for mark in typed if ord(mark) > 0x1F and not 0x7F <= ord(mark) <= 0x9F])
    try:
        encoded = stripped.encode()
    except UnicodeEncodeError:
        encoded = b""
    if not encoded:
        raise Misuse("The password is empty, or not UTF-8.", fix="Take another one.")
    return encoded


def encrypt_key(secret: int, key: bytes, kdf: Scrypt | Pbkdf2, randomness: Randomness, bls: Bls) -> Keystore:
    """The secret key under `key`, which `kdf` derived from a password."""
    iv = randomness(16)
    ciphertext = _apply_cipher(key, iv, secret.to_bytes(SECRET_BYTES, "big"))
    name = uuid.UUID(bytes=randomness(16), version=4)
    return Keystore(bls.sk_to_pk(secret), kdf, iv, ciphertext, _sum(key, ciphertext), str(name))


def decrypt_key(keystore: Keystore, key: bytes, where: str, bls: Bls) -> int:
    """The secret key of `keystore`, read from `where`, by the key that its password derives.

    Raises Misuse for a wrong password, MalformedFile for another key than the file says.
    """
    if not compare_digest(_sum(key, keystore.ciphertext), keystore.checksum):
        raise Misuse(f"The password does not open {where}.", fix="Check it, and try again.")
    secret = int.from_bytes(_apply_cipher(key, keystore.iv, keystore.ciphertext), "big")
    if not 0 < secret < ORDER or bls.sk_to_pk(secret) != keystore.pubkey:
        raise MalformedFile(
            f"{where} says that it holds key 0x{keystore.pubkey.hex()}, and holds another.",
            cause="keystore",
            fix="Take it from its backup.",
        )
    return secret


def _sum(key: bytes, ciphertext: bytes) -> bytes:
    return sha256(key[16:32] + ciphertext).digest()


def _apply_cipher(key: bytes, iv: bytes, data: bytes) -> bytes:
    """AES-128 in counter mode, which undoes itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES128
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    stream = Cipher(AES128(key[:16]), CTR(iv)).encryptor()
    return stream.update(data) + stream.finalize()


# Its file


def encode_keystore(keystore: Keystore) -> bytes:
    """The bytes of a keystore's file."""
    document = {
        "crypto": {
            "kdf": {**_show_kdf(keystore.kdf), "message": ""},
            "checksum": {"function": "sha256", "params": {}, "message": keystore.checksum.hex()},
            "cipher": {
                "function": "aes-128-ctr",
                "params": {"iv": keystore.iv.hex()},
                "message": keystore.ciphertext.hex(),
            },
        },
        "description": keystore.description,
        "pubkey": keystore.pubkey.hex(),
        "path": keystore.path,
        "uuid": keystore.uuid,
        "version": VERSION,
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def _show_kdf(kdf: Scrypt | Pbkdf2) -> dict[str, Any]:
    common = {"dklen": 32, "salt": kdf.salt.hex()}
    if isinstance(kdf, Pbkdf2):
        return {"function": "pbkdf2", "params": {**common, "c": kdf.c, "prf": "hmac-sha256"}}
    return {"function": "scrypt", "params": {**common, "n": kdf.n, "r": kdf.r, "p": kdf.p}}


def decode_keystore(data: bytes, where: str) -> Keystore:
    """The keystore that `data`, read from `where`, is.

    Raises MalformedFile when it is none of version 4, or to open it would cost more than it may.
    """
    try:
        document: Any = parse(data, where)
        keystore = _from_json(document)
        if document["version"] != VERSION or not keystore.kdf.is_bounded():
            raise ValueError(where)
    except (MalformedFile, ValueError, KeyError, TypeError, AttributeError):
        raise MalformedFile(
            f"{where} is no keystore of version {VERSION} (EIP-2335) that can be opened at a sane cost.",
            cause="keystore",
            fix="Take the right file, or its backup.",
        ) from None
    return keystore


def _from_json(document: Any) -> Keystore:
    crypto = document["crypto"]
    functions = [crypto[part]["function"] for part in ("checksum", "cipher")]
    if functions != ["sha256", "aes-128-ctr"]:
        raise ValueError(functions)
    return Keystore(
        pubkey=_read(document["pubkey"].removeprefix("0x"), 48, 48),
        kdf=_read_kdf(crypto["kdf"]),
        iv=_read(crypto["cipher"]["params"]["iv"], 16, 16),
        ciphertext=_read(crypto["cipher"]["message"], SECRET_BYTES, SECRET_BYTES),
        checksum=_read(crypto["checksum"]["message"], 32, 32),
        uuid=_read_words(document["uuid"]),
        path=_read_words(document["path"]),
        description=_read_words(document.get("description", "")),
    )


def _read_kdf(module: Mapping[str, Any]) -> Scrypt | Pbkdf2:
    params, function = module["params"], module["function"]
    salt = _read(params["salt"], 1, MAX_SALT_BYTES)
    if params["dklen"] != 32:
        raise ValueError(params["dklen"])
    if function == "scrypt":
        return Scrypt(salt, *[_read_count(params[name]) for name in ("n", "r", "p")])
    if function == "pbkdf2" and params["prf"] == "hmac-sha256":
        return Pbkdf2(salt, _read_count(params["c"]))
    raise ValueError(function)


def _read(text: str, least: int, most: int) -> bytes:
    data = bytes.fromhex(text)
    if not least <= len(data) <= most or len(text) != 2 * len(data):
        raise ValueError(text)
    return data


def _read_words(text: str) -> str:
    if not str.isprintable(text) or len(text) > MAX_WORDS:
        raise ValueError(text)
    return text


def _read_count(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value
