"""The command line: finds the command, runs it, prints its outcome in words or as one JSON envelope.

Exit codes (rule 6): 0 verified or done; 1 differs or refused; 2 usage; 3 unavailable; 4 incomplete;
5 qualified. A command is a module of this package with HELP, EXAMPLES, `add_arguments` and `run`.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from importlib import import_module
from typing import Any, NoReturn

from anchor import __version__
from anchor.cli.output import Outcome, Terminal, printable
from anchor.errors import AnchorError, Misuse
from anchor.files import explain

COMMANDS = {
    "hash": "hash a checkpoint: the roots of its weights and of its files",
    "inspect": "show what a checkpoint holds, and whether training could resume",
    "diff": "compare two checkpoints, tensor by tensor and file by file",
    "verify": "check a model against its bundle, offline",
    "trust": "keep the checkpoints, networks and publishers that you trust",
    "checkpoint": "show the checkpoints in the code, and propose the next one",
    "bundle": "make the bundle of a published model for a trusted checkpoint",
    "init": "start an embedded ledger: one operator, one folder, no server",
    "keygen": "make a publisher's keys, encrypted",
    "keys": "register, rotate and revoke who may sign in a publisher's name",
    "publish": "publish a checkpoint on a ledger and wait until it is final",
    "status": "show a ledger's finality and its newest models",
    "log": "list what was published, approved, promoted and revoked",
    "policy": "show or set who must approve before a model's versions move up",
    "approve": "approve that a version moves up",
    "promote": "move a version to another stage",
    "revoke": "withdraw a version, for good",
    "node": "serve a ledger over HTTP, and take entries",
    "network": "found a network of several operators, and join it",
    "validator": "make keys that vote, and keep the record of what they signed",
    "devnet": "run a network on this machine, and try what it survives",
    "doctor": "check clock, port, disk, keys, native code, store and peers",
    "db": "check a ledger's store; make a network's anew",
    "export": "write a ledger's backup to one file",
    "import": "bring a ledger back from its backup",
    "sync": "sync a beacon chain from a checkpoint, follow it, serve it",
    "bitcoin": "check Bitcoin headers: the rules, the checkpoints in the code",
    "vectors": "run the consensus specification's test vectors",
    "completion": "print a completion script for your shell",
}
DESCRIPTION = """\
Check, offline, that a machine-learning model is exactly the one that was
published, and that a network agreed on it.
"""
EPILOG = """\
example:
  anchor verify model/ --trust 0x…:12 --model org/name --publisher ed25519:…

`anchor COMMAND --help` tells more, with examples.
"""


class _Parser(ArgumentParser):
    """Raises Misuse instead of exiting, so that --json holds for wrong usage too."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message[:1].upper()}{message[1:]}.", fix=f"See: {self.prog} --help")


class _Formatter(RawDescriptionHelpFormatter):
    """Help of at most 80 columns."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=_get_width())


def _get_width() -> int:
    """As `shutil.get_terminal_size`, which imports compressors."""
    try:
        return min(int(os.environ.get("COLUMNS") or os.get_terminal_size().columns), 80)
    except (ValueError, OSError):
        return 80


def build_parser(command: str | None = None) -> ArgumentParser:
    """The parser of `command` alone, or of the program when None. Only the command's module is imported."""
    if command is None:
        return _build_program_parser()
    module = load_command(command)
    parser = _Parser(
        prog=f"anchor {command}",
        description=module.HELP,
        epilog=f"examples:\n{_indent(module.EXAMPLES)}",
        formatter_class=_Formatter,
    )
    module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON envelope instead of words")
    parser.add_argument("--no-color", action="store_true", help="no colour, also on a terminal")
    parser.add_argument("--debug", action="store_true", help=SUPPRESS)
    return parser


def _build_program_parser() -> ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join([f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()])
    parser = _Parser(
        prog="anchor",
        description=f"{DESCRIPTION}\ncommands:\n{listing}",
        epilog=EPILOG,
        usage="anchor COMMAND [options]",
        formatter_class=_Formatter,
    )
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=SUPPRESS)
    parser.add_argument("--version", action="store_true", help="print the version and the code paths in use")
    parser.add_argument("--json", action="store_true", help="print one JSON envelope instead of words")
    return parser


def load_command(name: str) -> Any:
    """The module of a command. Raises Misuse for an unknown one."""
    if name not in COMMANDS:
        raise Misuse(f"There is no command {printable(name)!r}.", fix="See: anchor --help")
    return import_module(f"anchor.cli.{name}_" if name == "import" else f"anchor.cli.{name}")


def main(argv: list[str] | None = None) -> int:
    """Runs the command line `argv` (the process's own when None). Returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    command = arguments[0] if arguments and not arguments[0].startswith("-") else None
    terminal = Terminal(as_json="--json" in arguments, color="--no-color" not in arguments)
    try:
        return terminal.show(command, _run(command, arguments, terminal))
    except AnchorError as error:
        if "--debug" in arguments:
            raise
        return terminal.show_error(command, error)
    except OSError as error:  # of a name that was given: too long, or in a folder that is not ours
        if "--debug" in arguments:
            raise
        return terminal.show_error(command, explain(error))
    except KeyboardInterrupt:
        return terminal.show_interrupt()


def _run(command: str | None, arguments: list[str], terminal: Terminal) -> Outcome:
    if command is not None:
        options = build_parser(command).parse_intermixed_args(arguments[1:])
        outcome: Outcome = load_command(command).run(options, terminal)
        return outcome
    parser = build_parser()
    options = parser.parse_args(arguments)
    return _show_version() if options.version else _show_help(parser)


def _show_help(parser: ArgumentParser) -> Outcome:
    return Outcome(text=parser.format_help().rstrip(), result={"commands": COMMANDS}, status=2)


def _show_version() -> Outcome:
    from anchor.consensus.bls import get_backend_name
    from anchor.merkle.hashing import BACKEND

    paths = {"hashing": BACKEND, "signatures": get_backend_name()}
    listing = ", ".join([f"{what}: {path}" for what, path in paths.items()])
    return Outcome(text=f"anchor {__version__} ({listing})", result={"version": __version__, **paths})


def _indent(text: str) -> str:
    return "\n".join([f"  {line}" for line in text.strip().splitlines()])


if __name__ == "__main__":
    sys.exit(main())
