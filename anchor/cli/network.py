"""`anchor network`: several operators found a network, and each starts a node's folder from its genesis."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anchor.cli.actions import Takes, add_action, require_action
from anchor.cli.ledgers import add_node_options, open_node, parse_count
from anchor.cli.output import Outcome, Terminal, format_table, printable
from anchor.cli.secrets import add_passphrase_option, unlock_administrator
from anchor.errors import Misuse

if TYPE_CHECKING:
    from anchor.node.founding import Draft, Founded

HELP = """\
Found a network of several operators, none of whom could write its history
alone. One of them drafts it; each makes keys for the draft (anchor validator
keygen) and hands over the deposits; of all deposits, one makes the genesis.

draft NAME               what is settled first: identity, clock, administrators
create DRAFT DEPOSITS …  the genesis; who else runs this, with the same --start,
                         gets the same: compare the network that is printed
join GENESIS FOLDER      a node's folder, at the genesis
register PUBLISHER …     an administrator lets publishers publish, at a --node
"""
EXAMPLES = """
anchor network draft lab --administrator ed25519:… -o draft.json
anchor network create draft.json a.json b.json c.json \\
  --start 2027-01-31T12:00Z -o genesis.json
anchor network join genesis.json lab/
anchor network register ed25519:… --key admin.key --trust lab \\
  --node https://node.example:8960
"""
ACTIONS: Final = {
    "draft": Takes(("NAME",), ("administrator", "output"), ("seconds_per_slot",)),
    "create": Takes(("DRAFT", "DEPOSITS…"), ("output",), ("start",)),
    "join": Takes(("GENESIS", "FOLDER")),
    "register": Takes(("PUBLISHER…",), ("key", "node", "trust"), ("passphrase_file",)),
}
OPTIONS: Final = {
    *("administrator", "output", "seconds_per_slot", "start", "key", "node", "trust", "passphrase_file"),
}
SECONDS_PER_SLOT: Final = 12
HEAD_START: Final = 600
"""Seconds until a network starts, unless its operators want otherwise."""
LATE_FINALITY: Final = 3
"""Epochs after which an entry is final, at the latest, where all goes well."""
TRUSTED_EPOCHS: Final = 256
"""For which a checkpoint is trusted at least."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_action(parser, ACTIONS)
    parser.add_argument(
        "--administrator",
        metavar="KEY",
        action="append",
        default=[],
        help="who registers publishers and brings validators in (anchor keygen --administrator); repeatable",
    )
    parser.add_argument(
        "--seconds-per-slot",
        type=parse_count,
        metavar="N",
        help=f"a block every so often (default: {SECONDS_PER_SLOT})",
    )
    parser.add_argument(
        "--start", metavar="TIME", help="when, as in 2027-01-31T12:00Z (default: in ten minutes)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it; never overwritten")
    parser.add_argument("--key", metavar="FILE", help="the administrator's key")
    add_node_options(parser)
    add_passphrase_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """One step of founding a network."""
    require_action("network", options, ACTIONS, OPTIONS)
    actions = {"draft": _draft, "create": _create, "join": _join, "register": _register}
    return actions[options.action](options, terminal)


