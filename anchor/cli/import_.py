"""`anchor import`: a ledger comes back from its backup."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from anchor.cli.ledgers import add_store_option, get_url
from anchor.cli.output import Outcome, Terminal, printable

if TYPE_CHECKING:
    from anchor.node.status import Status

HELP = """\
Bring a ledger back from its backup; every block is checked anew.
The copy only reads, as long as the original may be in use: two that sign for
one committee would contradict each other. With --take-over it goes on signing.
A network's node is another one when it comes back; nothing in its backup signs."""
EXAMPLES = """
anchor import ledger.backup restored/
anchor import ledger.backup ledger/ --take-over
"""
COPY = """\
It only reads. When the original is gone for good and has published nothing since
this backup, import it once more with --take-over."""
SUCCESSOR = """\
It goes on signing. Never use the original again: if it has published anything
since this backup, the two contradict each other, and anyone can prove it."""
PEER = """\
It is another node of its network, beside the original. Its validators sign where
their keystores and the record of what they signed are, and nowhere else:

  anchor node --ledger FOLDER --keystores DIR --peer URL …"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", help="a backup (anchor export)")
    parser.add_argument("folder", help="a folder that does not exist yet, or is empty")
    add_store_option(parser)
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="the original is gone, and published nothing since: this one signs from now on",
    )


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Makes the folder whole, or not at all."""
    from anchor.files import told_plainly
    from anchor.node.backup import import_ledger
    from anchor.node.clock import SystemClock

    path, folder = Path(options.file), Path(options.folder)
    with told_plainly(path, "read"):
        size = path.stat().st_size
    with terminal.progress("checking", size) as progress:
        status = import_ledger(
            path,
            folder,
            take_over=options.take_over,
            now=SystemClock().now(),
            progress=progress,
            url=get_url(options),
        )
    return _describe(folder, status, terminal)


def _describe(folder: Path, status: Status, terminal: Terminal) -> Outcome:
    """What came back, and what it may do."""
    from anchor.consensus.text import format_checkpoint
    from anchor.node.folder import KEYS

    is_networked = not (folder / KEYS).exists()
    result = {
        "folder": str(folder),
        "name": status.name,
        "network_id": status.network_id,
        "genesis": format_checkpoint(status.genesis),
        "finalized": format_checkpoint(status.finalized),
        "entries": status.entries,
        "may_sign": status.may_sign,
        "is_networked": is_networked,
    }
    text = (
        f"The ledger {status.name!r} is back, in {printable(str(folder))}.\n\n"
        f"network  0x{status.network_id.hex()}\n"
        f"genesis  {result['genesis']}\n"
        f"final    {terminal.paint(str(result['finalized']), 'bold')}\n"
        f"entries  {status.entries}\n\n"
        f"{PEER if is_networked else SUCCESSOR if status.may_sign else COPY}"
    )
    return Outcome(text, result)
