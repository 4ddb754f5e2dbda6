"""`anchor keygen`: a publisher's identity, and the keys that sign in its name."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.secrets import (
    ADMINISTRATOR,
    ROOT,
    SIGNING,
    add_passphrase_option,
    read_key,
    read_passphrase,
)

if TYPE_CHECKING:
    from anchor.consensus.schemes import SigningKey

HELP = """\
Make a publisher's keys, encrypted: FILE signs publications, FILE.root is the
identity itself. The first publication on a ledger needs both; after that keep
FILE.root offline: only it can replace or revoke the signing key.
With --root-key, make another signing key for the identity that is there.
With --administrator, make an administrator's key of a network, in one file."""
EXAMPLES = """
anchor keygen alice.key
anchor keygen alice.key --ml-dsa --passphrase-file secret.txt
anchor keygen alice-2.key --root-key alice.key.root
anchor keygen admin.key --administrator
"""
NEW = """.
{root} is the identity: after the first publication keep it offline.
Without it, and its passphrase, no key can ever be replaced or revoked."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", help="where to write the signing key; never overwritten")
    parser.add_argument(
        "--ml-dsa", action="store_true", help="sign with ML-DSA-65 too, for records that outlive Ed25519"
    )
    parser.add_argument(
        "--root-key", metavar="FILE", help="whose signing key it is (default: a new identity)"
    )
    parser.add_argument(
        "--administrator", action="store_true", help="registers publishers, brings validators in"
    )
    add_passphrase_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Draws, encrypts, writes; prints the identity."""
    from anchor.consensus.text import parse_identity
    from anchor.node.keys import derive_root_key

    if options.administrator:
        return _make_administrator(options, terminal)
    path, is_new = Path(options.file), options.root_key is None
    root_path = root_file(options.file) if is_new else Path(options.root_key)
    _require_free(path, *([root_path] if is_new else []))
    identity = "" if is_new else read_key(options.root_key, ROOT).identity
    passphrase = read_passphrase(options.passphrase_file, str(path), confirm=True)
    if is_new:
        identity = _make_key(root_path, passphrase, ROOT, derive_root_key)
    parse_identity(identity)
    _make_signing_key(path, passphrase, identity, ml_dsa=options.ml_dsa)
    end = NEW.format(root=printable(str(root_path))) if is_new else _say_next(path, root_path)
    text = f"{terminal.paint(identity, 'bold')}\n\n{printable(str(path))} signs publications{end}"
    return Outcome(text, {"identity": identity, "key": str(path), "root_key": str(root_path)})


def _make_administrator(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.errors import Misuse
    from anchor.node.keys import derive_administrator_key

    if options.ml_dsa or options.root_key is not None:
        raise Misuse("An administrator has one key: --administrator takes neither --ml-dsa nor --root-key.")
    path = Path(options.file)
    _require_free(path)
    passphrase = read_passphrase(options.passphrase_file, str(path), confirm=True)
    identity = _make_key(path, passphrase, ADMINISTRATOR, derive_administrator_key)
    text = (
        f"{terminal.paint(identity, 'bold')}\n\n"
        f"{printable(str(path))} registers publishers and brings validators in, where a network's\n"
        "genesis names it. It says nothing in their names."
    )
    return Outcome(text, {"identity": identity, "key": str(path)})


def _require_free(*places: Path) -> None:
    from anchor.errors import Misuse

    for place in places:
        if place.exists():
            raise Misuse(f"{place} is there already, and is never overwritten.", fix="Choose another name.")


def _make_key(path: Path, passphrase: str, kind: str, derive: Callable[[bytes], SigningKey]) -> str:
    """Writes a new key that is an identity of its own; returns that."""
    from anchor.consensus.text import format_identity
    from anchor.files import PRIVATE, write_new
    from anchor.node.keys import SECRET_BYTES, encode_key_file, encrypt_secret

    secret = os.urandom(SECRET_BYTES)
    identity = format_identity(derive(secret).public.public_key)
    file = encrypt_secret(secret, passphrase, os.urandom, kind=kind, identity=identity)
    write_new(path, encode_key_file(file), mode=PRIVATE)
    return identity


def _make_signing_key(path: Path, passphrase: str, identity: str, *, ml_dsa: bool) -> None:
    from anchor.files import PRIVATE, write_new
    from anchor.node.keys import SECRET_BYTES, encode_key_file, encrypt_secret
    from anchor.params import SCHEME_ED25519, SCHEME_ML_DSA_65

    schemes = (SCHEME_ED25519, SCHEME_ML_DSA_65) if ml_dsa else (SCHEME_ED25519,)
    secret = os.urandom(SECRET_BYTES)
    file = encrypt_secret(secret, passphrase, os.urandom, kind=SIGNING, identity=identity, schemes=schemes)
    write_new(path, encode_key_file(file), mode=PRIVATE)


def _say_next(path: Path, root: Path) -> str:
    """What makes a ledger take another signing key."""
    files = f"--key {printable(quote(str(path)))} --root-key {printable(quote(str(root)))}"
    return f" once the ledger knows it:\n\n  anchor keys rotate {files}"


def root_file(key: str) -> Path:
    """Where the root key lies that belongs to the signing key at `key`."""
    return Path(f"{key}.root")
