"""`anchor init`: a ledger of one operator in one folder."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from anchor.cli.ledgers import add_store_option, get_url
from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.secrets import add_passphrase_option, read_passphrase

HELP = """\
Start an embedded ledger: one operator, one folder, no server. What it records
is in a file in that folder; with --store, in a PostgreSQL database."""
EXAMPLES = """
anchor init ledger
anchor init /srv/models/ledger --name our-lab --passphrase-file secret.txt
anchor init ledger --store postgresql://anchor@db.lab/anchor
"""
PROOF = """\
What it proves: that this operator keeps one history, complete and in order, of
what was published, by whom and when; that nobody, the operator included, can
change an entry afterwards without being found out by whoever holds a later
checkpoint; and that a publisher's entry is the publisher's own.
What it does not prove: that independent parties agreed. One operator holds all
of the committee's keys, and could show another history to someone who has no
checkpoint yet. Hand the checkpoint above out by a channel of its own."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("folder", help="a folder that does not exist yet, or is empty")
    parser.add_argument("--name", help="what to call the ledger (default: the folder's name)")
    add_store_option(parser)
    add_passphrase_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Draws a network, and makes its folder whole or not at all."""
    from anchor.files import require_new_folder
    from anchor.node.clock import SystemClock
    from anchor.node.folder import create_ledger

    folder = Path(options.folder)
    require_new_folder(folder)
    name = options.name or folder.absolute().name
    passphrase = read_passphrase(options.passphrase_file, f"the ledger in {folder}", confirm=True)
    network = create_ledger(
        folder, name, passphrase, clock=SystemClock(), randomness=os.urandom, url=get_url(options)
    )
    text = (
        f"Started the ledger {name!r} in {printable(str(folder))}.\n\n"
        f"network     {network['network_id']}\n"
        f"checkpoint  {terminal.paint(network['genesis'], 'bold')}\n"
        f"committee   {network['validators']} validators, one operator\n\n"
        f"{PROOF}\n\n"
        "Back it up with: anchor export. The keys in it are encrypted; without their\n"
        "passphrase the ledger stays readable, and takes no new entry."
    )
    return Outcome(text, {"folder": str(folder), **network})
