"""`anchor db`: whether a ledger's store is still what was written to it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from anchor.cli.ledgers import add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, format_count, printable

HELP = """\
check: derive every root in a ledger's store anew, from what is stored: blocks
follow each other, replayed they lead to the states that they name, entries and
manifests are theirs. A node may go on meanwhile. Status 1 when anything is
damaged; the first damage is shown, and what to do about it.
"""
EXAMPLES = """
anchor db check --ledger ledger/
anchor db check --ledger ledger/ --json
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("action", choices=["check"], help="what to do")
    add_ledger_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Looks at all of the store."""
    from anchor.node.checking import check_folder

    report = check_folder(get_folder(options), lambda total: terminal.progress("checking", total))
    result: dict[str, Any] = report._asdict()
    counts = [
        format_count(report.blocks, "block"),
        format_count(report.states, "kept state"),
        format_count(report.entries, "entry").replace("entrys", "entries"),
        format_count(report.manifests, "manifest"),
    ]
    if report.damage is None:
        lines = [f"Sound: {', '.join(counts)}."]
        if report.missing:
            lines.append(f"Not kept here: {format_count(report.missing, 'manifest')} of published versions.")
        return Outcome("\n".join(lines), result)
    result["damage"] = report.damage._asdict()
    text = (
        f"{terminal.paint('DAMAGED', 'red')}: {printable(report.damage.place)}\n"
        f"{printable(report.damage.what)}\n{printable(report.damage.fix)}"
    )
    return Outcome(text, result, 1)
