"""What the commands on a ledger share: where it is, who speaks, what is seen while blocks are made."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from anchor.cli.output import Terminal, printable
from anchor.cli.secrets import ROOT, SIGNING, read_key, read_key_passphrase, read_passphrase

if TYPE_CHECKING:
    from anchor.cli.recording import AtNode, Recorder
    from anchor.consensus.containers.phase0 import Checkpoint
    from anchor.node.keys import KeyFile
    from anchor.node.postgresql import Url
    from anchor.node.production import Step
    from anchor.node.publishing import Author, Standing

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


def add_place_options(parser: ArgumentParser) -> None:
    """Which ledger, here or at a node."""
    add_ledger_option(parser)
    add_node_options(parser)


def add_node_options(parser: ArgumentParser) -> None:
    """A ledger that a node serves."""
    parser.add_argument("--node", metavar="URL", help="a node that serves the ledger, instead of its folder")
    parser.add_argument(
        "--trust", metavar="ROOT:EPOCH", help="with --node: a checkpoint that you trust, or its name"
    )


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
    if getattr(options, "node", None):
        return f" --node {printable(quote(options.node))} --trust {printable(quote(options.trust))}"
    return f" --ledger {printable(quote(options.ledger))}" if options.ledger else ""


def compose_bundle(
    options: Namespace, name: str, trusted: Checkpoint, *, place: str = "", joint: str = " "
) -> str:
    """The command that gives a version's bundle as it stands now."""
    from anchor.consensus.text import format_checkpoint

    checkpoint, name = format_checkpoint(trusted), printable(name)
    if getattr(options, "node", None):
        url = printable(quote(options.node))
        return f"anchor verify PATH --model {name} --url {url}{joint}--trust {checkpoint}"
    command = f"anchor bundle {name}{joint}--for {checkpoint}{repeat_ledger(options)}"
    return f"{command} -o {quote(place)}" if place else command


def get_folder(options: Namespace) -> Path:
    """The folder that the options name, or the environment."""
    return Path(options.ledger or os.environ.get(VARIABLE) or DEFAULT)


def unlock(
    options: Namespace, terminal: Terminal, *, key: str | None = None, root: str | None = None
) -> tuple[Recorder, Author]:
    """The ledger, to be written to, and the publisher with the keys in the files `key` and `root`.

    Opening a secret takes a while, by design: all are opened at once.
    """
    from concurrent.futures import ThreadPoolExecutor

    from anchor.cli.recording import InFolder
    from anchor.consensus.text import parse_identity
    from anchor.node.folder import unlock_seed
    from anchor.node.keys import decrypt_secret, derive_root_key, derive_signing_keys
    from anchor.node.publishing import Author

    files, remote, folder = _read_keys(key, root), open_node(options, terminal), get_folder(options)
    passphrase = "" if remote else read_passphrase(options.passphrase_file, f"the ledger in {folder}")
    spoken = {path: read_key_passphrase(options, path, file.kind) for path, file in files.items()}
    with ThreadPoolExecutor(1 + len(files)) as pool:
        seed = None if remote else pool.submit(unlock_seed, folder, passphrase)
        secrets = {
            file.kind: pool.submit(decrypt_secret, file, spoken[path], path) for path, file in files.items()
        }
    # The ledger's passphrase is the one to complain about first.
    ledger = InFolder(folder, seed.result(), terminal) if seed else remote
    (identity, *_) = [file.identity for file in files.values()]
    author = Author(
        identity=parse_identity(identity),
        signing=derive_signing_keys(secrets[SIGNING].result(), files[key].schemes) if key else (),
        root=derive_root_key(secrets[ROOT].result()) if root else None,
    )
    return ledger, author  # type: ignore[return-value]  # one of the two is there


def open_node(options: Namespace, terminal: Terminal) -> AtNode | None:
    """The ledger at the node that the options name; None for one in a folder.

    Raises Misuse without a checkpoint that is trusted: it says which network entries are signed for.
    """
    if options.node is None:
        return None
    from anchor.bundle.trust import resolve_trust
    from anchor.cli.recording import AtNode
    from anchor.errors import Misuse
    from anchor.node.clock import SystemClock
    from anchor.node.remote import Remote

    if getattr(options, "ledger", None) is not None or options.trust is None:
        raise Misuse("--node takes --trust, and no --ledger.", fix="Name a checkpoint that you trust.")
    trust = resolve_trust(options.trust)
    return AtNode(Remote(options.node, trust.checkpoint, trust.network_id, SystemClock()), terminal)


@contextmanager
def look(options: Namespace, terminal: Terminal) -> Iterator[Standing]:
    """The ledger that the options name, as it is now."""
    from anchor.node.folder import open_reader

    remote = open_node(options, terminal)
    with nullcontext(remote.remote.look()) if remote else open_reader(get_folder(options)) as chain:
        yield chain


def _read_keys(key: str | None, root: str | None) -> dict[str, KeyFile]:
    """The key files of one publisher, by their paths. Raises Misuse when they are of two."""
    from anchor.errors import Misuse

    files = {path: read_key(path, kind) for path, kind in ((key, SIGNING), (root, ROOT)) if path}
    if len({file.identity for file in files.values()}) > 1:
        raise Misuse(f"{key} and {root} are keys of different publishers.", fix="Name two of one publisher.")
    return files


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
