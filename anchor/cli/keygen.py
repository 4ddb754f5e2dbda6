"""`anchor keygen`: a publisher's identity, and the keys that sign in its name."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.secrets import add_passphrase_option, read_passphrase

HELP = """\
Make a publisher's keys, encrypted: FILE signs publications, FILE.root is the
identity itself. The first publication on a ledger needs both; after that keep
FILE.root offline: only it can replace or revoke the signing key."""
EXAMPLES = """
anchor keygen alice.key
anchor keygen alice.key --ml-dsa --passphrase-file secret.txt
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", help="where to write the signing key; never overwritten")
    parser.add_argument(
        "--ml-dsa", action="store_true", help="sign with ML-DSA-65 too, for records that outlive Ed25519"
    )
    add_passphrase_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Draws, encrypts, writes; prints the identity."""
    from anchor.consensus.text import format_identity
    from anchor.errors import Misuse
    from anchor.files import PRIVATE, write_new
    from anchor.node.keys import SECRET_BYTES, derive_root_key, encode_key_file, encrypt_secret
    from anchor.params import SCHEME_ED25519, SCHEME_ML_DSA_65

    path, root_path = Path(options.file), root_file(options.file)
    for place in (path, root_path):
        if place.exists():
            raise Misuse(f"{place} is there already, and is never overwritten.", fix="Choose another name.")
    passphrase = read_passphrase(options.passphrase_file, str(path), confirm=True)
    root_secret, secret = os.urandom(SECRET_BYTES), os.urandom(SECRET_BYTES)
    identity = format_identity(derive_root_key(root_secret).public.public_key)
    schemes = (SCHEME_ED25519, SCHEME_ML_DSA_65) if options.ml_dsa else (SCHEME_ED25519,)
    root = encrypt_secret(root_secret, passphrase, os.urandom, kind="root", identity=identity)
    signing = encrypt_secret(
        secret, passphrase, os.urandom, kind="signing", identity=identity, schemes=schemes
    )
    write_new(root_path, encode_key_file(root), mode=PRIVATE)
    write_new(path, encode_key_file(signing), mode=PRIVATE)
    text = (
        f"{terminal.paint(identity, 'bold')}\n\n"
        f"{printable(str(path))} signs publications.\n"
        f"{printable(str(root_path))} is the identity: after the first publication keep it offline.\n"
        "Without it, and its passphrase, no key can ever be replaced or revoked."
    )
    return Outcome(text, {"identity": identity, "key": str(path), "root_key": str(root_path)})


def root_file(key: str) -> Path:
    """Where the root key lies that belongs to the signing key at `key`."""
    return Path(f"{key}.root")
