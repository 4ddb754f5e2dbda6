"""Passphrases and key files. A passphrase is never an argument, where other processes could read it."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anchor.errors import Misuse, Unavailable

if TYPE_CHECKING:
    from anchor.consensus.schemes import SigningKey
    from anchor.node.keys import KeyFile

VARIABLE: Final = "ANCHOR_PASSPHRASE"
KEY_VARIABLE: Final = "ANCHOR_KEY_PASSPHRASE"
MAX_PASSPHRASE_BYTES: Final = 4096
SIGNING: Final = "signing"
ROOT: Final = "root"
"""Kinds of a publisher's keys."""
ADMINISTRATOR: Final = "administrator"


def add_passphrase_option(parser: ArgumentParser) -> None:
    """Where the passphrase of the command's first or only secret comes from."""
    text = f"read the passphrase from a file's first line (else ${VARIABLE}, else a prompt)"
    parser.add_argument("--passphrase-file", metavar="FILE", help=text)


def add_key_options(parser: ArgumentParser) -> None:
    """A publisher's signing key, beside the ledger's own passphrase."""
    parser.add_argument(
        "--key", metavar="FILE", required=True, help="the publisher's signing key (anchor keygen)"
    )
    add_passphrase_options(parser)


def add_passphrase_options(parser: ArgumentParser) -> None:
    """Where the passphrases of a ledger and of a publisher's key come from."""
    add_passphrase_option(parser)
    text = f"the key's passphrase, where it is another one than the ledger's (else ${KEY_VARIABLE})"
    parser.add_argument("--key-passphrase-file", metavar="FILE", help=text)


def add_root_key_options(parser: ArgumentParser, text: str, *, required: bool = False) -> None:
    """A publisher's root key."""
    parser.add_argument("--root-key", metavar="FILE", required=required, help=text)
    text = "the root key's passphrase, where it is another one than the key's"
    parser.add_argument("--root-passphrase-file", metavar="FILE", help=text)


def read_passphrase(path: str | None, what: str, *, confirm: bool = False) -> str:
    """The passphrase of `what`: from the file at `path`, the environment, or a prompt.

    Raises Misuse when there is nobody to ask, or the second spelling differs from the first.
    """
    return find_passphrase(path, (VARIABLE,)) or _ask(what, confirm=confirm)


def read_key_passphrase(options: Namespace, path: str, kind: str) -> str:
    """The passphrase of the key at `path`: its own, else the one given for everything, else a prompt."""
    own = options.root_passphrase_file if kind == ROOT else None
    given = (
        find_passphrase(own, ())
        or find_passphrase(options.key_passphrase_file, (KEY_VARIABLE,))
        or find_passphrase(options.passphrase_file, (VARIABLE,))
    )
    return given or _ask(path, confirm=False)


def find_passphrase(path: str | None, variables: tuple[str, ...]) -> str:
    """The first line of the file at `path`, else the first of the variables that is set; empty: neither."""
    if path is None:
        return next((os.environ[name] for name in variables if os.environ.get(name)), "")
    from anchor.files import read_bounded

    data = read_bounded(Path(path), MAX_PASSPHRASE_BYTES, "a passphrase's file", may_be_pipe=True)
    try:
        line = data.decode().split("\n", 1)[0].rstrip("\r")
    except UnicodeDecodeError:
        line = ""
    if not line:
        raise Misuse(f"The first line of {path} is no passphrase.", fix="Write it there, in UTF-8.")
    return line


def _ask(what: str, *, confirm: bool) -> str:
    if not sys.stdin.isatty():
        raise Misuse(
            f"The passphrase of {what} is needed, and there is nobody to ask.",
            fix=f"Give --passphrase-file, or set {VARIABLE}.",
        )
    import getpass

    passphrase = getpass.getpass(f"Passphrase of {what}: ")
    if confirm and getpass.getpass("The same again: ") != passphrase:
        raise Misuse("The two spellings differ.", fix="Try again.")
    return passphrase


def unlock_administrator(options: Namespace) -> SigningKey:
    """The administrator's key in the file that --key names."""
    from anchor.node.keys import decrypt_secret, derive_administrator_key

    file = read_key(options.key, ADMINISTRATOR)
    passphrase = read_passphrase(options.passphrase_file, options.key)
    return derive_administrator_key(decrypt_secret(file, passphrase, options.key))


def read_key(path: str, kind: str) -> KeyFile:
    """The key file at `path`. Raises Unavailable when it is not there, Misuse when it is of another kind."""
    from anchor.files import read_bounded
    from anchor.node.keys import MAX_FILE_BYTES, decode_key_file

    if not Path(path).exists():
        raise Unavailable(f"There is no key {path}.", fix="Name its file, or make one with: anchor keygen")
    file = decode_key_file(read_bounded(Path(path), MAX_FILE_BYTES, "a key file"), path)
    if file.kind != kind:
        raise Misuse(
            f"{path} is {_with_article(file.kind)} key, and {_with_article(kind)} key is needed.",
            fix="Give the other file.",
        )
    return file


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
