"""Keys at rest: a secret of 32 bytes in a file, under a passphrase (scrypt, ChaCha20-Poly1305).

The file is JSON. What it says in the clear (kind, identity) is bound to the secret: changed, it won't open.
"""

from __future__ import annotations

import json
import unicodedata
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import scrypt, sha256
from hmac import digest as hmac
from typing import TYPE_CHECKING, Any, Final

from anchor.consensus.bls_backends import ORDER
from anchor.consensus.schemes import SigningKey
from anchor.errors import MalformedFile, Misuse
from anchor.ml.formats.strict_json import parse
from anchor.params import SCHEME_ED25519

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305


Randomness = Callable[[int], bytes]
"""Gives so many bytes that nobody can guess: `os.urandom`, or a test's own."""

SCHEMA: Final = "anchor-key/1"
MAX_FILE_BYTES: Final = 4096
SECRET_BYTES: Final = 32
SCRYPT_N: Final = 1 << 16
"""With r = 8: 64 MiB and some 0.15 s a try."""
MAX_SCRYPT_N: Final = 1 << 18
SCRYPT_R: Final = 8
MIN_PASSPHRASE: Final = 8


@dataclass(frozen=True, slots=True)
class KeyFile:
    """An encrypted secret, and what is said of it in the clear."""

    kind: str
    """"committee", "root" or "signing"."""
    identity: str
    """Whose it is: a publisher's `ed25519:…` identity, or a network's id."""
    schemes: tuple[int, ...]
    """Of the signing keys that derive from the secret, in order; empty for a committee's seed."""
    n: int
    """scrypt's cost."""
    salt: bytes
    nonce: bytes
    ciphertext: bytes


def encrypt_secret(
    secret: bytes,
    passphrase: str,
    randomness: Randomness,
    *,
    kind: str,
    identity: str,
    schemes: tuple[int, ...] = (),
) -> KeyFile:
    """`secret` under `passphrase`. Raises Misuse when that is too short to be one."""
    if len(passphrase) < MIN_PASSPHRASE:
        raise Misuse(f"A passphrase has at least {MIN_PASSPHRASE} characters.", fix="Take a longer one.")
    salt, nonce = randomness(16), randomness(12)
    file = KeyFile(kind, identity, schemes, SCRYPT_N, salt, nonce, b"")
    sealed = _cipher(file, passphrase).encrypt(nonce, secret, _associated(file))
    return replace(file, ciphertext=sealed)


def decrypt_secret(file: KeyFile, passphrase: str, where: str) -> bytes:
    """The secret of `file`, which was read from `where`. Raises Misuse for a wrong passphrase."""
    from cryptography.exceptions import InvalidTag

    cipher = _cipher(file, passphrase)
    try:
        return cipher.decrypt(file.nonce, file.ciphertext, _associated(file))
    except InvalidTag:
        raise Misuse(f"The passphrase does not open {where}.", fix="Check it, and try again.") from None


def _cipher(file: KeyFile, passphrase: str) -> ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        spelled = unicodedata.normalize("NFC", passphrase).encode()
    except UnicodeEncodeError:
        raise Misuse("The passphrase is not UTF-8.", fix="Spell it in UTF-8.") from None
    memory = 128 * SCRYPT_R * file.n + (1 << 20)
    return ChaCha20Poly1305(
        scrypt(spelled, salt=file.salt, n=file.n, r=SCRYPT_R, p=1, maxmem=memory, dklen=SECRET_BYTES)
    )


def _associated(file: KeyFile) -> bytes:
    return json.dumps([SCHEMA, file.kind, file.identity, file.schemes]).encode()


def encode_key_file(file: KeyFile) -> bytes:
    """The bytes of a key file."""
    document = {
        "schema": SCHEMA,
        "kind": file.kind,
        "identity": file.identity,
        "schemes": list(file.schemes),
        "kdf": {"name": "scrypt", "n": file.n, "r": SCRYPT_R, "p": 1, "salt": _text(file.salt)},
        "cipher": {"name": "chacha20-poly1305", "nonce": _text(file.nonce), "data": _text(file.ciphertext)},
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def decode_key_file(data: bytes, where: str) -> KeyFile:
    """The key file that `data`, read from `where`, is. Raises MalformedFile when it is none."""
    try:
        document: Any = parse(data, where)
        kdf, cipher = document["kdf"], document["cipher"]
        file = KeyFile(
            kind=str(document["kind"]),
            identity=str(document["identity"]),
            schemes=tuple([int(scheme) for scheme in document["schemes"]]),
            n=int(kdf["n"]),
            salt=b64decode(kdf["salt"], validate=True),
            nonce=b64decode(cipher["nonce"], validate=True),
            ciphertext=b64decode(cipher["data"], validate=True),
        )
    except (MalformedFile, ValueError, KeyError, TypeError, Base64Error):
        raise _not_a_key(where, data) from None
    if encode_key_file(file) != data or not _is_sound(file):
        raise _not_a_key(where, data)
    return file


def _is_sound(file: KeyFile) -> bool:
    """True when opening it costs no more than it may, and its parts have their lengths."""
    is_power = file.n & (file.n - 1) == 0
    lengths = len(file.salt), len(file.nonce), len(file.ciphertext)
    return is_power and 1 < file.n <= MAX_SCRYPT_N and lengths == (16, 12, SECRET_BYTES + 16)


def _not_a_key(where: str, data: bytes) -> MalformedFile:
    if data.startswith((b"-----BEGIN ", b"ssh-")):
        what = f"{where} is no key file of anchor's: it is a key of another program."
        return MalformedFile(what, cause="key", fix="Make them with: anchor keygen")
    fix = "Take the right file, or its backup."
    return MalformedFile(f"{where} is no key file, or was changed.", cause="key", fix=fix)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


# What derives from a secret.


def derive_validator_key(seed: bytes, index: int) -> int:
    """The BLS secret key of validator `index`.

    KeyGen of draft-irtf-cfrg-bls-signature §2.3, with the index as key_info.
    """
    info = b"anchor validator" + index.to_bytes(8, "big") + (48).to_bytes(2, "big")
    salt = b"BLS-SIG-KEYGEN-SALT-"
    while True:
        salt = sha256(salt).digest()
        key = int.from_bytes(_expand(hmac(salt, seed + b"\0", "sha256"), info, 48), "big") % ORDER
        if key:
            return key


def derive_administrator_key(seed: bytes) -> SigningKey:
    """The key of the administrator of a ledger whose committee has this seed."""
    return _derive_key(seed, b"anchor administrator", SCHEME_ED25519)


def derive_root_key(secret: bytes) -> SigningKey:
    """A publisher's root key."""
    return _derive_key(secret, b"anchor root", SCHEME_ED25519)


def derive_signing_keys(secret: bytes, schemes: tuple[int, ...]) -> tuple[SigningKey, ...]:
    """A publisher's signing keys, one a scheme."""
    return tuple([_derive_key(secret, b"anchor signing", scheme) for scheme in schemes])


def _derive_key(secret: bytes, purpose: bytes, scheme: int) -> SigningKey:
    return SigningKey(scheme, _expand(hmac(purpose, secret, "sha256"), bytes([scheme]), SECRET_BYTES))


def _expand(key: bytes, info: bytes, size: int) -> bytes:
    """HKDF-Expand with SHA-256 (RFC 5869 §2.3)."""
    block = output = b""
    for counter in range(1, -(-size // 32) + 1):
        block = hmac(key, block + info + bytes([counter]), "sha256")
        output += block
    return output[:size]
