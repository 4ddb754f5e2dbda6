"""`anchor promote`: a version moves to another stage."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anchor.cli.ledgers import add_place_options, compose_bundle, unlock
from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.secrets import add_key_options
from anchor.params import STAGES

HELP = """\
Move a version to another stage: development, staging, production, archived.
Up by one stage at a time, down or into the archive at any; there is no way out
of the archive. What the model's policy wants approved needs its approvals."""
EXAMPLES = """
anchor promote acme/tiny@1.0 --to staging --key alice.key
anchor promote acme/tiny@1.0 --to archived --key alice.key --ledger ledger/
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("name", metavar="MODEL@VERSION", help="a published version")
    parser.add_argument(
        "--to", metavar="STAGE", choices=STAGES, required=True, help="the stage that it moves to"
    )
    add_key_options(parser)
    add_place_options(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Records the change, and waits until it is final."""
    from anchor.consensus.text import format_checkpoint, get_stage_name
    from anchor.node.publishing import write_promotion

    stage = STAGES[options.to]
    ledger, author = unlock(options, terminal, key=options.key)
    said = ledger.record(lambda chain: [write_promotion(chain, author, options.name, stage)])
    model, _, version = options.name.partition("@")
    result = {
        "model": model,
        "version": version,
        "from_stage": get_stage_name(said.entries[0].entry.body.data.from_stage),
        "to_stage": options.to,
        "entry": said.positions[0],
        "final": format_checkpoint(said.final),
    }
    name = terminal.paint(printable(options.name), "bold")
    command = compose_bundle(options, options.name, said.trusted, joint=" \\\n    ")
    text = (
        f"{name} moved from {result['from_stage']} to {options.to}; that is final.\n"
        f"Bundles made before do not show it. Make one that does with:\n\n"
        f"  {command}"
    )
    return Outcome(text, result)
