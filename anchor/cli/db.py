"""`anchor db`: whether a ledger's store is still what was written to it, and a new one where it is not."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any, Final

from anchor.cli.actions import Takes, add_action, require_action
from anchor.cli.ledgers import add_ledger_option, add_store_option, get_folder, get_url
from anchor.cli.output import Outcome, Terminal, format_count, printable

HELP = """\
check    derive every root in a ledger's store anew, from what is stored: blocks
         follow each other, replayed they lead to the states that they name,
         entries and manifests are theirs. A node may go on meanwhile. Status 1
         when anything is damaged; the first damage is shown.
rebuild  begin the store of a network's node anew, at the newest final block
         that the old one still tells of, or at --trust, from what another node
         gives; older blocks come from peers when the node runs. Keys, and the
         record of what they signed, stay; the old store is set aside.
"""
EXAMPLES = """
anchor db check --ledger ledger/
anchor db check --ledger ledger/ --json
anchor db rebuild --ledger net/ --from https://node.example:8960
"""
ACTIONS: Final = {"check": Takes(), "rebuild": Takes((), ("source",), ("trust", "store"))}


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_action(parser, ACTIONS)
    add_ledger_option(parser)
    parser.add_argument(
        "--from", dest="source", metavar="URL", help="a node of the same network; it need not be trusted"
    )
    parser.add_argument("--trust", metavar="ROOT:EPOCH|NAME", help="the checkpoint to begin at")
    add_store_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Looks at the store, or makes it anew."""
    require_action("db", options, ACTIONS, {"source", "trust", "store"})
    return _check(options, terminal) if options.action == "check" else _rebuild(options)


def _check(options: Namespace, terminal: Terminal) -> Outcome:
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


def _rebuild(options: Namespace) -> Outcome:
    import asyncio
    import time

    from anchor.bundle.trust import resolve_trust
    from anchor.consensus.text import format_checkpoint
    from anchor.node.network.rebuilding import rebuild_store
    from anchor.node.network.urls import parse_url

    folder, url = get_folder(options), parse_url(options.source)
    trusted = None if options.trust is None else resolve_trust(options.trust).checkpoint
    rebuilt = asyncio.run(rebuild_store(folder, url, trusted, time.time(), get_url(options)))
    result = {"checkpoint": format_checkpoint(rebuilt.trusted), "old": rebuilt.aside}
    text = (
        f"The store of {printable(str(folder))} begins anew at {result['checkpoint']}.\n"
        f"The old one is {printable(rebuilt.aside)}. Start the node: what is older comes from its peers."
    )
    return Outcome(text, result)
