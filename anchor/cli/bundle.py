"""`anchor bundle`: the evidence for a published version, in one file."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from anchor.cli.ledgers import add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, format_bytes, printable
from anchor.errors import Misuse

HELP = """\
Make the bundle of a published version for a checkpoint that its readers trust.

The checkpoint may be older than the publication or newer. Whoever makes a
bundle need not be trusted: its verifier checks all of it.
"""
EXAMPLES = """
anchor bundle acme/tiny@1.0 --for 0x…:0 --ledger ledger/ -o model/model.anchor
anchor bundle --show model/model.anchor
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("model", nargs="?", metavar="MODEL@VERSION", help="a published version")
    parser.add_argument("--for", dest="trusted", metavar="ROOT:EPOCH", help="the checkpoint that is trusted")
    add_ledger_option(parser)
    parser.add_argument("-o", "--output", metavar="FILE", default="model.anchor", help="default: %(default)s")
    parser.add_argument("--show", metavar="FILE", help="print a bundle as JSON, unverified")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Makes a bundle, or shows one."""
    if options.show is None:
        return _make(options)
    if options.model or options.trusted or options.ledger:
        raise Misuse("--show prints a bundle, and takes nothing else.")
    return _show(Path(options.show))


def _make(options: Namespace) -> Outcome:
    from anchor.bundle.build import build_bundle
    from anchor.consensus.text import parse_checkpoint
    from anchor.files import write_over
    from anchor.node.folder import open_reader

    model, at, version = (options.model or "").partition("@")
    if not (model and at and version and options.trusted):
        raise Misuse(
            "A bundle is of one published version, for one trusted checkpoint.",
            fix="Give MODEL@VERSION and --for ROOT:EPOCH; see: anchor bundle --help",
        )
    trusted = parse_checkpoint(options.trusted)
    with open_reader(get_folder(options)) as chain:
        data = build_bundle(chain, model, version, trusted)
    write_over(Path(options.output), data)
    text = f"Wrote {printable(options.output)}: {format_bytes(len(data))}, for {options.trusted}."
    return Outcome(text, {"file": options.output, "bytes": len(data), "trusted": options.trusted})


def _show(file: Path) -> Outcome:
    from anchor.bundle.api import read_bundle
    from anchor.bundle.show import show_bundle

    plain = show_bundle(read_bundle(file))
    return Outcome(json.dumps(plain, indent=2), plain)
