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
Run a network of several nodes on this machine, as real processes on loopback:
cut it in two, kill nodes, set clocks wrong, make a validator lie, and see what
finality does. It survives being stopped: its clock stops with it.
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


def _open(options: Namespace) -> Control:
    from anchor.node.devnet.control import Control

    return Control(Path(options.folder))


def _up(options: Namespace, terminal: Terminal) -> Outcome:
    import os

    from anchor.node.clock import SystemClock
    from anchor.node.devnet.building import build_devnet
    from anchor.node.devnet.plan import FILE

    folder = Path(options.folder)
    if not (folder / FILE).exists():
        what = f"{options.nodes} nodes with {options.validators} validators"
        terminal.note(f"Making {what} in {printable(str(folder))}/")
        build_devnet(
            folder, options.nodes, options.validators, options.seconds_per_slot, SystemClock(), os.urandom
        )
    control = _open(options)
    words = control.up()
    listing = "\n".join([f"node {member.number}  {member.url}" for member in control.plan.members])
    hint = "See it go on with: anchor devnet status"
    return Outcome(f"{listing}\n{words[:1].upper()}{words[1:]}. {hint}", {"nodes": _to_json(control)})


def _to_json(control: Control) -> list[dict[str, object]]:
    return [
        {"number": member.number, "url": member.url, "pid": member.pid, "validators": member.validators}
        for member in control.plan.members
    ]


def _status(options: Namespace, terminal: Terminal) -> Outcome:
    from dataclasses import asdict

    from anchor.node.devnet.sight import look

    control = _open(options)
    sights = look(control.plan)
    rows = [
        [
            f"{sight.number}",
            "runs" if sight.is_alive else "dead",
            f"{sight.slot}" if sight.answers else "-",
            f"{sight.final_epoch}" if sight.answers else "-",
            sight.head[2:10] or "-",
        ]
        for sight in sights
    ]
    words: dict[str, list[str]] = {}
    for sight in sights:
        words.setdefault(sight.words, []).append(str(sight.number))
    health = [f"{', '.join(numbers)}: {printable(said)}" for said, numbers in words.items()]
    table = format_table(["node", "state", "slot", "final", "head"], rows)
    return Outcome("\n".join([table, "", *health]), {"nodes": [asdict(sight) for sight in sights]})


def _logs(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.devnet.plan import get_log

    control = _open(options)
    log = get_log(control.folder, control.plan.get_member(_read_number(options.values[0])))
    lines = log.read_text(errors="replace").splitlines()[-max(options.last, 1) :] if log.is_file() else []
    return Outcome("\n".join(map(printable, lines)), {"lines": lines})


def _run(options: Namespace, terminal: Terminal) -> Outcome:
    """A scenario, on a devnet of its own, which is stopped at the end; its folder stays for a look."""
    import os

    from anchor.node.clock import SystemClock
    from anchor.node.devnet.building import build_devnet
    from anchor.node.devnet.running import run
    from anchor.node.devnet.scenario import read_scenario

    scenario = read_scenario(Path(options.values[0]))
    folder = Path(options.folder)
    build_devnet(
        folder, scenario.nodes, scenario.validators, scenario.seconds_per_slot, SystemClock(), os.urandom
    )
    control = _open(options)
    terminal.note(f"{scenario.name}: {scenario.nodes} nodes, {scenario.validators} validators")
    results = []
    try:
        control.up()
        for result in run(control, scenario):
            results.append(result)
            mark = terminal.paint("✓", "green") if result.holds else terminal.paint("✗", "red")
            terminal.note(f"{mark} {result.seconds:6.1f} s  {result.step}: {result.words}")
    finally:
        control.stop()
    holds = len(results) == len(scenario.steps) and results[-1].holds
    done = [{"step": str(r.step), "holds": r.holds, "words": r.words, "seconds": r.seconds} for r in results]
    text = f"{scenario.name}: {'all of it held' if holds else 'it did not hold'}."
    return Outcome(text, {"holds": holds, "steps": done}, 0 if holds else 1)


def _read_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise Misuse(f"{text!a} is no number of a node.")
    return int(text)


def _act(method: str) -> Callable[[Namespace, Terminal], Outcome]:
    """The action that is a method of Control, with the numbers of nodes that it takes."""

    def act(options: Namespace, terminal: Terminal) -> Outcome:
        from anchor.node.devnet.scenario import parse_groups, parse_seconds

        control = _open(options)
        values: list[object] = []
        for kind, value in zip(TAKES[options.action].split(), options.values, strict=True):
            read = {"N": _read_number, "3s": parse_seconds}.get(kind, parse_groups)
            values.append(read(value))
        words = getattr(control, method)(*values)
        return Outcome(f"{words[:1].upper()}{words[1:]}.", {"done": words})

    return act


ACTIONS: Final = {
    "up": _up,
    "status": _status,
    "logs": _logs,
    "run": _run,
    **{
        name: _act(name)
        for name in ("stop", "kill", "start", "partition", "heal", "equivocate", "skew", "join")
    },
}
