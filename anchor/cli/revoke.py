"""`anchor revoke`: a version is withdrawn, for good."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anchor.cli.ledgers import add_place_options, unlock
from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.secrets import add_key_options

HELP = "Withdraw a version, for good: no bundle made from now on verifies."
EXAMPLES = """
anchor revoke acme/tiny@1.0 --reason mislabelled --key alice.key
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("name", metavar="MODEL@VERSION", help="a published version")
    parser.add_argument("--reason", default="", help="why, for everyone to read")
    add_key_options(parser)
    add_place_options(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Records the withdrawal, and waits until it is final."""
    from anchor.consensus.text import format_checkpoint
    from anchor.node.publishing import write_revocation

    ledger, author = unlock(options, terminal, key=options.key)
    said = ledger.record(lambda chain: [write_revocation(chain, author, options.name, options.reason)])
    model, _, version = options.name.partition("@")
    result = {
        "model": model,
        "version": version,
        "reason": options.reason,
        "entry": said.positions[0],
        "final": format_checkpoint(said.final),
    }
    text = (
        f"{terminal.paint(printable(options.name), 'bold')} is revoked; that is final.\n"
        "Bundles made before do not show it. Hand out the new checkpoint, which does:\n\n"
        f"  {result['final']}"
    )
    return Outcome(text, result)
