"""`anchor devnet`: a network of real processes on this machine, to try things on."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anchor.cli.output import Outcome, Terminal, format_table, printable
from anchor.errors import Misuse

if TYPE_CHECKING:
    from anchor.node.devnet.control import Control

HELP = """\
Run a network of several nodes on this machine, as real processes on loopback: cut it
in two, kill nodes, set clocks wrong, make a validator lie, and see what finality does.
It survives being stopped: its clock stops with it.
"""
EXAMPLES = """
anchor devnet up --nodes 4 --validators 64
anchor devnet status
anchor devnet partition 1,2/3,4
anchor devnet heal
anchor devnet run devnet/scenarios/partition.yaml
anchor devnet stop
"""
FOLDER: Final = "anchor-devnet"
TAKES: Final = {
    "up": "",
    "status": "",
    "stop": "",
    "logs": "N",
    "kill": "N",
    "start": "N",
    "partition": "1,2/3,4",
    "heal": "",
    "equivocate": "N",
    "skew": "N 3s",
    "join": "",
    "run": "FILE",
}
"""What each action takes."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    listing = ", ".join([f"{action} {takes}".strip() for action, takes in TAKES.items()])
    parser.add_argument("action", choices=list(TAKES), metavar="ACTION", help=listing)
    parser.add_argument("values", nargs="*", metavar="VALUE", help="what the action takes")
    parser.add_argument("--folder", default=FOLDER, metavar="DIR", help="the devnet's (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=4, metavar="N", help="for up (default: %(default)s)")
    parser.add_argument(
        "--validators", type=int, default=64, metavar="N", help="of all nodes together (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds-per-slot", type=int, default=1, metavar="N", help="eight slots are an epoch (default: 1)"
    )
    parser.add_argument("--last", type=int, default=20, metavar="N", help="lines of a log (default: 20)")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Does one thing to a devnet."""
    takes = len(TAKES[options.action].split())
    if len(options.values) != takes:
        wanted = TAKES[options.action] or "nothing more"
        raise Misuse(f"`anchor devnet {options.action}` takes {wanted}.", fix="See: anchor devnet --help")
    return ACTIONS[options.action](options, terminal)
