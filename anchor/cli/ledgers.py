"""What the commands on a ledger share: where it is, who speaks, what is seen while blocks are made."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from anchor.cli.output import Terminal, printable
from anchor.cli.secrets import read_key, read_key_passphrase, read_passphrase

if TYPE_CHECKING:
    from anchor.node.postgresql import Url
    from anchor.node.production import Step
    from anchor.node.publishing import Author

VARIABLE: Final = "ANCHOR_LEDGER"
DEFAULT: Final = "ledger"


def add_ledger_option(parser: ArgumentParser) -> None:
    """Which ledger."""
    text = f"the ledger's folder (default: ${VARIABLE}, else ./{DEFAULT})"
    parser.add_argument("--ledger", metavar="DIR", help=text)


def add_store_option(parser: ArgumentParser) -> None:
    """Where a new ledger keeps what it records."""
    text = "a PostgreSQL database, postgresql://USER@HOST/NAME; passwords from PGPASSWORD or ~/.pgpass"
    parser.add_argument("--store", metavar="URL", help=text)


def get_url(options: Namespace) -> Url | None:
    """The database that the options name. Raises Misuse for a URL of something else."""
    from anchor.node.postgresql import Url

    return None if options.store is None else Url(options.store)


def add_last_option(parser: ArgumentParser, what: str, default: int) -> None:
    """How many are shown."""
    text = f"{what} to show (default: %(default)s)"
    parser.add_argument("--last", type=_parse_count, default=default, metavar="N", help=text)


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise ArgumentTypeError(f"{text!r} is no number of one or more")
    return int(text)


def repeat_ledger(options: Namespace) -> str:
    """The words that name the same ledger in a command that is suggested."""
    return f" --ledger {printable(quote(options.ledger))}" if options.ledger else ""


def get_folder(options: Namespace) -> Path:
    """The folder that the options name, or the environment."""
    return Path(options.ledger or os.environ.get(VARIABLE) or DEFAULT)


def unlock(options: Namespace, folder: Path) -> tuple[bytes, Author]:
    """The committee's seed and the publisher, without its root key.

    Opening a secret takes a while, by design: both are opened at once.
    """
    from concurrent.futures import ThreadPoolExecutor

    from anchor.consensus.text import parse_identity
    from anchor.node.folder import unlock_seed
    from anchor.node.keys import decrypt_secret, derive_signing_keys
    from anchor.node.publishing import Author

    file = read_key(options.key, "signing")
    passphrase = read_passphrase(options.passphrase_file, f"the ledger in {folder}")
    of_key = read_key_passphrase(options.key_passphrase_file, options.passphrase_file, options.key)
    with ThreadPoolExecutor(2) as pool:
        seed = pool.submit(unlock_seed, folder, passphrase)
        secret = pool.submit(decrypt_secret, file, of_key, options.key)
    opened = seed.result()  # the ledger's passphrase is the one to complain about first
    return opened, Author(parse_identity(file.identity), derive_signing_keys(secret.result(), file.schemes))


class Watch:
    """Draws blocks as they are proposed, justified and finalised: one line an epoch."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._epoch = terminal, -1

    def __call__(self, step: Step) -> None:
        from anchor.node.production import FINALISED, PROPOSED

        if step.kind == PROPOSED:
            lead = "" if step.epoch == self._epoch else f"epoch {step.epoch:<4} "
            self._epoch = step.epoch
            self._draw(f"{lead}■")
        elif step.kind == FINALISED:
            self._draw(f"epoch {step.epoch:<4} is final: block 0x{step.root.hex()[:16]}…\n")
        else:
            self._draw(f"  {step.kind}\n")

    def _draw(self, text: str) -> None:
        if not self._terminal.as_json:
            self._terminal.err.write(text)


def format_time(seconds: int) -> str:
    """A Unix time for people, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