def _draft(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.consensus.text import parse_identity
    from anchor.node.founding import draw_draft, write_draft

    keys = [parse_identity(key) for key in options.administrator]
    draft = draw_draft(options.words[0], keys, options.seconds_per_slot or SECONDS_PER_SLOT, os.urandom)
    write_draft(Path(options.output), draft)
    name = printable(options.output)
    text = (
        f"Drafted {terminal.paint(printable(draft.name), 'bold')} in {name}.\n\n{_describe_pace(draft)}\n\n"
        "Give it to every operator, who makes keys for it and hands you DIR/deposits.json:\n\n"
        f"  anchor validator keygen --network {name} --operator NAME --count N \\\n    --out DIR"
    )
    return Outcome(text, {"draft": options.output, "name": draft.name, "fork_version": draft.fork_version})


def _describe_pace(draft: Draft) -> str:
    """What the length of a slot decides."""
    from anchor.consensus.presets import LEDGER
    from anchor.consensus.text import format_duration

    epoch = draft.seconds_per_slot * LEDGER.SLOTS_PER_EPOCH
    final, trusted = (format_duration(count * epoch) for count in (LATE_FINALITY, TRUSTED_EPOCHS))
    return (
        f"A block every {draft.seconds_per_slot} s: an entry is final within {final}, and a checkpoint\n"
        f"can be trusted for {trusted}."
    )


def _create(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.clock import SystemClock
    from anchor.node.founding import found_network, read_draft, write_founded
    from anchor.node.validators.deposits import read_deposits

    draft, *given = map(Path, options.words)
    start = _read_start(options.start, SystemClock().now())
    founded = found_network(read_draft(draft), [read_deposits(path) for path in given], start)
    write_founded(Path(options.output), founded)
    text = (
        f"{_describe_network(founded, terminal)}\n\n"
        f"Give {printable(options.output)} to every operator. Each compares the network, and starts:\n\n"
        f"  anchor network join {printable(options.output)} FOLDER\n"
        "  anchor node --ledger FOLDER --keystores DIR --peer URL …"
    )
    return Outcome(text, {"genesis_file": options.output, **_to_result(founded)})


def _read_start(text: str | None, now: int) -> int:
    """A Unix time to come. Raises Misuse for another, or none."""
    if text is None:
        return -(-(now + HEAD_START) // 60) * 60
    try:
        start = datetime.fromisoformat(text)
        seconds = 0 if start.tzinfo is None else int(start.timestamp())
    except (ValueError, OverflowError):
        seconds = 0
    if seconds <= now:
        raise Misuse(f"{text!r} is no time to come.", fix="Write it with its zone: 2027-01-31T12:00Z.")
    return seconds


def _describe_network(founded: Founded, terminal: Terminal) -> str:
    from anchor.consensus.text import format_time

    result = _to_result(founded)
    total = sum([count for _, count in founded.operators])
    rows = [(printable(name), str(count), f"{count / total:.0%}") for name, count in founded.operators]
    lines = [
        f"network     {terminal.paint(result['network_id'], 'bold')}",
        f"checkpoint  {result['checkpoint']}",
        f"starts      {format_time(founded.genesis.genesis_time)}",
        "",
        format_table(("OPERATOR", "VALIDATORS", "STAKE"), rows),
    ]
    for name, count in founded.operators:
        if 3 * count > total:
            power = "can write its history alone" if 3 * count >= 2 * total else "can stop finality alone"
            lines += ["", terminal.paint(f"{printable(name)} {power}.", "yellow")]
    return "\n".join(lines)


def _to_result(founded: Founded) -> dict[str, Any]:
    from anchor.consensus.text import format_checkpoint, format_time_exactly

    return {
        "name": founded.name,
        "network_id": f"0x{founded.network_id.hex()}",
        "checkpoint": format_checkpoint(founded.checkpoint),
        "starts": format_time_exactly(founded.genesis.genesis_time),
        "operators": [{"name": name, "validators": count} for name, count in founded.operators],
    }


def _join(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.files import require_new_folder
    from anchor.node.founding import read_founded, start_folder

    source, folder = map(Path, options.words)
    require_new_folder(folder)
    founded = read_founded(source)
    network = start_folder(folder, founded)
    place = printable(str(folder))
    text = (
        f"{place} is a node's folder on {printable(founded.name)}.\n\n"
        f"{_describe_network(founded, terminal)}\n\n"
        "Every proof was checked. Compare the network with the other operators; then:\n\n"
        f"  anchor node --ledger {place} --keystores DIR --peer URL …"
    )
    return Outcome(text, {"folder": str(folder), **network})


def _register(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.consensus.text import format_checkpoint, parse_identity
    from anchor.node.publishing import write_registrations

    identities = [parse_identity(key) for key in options.words]
    remote, administrator = open_node(options, terminal), unlock_administrator(options)
    if remote is None:
        raise Misuse("An administrator registers publishers at a node.", fix="Name it with --node.")
    said = remote.record(lambda chain: write_registrations(chain, identities, administrator))
    result = {
        "publishers": options.words,
        "entries": list(said.positions),
        "final": format_checkpoint(said.final),
    }
    names = "\n".join([f"  {printable(word)}" for word in options.words])
    return Outcome(f"Registered; each sets its signing keys when it first publishes:\n\n{names}", result)
