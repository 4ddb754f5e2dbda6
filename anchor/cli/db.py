"""`anchor db`: whether a ledger's store is still what was written to it, and a new one where it is not."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anchor.cli.actions import Takes, add_action, require_action
from anchor.cli.ledgers import add_ledger_option, add_store_option, get_folder, get_url
from anchor.cli.output import Outcome, Terminal, format_count, printable
from anchor.errors import Misuse

if TYPE_CHECKING:
    from anchor.node.network.rebuilding import Rebuilt

HELP = """\
check    derive every root in a ledger's store anew, from what is stored: blocks
         follow each other, replayed they lead to the states that they name,
         entries and manifests are theirs. A node may go on meanwhile. Status 1
         when anything is damaged; the first damage is shown.
rebuild  begin the store of a network's node anew, at the newest final block
         that the old one still tells of, or at --trust, from what another node
         gives; older blocks come from peers when the node runs. Where no node
         can be reached, make it anew from a backup of one (anchor export).
         Keys, and the record of what they signed, stay; the old store is set
         aside.
"""
EXAMPLES = """
anchor db check --ledger ledger/
anchor db check --ledger ledger/ --json
anchor db rebuild --ledger net/ --from https://node.example:8960
anchor db rebuild --ledger net/ --from net.backup
"""
ACTIONS: Final = {"check": Takes(), "rebuild": Takes((), ("source",), ("trust", "store"))}


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_action(parser, ACTIONS)
    add_ledger_option(parser)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="URL|FILE",
        help="a node of the same network, or a backup of one; neither need be trusted",
    )
    parser.add_argument("--trust", metavar="ROOT:EPOCH|NAME", help="the checkpoint to begin at")
    add_store_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Looks at the store, or makes it anew."""
    require_action("db", options, ACTIONS, {"source", "trust", "store"})
    return (_check if options.action == "check" else _rebuild)(options, terminal)


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


def _rebuild(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.consensus.text import format_checkpoint

    is_backup = "://" not in options.source
    rebuilt = _read_backup(options, terminal) if is_backup else _ask_node(options)
    result = {"checkpoint": format_checkpoint(rebuilt.trusted), "old": rebuilt.aside}
    folder, aside = printable(str(get_folder(options))), printable(rebuilt.aside)
    words = (
        (f"leads to {result['checkpoint']}, which is final", "newer")
        if is_backup
        else (f"begins anew at {result['checkpoint']}", "older")
    )
    text = (
        f"The store of {folder} {words[0]}.\n"
        f"The old one is {aside}. Start the node: what is {words[1]} comes from its peers."
    )
    return Outcome(text, result)


def _ask_node(options: Namespace) -> Rebuilt:
    import asyncio
    import time

    from anchor.bundle.trust import resolve_trust
    from anchor.node.network.rebuilding import rebuild_store
    from anchor.node.network.urls import parse_url

    folder, url = get_folder(options), parse_url(options.source)
    trusted = None if options.trust is None else resolve_trust(options.trust).checkpoint
    return asyncio.run(rebuild_store(folder, url, trusted, time.time(), get_url(options)))


def _read_backup(options: Namespace, terminal: Terminal) -> Rebuilt:
    from anchor.files import told_plainly
    from anchor.node.clock import SystemClock
    from anchor.node.network.rebuilding import rebuild_from_backup

    path, now = Path(options.source), SystemClock().now()
    if options.trust is not None:
        raise Misuse(
            "A backup begins at its network's genesis: it takes no checkpoint.", fix="Leave out --trust."
        )
    with told_plainly(path, "read"):
        size = path.stat().st_size
    with terminal.progress("checking", size) as progress:
        return rebuild_from_backup(get_folder(options), path, now, get_url(options), progress)
