"""`anchor export`: a ledger's backup in one file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from anchor.cli.ledgers import add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, format_bytes, printable

HELP = """\
Write a ledger's backup to one file: every block and manifest, and the keys,
encrypted as they are. It can be made while the ledger is in use."""
EXAMPLES = """
anchor export -o ledger-2026-07-01.backup
anchor export --ledger ledger/ -o /mnt/backup/ledger.backup
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger_option(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="never overwritten")


def run(options: Namespace, _terminal: Terminal) -> Outcome:
    """Writes the file whole, or not at all."""
    from anchor.node.backup import export_ledger

    size = export_ledger(get_folder(options), Path(options.output))
    text = (
        f"Wrote {printable(options.output)}, {format_bytes(size)}. Bring it back with: anchor import\n"
        "Its keys stay encrypted under the ledger's passphrase; keep that elsewhere."
    )
    return Outcome(text, {"file": options.output, "bytes": size})
