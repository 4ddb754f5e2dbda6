"""What the commands on a ledger share: where it is, who speaks, what is seen while blocks are made."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from anchor.cli.output import Terminal, printable
from anchor.cli.secrets import ROOT, SIGNING, read_key, read_key_passphrase, read_passphrase

if TYPE_CHECKING:
    from anchor.consensus.containers.entries import SignedEntry
    from anchor.consensus.containers.phase0 import Checkpoint
    from anchor.node.chain import Chain, State
    from anchor.node.keys import KeyFile
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
    parser.add_argument("--last", type=parse_count, default=default, metavar="N", help=text)


def parse_count(text: str) -> int:
    """One or more."""
    if not parse_position(text):
        raise ArgumentTypeError(f"{text!r} is no number of one or more")
    return int(text)


def parse_position(text: str) -> int:
    """Zero or more."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10):
        raise ArgumentTypeError(f"{text!r} is no number of zero or more")
    return int(text)


def repeat_ledger(options: Namespace) -> str:
    """The words that name the same ledger in a command that is suggested."""
    return f" --ledger {printable(quote(options.ledger))}" if options.ledger else ""


def get_folder(options: Namespace) -> Path:
    """The folder that the options name, or the environment."""
    return Path(options.ledger or os.environ.get(VARIABLE) or DEFAULT)


def unlock(
    options: Namespace, folder: Path, *, key: str | None = None, root: str | None = None
) -> tuple[bytes, Author]:
    """The committee's seed, and the publisher with the keys in the files `key` and `root`.

    Opening a secret takes a while, by design: all are opened at once.
    """
    from concurrent.futures import ThreadPoolExecutor

    from anchor.consensus.text import parse_identity
    from anchor.node.folder import unlock_seed
    from anchor.node.keys import decrypt_secret, derive_root_key, derive_signing_keys
    from anchor.node.publishing import Author

    files = _read_keys(key, root)
    passphrase = read_passphrase(options.passphrase_file, f"the ledger in {folder}")
    spoken = {path: read_key_passphrase(options, path, file.kind) for path, file in files.items()}
    with ThreadPoolExecutor(1 + len(files)) as pool:
        seed = pool.submit(unlock_seed, folder, passphrase)
        secrets = {
            file.kind: pool.submit(decrypt_secret, file, spoken[path], path) for path, file in files.items()
        }
    opened = seed.result()  # the ledger's passphrase is the one to complain about first
    (identity, *_) = [file.identity for file in files.values()]
    author = Author(
        identity=parse_identity(identity),
        signing=derive_signing_keys(secrets[SIGNING].result(), files[key].schemes) if key else (),
        root=derive_root_key(secrets[ROOT].result()) if root else None,
    )
    return opened, author


def _read_keys(key: str | None, root: str | None) -> dict[str, KeyFile]:
    """The key files of one publisher, by their paths. Raises Misuse when they are of two."""
    from anchor.errors import Misuse

    files = {path: read_key(path, kind) for path, kind in ((key, SIGNING), (root, ROOT)) if path}
    if len({file.identity for file in files.values()}) > 1:
        raise Misuse(f"{key} and {root} are keys of different publishers.", fix="Name two of one publisher.")
    return files


class Said(NamedTuple):
    """Entries that are final, and how the ledger stands with them."""

    entries: Sequence[SignedEntry]
    positions: tuple[int, ...]
    """Of the entries in the ledger's list."""
    final: Checkpoint
    """Its state holds the entries."""
    genesis: Checkpoint
    state: State


def record(
    folder: Path, seed: bytes, terminal: Terminal, write: Callable[[Chain], Sequence[SignedEntry]]
) -> Said:
    """Records what `write` has to say to the ledger as it stands, and waits until it is final."""
    from anchor.node.clock import SystemClock
    from anchor.node.folder import open_writer

    with open_writer(folder, seed, SystemClock(), on_wait=terminal.note) as service:
        service.finish(Watch(terminal))
        entries = write(service.chain)
        recorded = service.record(entries, watch=Watch(terminal))
        chain = service.chain
        return Said(
            entries,
            recorded.positions,
            recorded.checkpoint,
            chain.get_checkpoint(0),
            chain.get_head().state,
        )


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
