"""`anchor export`: a ledger's backup in one file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from anchor.cli.ledgers import add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, format_bytes, printable

HELP = """\
Write a ledger's backup to one file: every block and manifest; of one operator's
the keys, encrypted as they are; of a network's node the entries that wait. It
can be made while the ledger is in use.

A network's backup holds no key: keep copies of keystores where no node runs.
What they signed is in their folder alone (anchor validator export), and a node
that comes back draws another identity. A node that prunes has no backup."""
EXAMPLES = """
anchor export -o ledger-2026-07-01.backup
anchor export --ledger ledger/ -o /mnt/backup/ledger.backup
"""
KEYS = "Its keys stay encrypted under the ledger's passphrase; keep that elsewhere."
NO_KEYS = """\
No validator's key is in it, nor what they signed: those stay in their folder.
See: anchor validator --help"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger_option(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="never overwritten")


def run(options: Namespace, _terminal: Terminal) -> Outcome:
    """Writes the file whole, or not at all."""
    from anchor.node.backup import export_ledger

    exported = export_ledger(get_folder(options), Path(options.output))
    text = (
        f"Wrote {printable(options.output)}, {format_bytes(exported.size)}. "
        "Bring it back with: anchor import\n"
        f"{KEYS if exported.has_keys else NO_KEYS}"
    )
    return Outcome(text, {"file": options.output, "bytes": exported.size, "has_keys": exported.has_keys})
