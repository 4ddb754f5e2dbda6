"""`anchor trust`: the user's own list of trusted checkpoints, networks and publishers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from anchor.bundle.trust import (
    ONE_OPERATOR,
    Trust,
    add_trust,
    get_store_path,
    load_store,
    read_network_id,
    remove_trust,
    to_json,
)
from anchor.cli.output import Outcome, Terminal, printable
from anchor.consensus.text import parse_checkpoint, parse_identity
from anchor.errors import Misuse

HELP = """\
Keep the checkpoints that you trust under names, with what you know of their
networks.

Take a checkpoint over a channel of its own, and compare it between sources:
whoever chooses it for you can show you another history.
"""
EXAMPLES = """
anchor trust add lab 0x…:12 --publisher acme=ed25519:…
anchor trust add lab 0x…:12 --operator 'three universities' \\
  --network network.json
anchor trust list
anchor trust remove lab
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("action", choices=["add", "list", "remove"], help="add replaces what had that name")
    parser.add_argument("name", nargs="?", help="what to call the checkpoint")
    parser.add_argument("checkpoint", nargs="?", metavar="ROOT:EPOCH", help="the checkpoint to add")
    parser.add_argument(
        "--publisher",
        metavar="ORG=KEY",
        action="append",
        default=[],
        help="who may publish models named ORG/…; repeatable",
    )
    parser.add_argument("--operator", metavar="WORDS", help=f"who runs the network; else {ONE_OPERATOR!r}")
    parser.add_argument("--network", metavar="FILE", help="the network's description: network.json")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Reads or changes the store."""
    return {"add": _add, "list": _list, "remove": _remove}[options.action](options)


def _add(options: Namespace) -> Outcome:
    if options.name is None or options.checkpoint is None:
        raise Misuse("To add a checkpoint takes a name and root:epoch.", fix="See: anchor trust --help")
    trust = Trust(
        checkpoint=parse_checkpoint(options.checkpoint),
        name=options.name,
        network_id=None if options.network is None else read_network_id(Path(options.network)),
        operator=options.operator or ONE_OPERATOR,
        publishers=dict(_parse_pin(pin) for pin in options.publisher),
    )
    add_trust(get_store_path(), trust)
    return Outcome(f"{trust.name} is in your trust store, {get_store_path()}.", {trust.name: to_json(trust)})


def _list(options: Namespace) -> Outcome:
    _refuse_more(options, options.name)
    known = load_store(get_store_path())
    text = "\n\n".join([_describe(trust) for trust in known.values()])
    return Outcome(text or "Your trust store is empty.", {name: to_json(t) for name, t in known.items()})


def _remove(options: Namespace) -> Outcome:
    _refuse_more(options, options.checkpoint)
    if options.name is None:
        raise Misuse("To remove a checkpoint takes its name.", fix="See: anchor trust list")
    remove_trust(get_store_path(), options.name)
    return Outcome(f"{printable(options.name)} is no longer in your trust store.", {"removed": options.name})


def _refuse_more(options: Namespace, extra: Any) -> None:
    if extra is not None or options.publisher or options.operator or options.network:
        raise Misuse(
            f"`anchor trust {options.action}` takes no more than that.", fix="See: anchor trust --help"
        )


def _parse_pin(text: str) -> tuple[str, bytes]:
    organisation, _, key = text.partition("=")
    if not key:
        raise Misuse(f"{text!r} pins nothing.", fix="Write ORG=KEY, as in acme=ed25519:…")
    return organisation, parse_identity(key)


def _describe(trust: Trust) -> str:
    plain = to_json(trust)
    lines = [trust.name, f"  checkpoint  {plain['checkpoint']}", f"  operator    {printable(trust.operator)}"]
    if plain["network_id"]:
        lines.append(f"  network     {plain['network_id']}")
    lines += [f"  publisher   {name} = {key}" for name, key in plain["publishers"].items()]
    return "\n".join(lines)
