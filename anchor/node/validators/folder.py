"""A folder of validators: keystores, what their keys signed, and a lock: one process at a time has the keys.

keystore-0x….json    one key each, all under one password
protection.sqlite    slashing protection; it begins with the keys, and says that they signed nothing yet
deposits.json        public: the keys, with proofs of possession
lock
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anchor.consensus.bls import Bls
from anchor.consensus.duties import Keyring
from anchor.errors import Misuse, Unavailable
from anchor.files import PRIVATE, read_bounded, told_plainly, write_new
from anchor.lock import hold_folder
from anchor.node.keys import MIN_PASSPHRASE, SECRET_BYTES, Randomness, derive_validator_key
from anchor.node.validators import keystores, protection
from anchor.node.validators.keystores import (
    MAX_FILE_BYTES,
    Keystore,
    Pbkdf2,
    Scrypt,
    decode_keystore,
    decrypt_key,
    encode_keystore,
    encode_password,
    encrypt_key,
)
from anchor.node.validators.protection import Protection

PATTERN: Final = "keystore-*.json"
MAX_KEYSTORES: Final = 4096
MAX_THREADS: Final = 4
"""Keys that are derived at once: each may take 512 MiB."""


@dataclass(frozen=True, slots=True)
class Validators:
    """Keys that this node signs with, and what they signed."""

    keyring: Keyring
    protection: Protection


def make_validators(folder: Path, count: int, password: str, randomness: Randomness) -> Keyring:
    """Fills `folder` with `count` new keys, and a record that they signed nothing.

    Raises Misuse for a count that is out of bounds, and a password that is too short.
    """
    _require_count(count)
    if len(password) < MIN_PASSPHRASE:
        raise Misuse(f"A passphrase has at least {MIN_PASSPHRASE} characters.", fix="Take a longer one.")
    with closing(Protection.create(folder / protection.FILE)) as records:
        kdf = Scrypt(randomness(32), keystores.SCRYPT_N)
        return _make_keys(folder, records, count, kdf, password, randomness)


def add_validators(folder: Path, count: int, password: str, randomness: Randomness) -> Keyring:
    """Adds `count` new keys, which signed nothing, to those in `folder`, under their password; returns them.

    Raises as `open_validators` does, but for networks.
    """
    paths = find_keystores(folder)
    _require_count(count + len(paths))
    with open_records(folder) as records:
        load_keyring(paths[:1], password)  # raises for another one than theirs
        return _make_keys(folder, records, count, _read_keystore(paths[0]).kdf, password, randomness)


def _require_count(count: int) -> None:
    if not 0 < count <= MAX_KEYSTORES:
        raise Misuse(f"A folder holds 1 to {MAX_KEYSTORES} keys, not {count}.")


def _make_keys(
    folder: Path,
    records: Protection,
    count: int,
    kdf: Scrypt | Pbkdf2,
    password: str,
    randomness: Randomness,
) -> Keyring:
    """Who is killed meanwhile leaves records without keys, and no key without a record."""
    bls, key = Bls(), kdf.derive(encode_password(password))
    secrets = [derive_validator_key(randomness(SECRET_BYTES), 0) for _ in range(count)]
    made = [encrypt_key(secret, key, kdf, randomness, bls) for secret in secrets]
    pubkeys = [keystore.pubkey for keystore in made]
    records.register(pubkeys)
    for keystore in made:
        path = folder / PATTERN.replace("*", f"0x{keystore.pubkey.hex()}")
        write_new(path, encode_keystore(keystore), mode=PRIVATE)
    return Keyring(bls, dict(zip(pubkeys, secrets, strict=True)))


@contextmanager
def open_validators(folder: Path, password: str, network_id: bytes) -> Iterator[Validators]:
    """The validators in `folder`, which nobody else has for the length of the body.

    Raises Unavailable while another process has them, or it is not known what they signed; Misuse for a
    wrong password; WrongNetwork when they signed on another network; MalformedFile, CorruptedLedger.
    """
    paths = find_keystores(folder)
    with (
        hold_folder(folder, patience=0, on_wait=lambda _: None),
        closing(Protection.open(folder / protection.FILE)) as records,
    ):
        keyring = load_keyring(paths, password)
        unknown = sorted(set(keyring.secret_keys) - set(records.get_pubkeys()))
        if unknown:
            raise Unavailable(
                f"{folder} does not tell what 0x{unknown[0].hex()}, of {len(unknown)} such keys, signed.",
                fix="Import it from where they were used: anchor validator import",
            )
        records.bind(network_id)
        yield Validators(keyring, records)


def find_keystores(folder: Path) -> list[Path]:
    """The keystores in `folder`. Raises Unavailable when it holds none."""
    with told_plainly(folder, "read"):
        paths = sorted(folder.glob(PATTERN))
    if not paths:
        fix = "Make some with: anchor validator keygen"
        raise Unavailable(f"There is no keystore in {folder}: none is named {PATTERN}.", fix=fix)
    if len(paths) > MAX_KEYSTORES:
        raise Misuse(f"{folder} holds {len(paths)} keystores, and may hold {MAX_KEYSTORES}.")
    return paths


def resume_folder(folder: Path, network_id: bytes, *, slot: int, source: int, target: int) -> int:
    """Lets the keys in `folder`, whose record is lost or old, sign what comes after; returns how many.

    Raises as `find_keystores`, WrongNetwork when they signed on another network, CorruptedLedger.
    """
    pubkeys = [_read_keystore(path).pubkey for path in find_keystores(folder)]
    path = folder / protection.FILE
    with hold_folder(folder, patience=0, on_wait=lambda _: None):
        Protection.resume(path, pubkeys, slot, source, target)
        with closing(Protection.open(path)) as records:
            records.bind(network_id)
    return len(pubkeys)


@contextmanager
def open_records(folder: Path, *, create: bool = False) -> Iterator[Protection]:
    """What the keys in `folder` signed; for the length of the body, nobody signs.

    Raises as `Protection.open`, Unavailable while another process has the keys.
    """
    path = folder / protection.FILE
    with hold_folder(folder, patience=0, on_wait=lambda _: None):
        records = Protection.create(path) if create and not path.exists() else Protection.open(path)
        with closing(records):
            yield records


def load_keyring(paths: Sequence[Path], password: str) -> Keyring:
    """The keys of several keystores. Each way to derive a key from the password is gone once, in threads.

    Raises Misuse for a wrong password, or a key that is there twice; MalformedFile, Unavailable.
    """
    bls, encoded = Bls(), encode_password(password)
    found = [_read_keystore(path) for path in paths]
    kdfs = list(dict.fromkeys([keystore.kdf for keystore in found]))
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_THREADS)) as pool:
        keys = dict(zip(kdfs, pool.map(lambda kdf: kdf.derive(encoded), kdfs), strict=True))
    secrets: dict[bytes, int] = {}
    for path, keystore in zip(paths, found, strict=True):
        if keystore.pubkey in secrets:
            raise Misuse(f"{path} holds a key that another keystore beside it holds.", fix="Take one away.")
        secrets[keystore.pubkey] = decrypt_key(keystore, keys[keystore.kdf], str(path), bls)
    return Keyring(bls, secrets)


def _read_keystore(path: Path) -> Keystore:
    return decode_keystore(read_bounded(path, MAX_FILE_BYTES, "a keystore"), str(path))
