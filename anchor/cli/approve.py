"""`anchor approve`: an approver's consent to a promotion."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from anchor.cli.ledgers import add_place_options, repeat_ledger, unlock
from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.plain import show_approvals
from anchor.cli.secrets import add_key_options
from anchor.params import STAGES

HELP = """\
Approve that a version moves up to the next stage, as its model's policy wants.
An approval is for this version, this manifest and this one move."""
EXAMPLES = """
anchor approve acme/tiny@1.0 --to production --key bob.key
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("name", metavar="MODEL@VERSION", help="a published version")
    parser.add_argument(
        "--to", metavar="STAGE", choices=STAGES, required=True, help="the stage that it may move to"
    )
    add_key_options(parser)
    add_place_options(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Records the approval, and waits until it is final."""
    from anchor.consensus.text import format_checkpoint
    from anchor.node.publishing import get_version, write_approval

    stage = STAGES[options.to]
    ledger, author = unlock(options, terminal, key=options.key)
    said = ledger.record(lambda chain: [write_approval(chain, author, options.name, stage)])
    model, _, version = options.name.partition("@")
    result = {
        "model": model,
        "version": version,
        "to_stage": options.to,
        "entry": said.positions[0],
        "final": format_checkpoint(said.final),
        **show_approvals(said.state, get_version(said.state, options.name)),
    }
    return Outcome(_describe(options, result, terminal), result)


def _describe(options: Namespace, result: dict[str, Any], terminal: Terminal) -> str:
    name, count, needed = printable(options.name), len(result["approved_by"]), result["approvals_needed"]
    first = (
        f"{terminal.paint(name, 'bold')} has {count} of the {needed} approvals that it needs to move to "
        f"{options.to}; that is final."
    )
    if count < needed:
        return "\n".join([first, "Not yet approved by:", "", *[f"  {key}" for key in result["not_yet_by"]]])
    return (
        f"{first}\nIts publisher moves it with:\n\n"
        f"  anchor promote {name} --to {options.to}{repeat_ledger(options)} --key FILE"
    )
