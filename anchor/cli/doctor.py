"""`anchor doctor`: whether this machine and a ledger's folder are fit for their work."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from anchor.cli.ledgers import add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, format_bytes, format_table, printable
from anchor.errors import AnchorError

HELP = """\
Check clock, port, disk, keys, native code, store and peers, and say what to do.
Nothing is changed; no passphrase is asked for.
"""
EXAMPLES = """
anchor doctor --ledger ledger/
anchor doctor --ledger ledger/ --port 8960 --json
anchor doctor --ledger net/ --peer https://node.example:8960
"""
DEFAULT_PORT: Final = 8960
LOW_DISK: Final = 1 << 30
"""Bytes."""
ROOM: Final = 61
"""Columns of the table for what was found."""


class Finding(NamedTuple):
    """What one look found."""

    about: str
    is_good: bool
    what: str
    fix: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger_option(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address of the node (default: %(default)s)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="its port (default: %(default)s)")
    parser.add_argument(
        "--peer", metavar="URL", action="append", default=[], help="a node to meet; may be repeated"
    )


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Looks at all of it; status 1 when anything is wrong."""
    findings = list(_look(get_folder(options), options))
    rows = [
        ("ok" if finding.is_good else "WRONG", finding.about, printable(finding.what)) for finding in findings
    ]
    notes = [printable(f"{finding.about}: {note}") for finding in findings if (note := _explain(finding))]
    text = "\n".join([format_table(("", "WHAT", "FOUND"), rows), *([""] if notes else []), *notes])
    return Outcome(
        text,
        {"findings": [finding._asdict() for finding in findings]},
        0 if all(finding.is_good for finding in findings) else 1,
    )


def _explain(finding: Finding) -> str:
    """What to do; before it, what is wrong, where the table has no room for all of that."""
    is_cut = not finding.is_good and len(finding.what) > ROOM
    return " ".join(filter(None, (finding.what if is_cut else "", finding.fix)))


def _look(folder: Path, options: Namespace) -> Iterator[Finding]:
    yield _look_at_kernel()
    yield _look_at_signatures()
    yield _look_at_port(options.host, options.port)
    yield _look_at_disk(folder)
    yield _look_at_keys(folder)
    yield from _look_at_store(folder)
    for url in options.peer:
        yield _look_at_peer(folder, url)


def _look_at_kernel() -> Finding:
    from anchor.merkle.hashing import BACKEND

    fix = "" if BACKEND.startswith("native") else "Install a C compiler, then install the package again."
    return Finding("kernel", True, f"hashing: {BACKEND}", fix)


def _look_at_signatures() -> Finding:
    from anchor.consensus.bls import get_backend_name

    name = get_backend_name()
    fix = "" if name == "pyblst" else "For speed: pip install 'anchor-ledger[ledger]'"
    return Finding("signatures", True, name, fix)


def _look_at_port(host: str, port: int) -> Finding:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError, TypeError, UnicodeError) as error:  # of a host that is no name, too
            reason = getattr(error, "strerror", None) or str(error)
            fix = "A node may run there already; else choose another with --port."
            return Finding("port", False, f"{host}:{port}: {reason.lower()}", fix)
    return Finding("port", True, f"{host}:{port} is free")


def _look_at_disk(folder: Path) -> Finding:
    import shutil

    place = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(place).free
    fix = "" if free >= LOW_DISK else "Make room: a full disk stops a ledger."
    return Finding("disk", free >= LOW_DISK, f"{format_bytes(free)} free", fix)


def _look_at_keys(folder: Path) -> Finding:
    from anchor.files import PRIVATE, read_bounded, told_plainly
    from anchor.node.folder import KEYS
    from anchor.node.keys import MAX_FILE_BYTES, decode_key_file
    from anchor.node.network.identity import FILE

    path = folder / KEYS
    if not path.exists() and (folder / FILE).exists():
        return _look_at_identity(folder)
    if not path.exists() and _is_of_several(folder):
        return Finding("keys", True, "none yet: the node draws its own when it first runs")
    try:
        decode_key_file(read_bounded(path, MAX_FILE_BYTES, "a key file"), str(path))
        with told_plainly(path, "read"):
            mode = path.stat().st_mode & 0o777
    except AnchorError as error:
        return Finding("keys", False, error.what, error.fix)
    fix = f"Run: chmod 600 {path}" if mode & ~PRIVATE else ""
    return Finding("keys", not fix, f"encrypted, mode {mode:04o}", fix)


def _is_of_several(folder: Path) -> bool:
    """Whether a network keeps the ledger in `folder`, whose nodes need no committee's seed."""
    from anchor.node.folder import open_reader
    from anchor.params import WALL_CLOCK

    try:
        with open_reader(folder) as chain:
            return chain.genesis.clock == WALL_CLOCK
    except AnchorError:
        return False


def _look_at_identity(folder: Path) -> Finding:
    """The key by which other nodes know this one; validators have keystores of their own."""
    import os

    from anchor.consensus.text import format_identity
    from anchor.node.network.identity import load_identity

    try:
        key = load_identity(folder, os.urandom)
    except AnchorError as error:
        return Finding("keys", False, error.what, error.fix)
    return Finding("keys", True, f"node {format_identity(key.public.public_key)}, mode 0600")


def _look_at_store(folder: Path) -> Iterator[Finding]:
    """The store's newest state, its finality, and what the clock has to do with it."""
    from anchor.consensus.duties import MAX_TIMESTAMP_SKEW
    from anchor.node.clock import SystemClock
    from anchor.node.folder import open_reader
    from anchor.node.health import judge_health

    now = SystemClock().now()
    try:
        with open_reader(folder) as chain:
            status, genesis = chain.get_status(), chain.genesis
    except AnchorError as error:
        yield Finding("store", False, error.what, error.fix)
        return
    waiting = status.entries - status.final_entries
    fix = "Record something more, or start a node: that makes them final." if waiting else ""
    yield Finding("store", True, f"slot {status.slot}, {status.entries} entries, {waiting} not final", fix)
    health = judge_health(status, genesis, now)
    yield Finding("finality", health.is_good, health.words)
    ahead = status.timestamp - now
    fix = "Set this machine's clock." if ahead > MAX_TIMESTAMP_SKEW else ""
    yield Finding(
        "clock", not fix, f"{abs(ahead)} s {'before' if ahead > 0 else 'after'} the newest block", fix
    )


def _look_at_peer(folder: Path, url: str) -> Finding:
    """Whether a node can be reached, is of this network, and has the same time."""
    import asyncio
    import os

    from anchor.consensus.text import format_identity
    from anchor.node.clock import SystemClock
    from anchor.node.folder import open_reader
    from anchor.node.network.peers import MAX_SKEW_MS
    from anchor.node.network.probing import probe_peer
    from anchor.node.network.urls import parse_url

    try:
        with open_reader(folder) as chain:
            met = asyncio.run(probe_peer(parse_url(url), chain, SystemClock(), os.urandom))
    except AnchorError as error:
        fix = error.fix or "See that its node is up, and that this machine can reach it."
        return Finding("peer", False, f"{url}: {error.what}", fix)
    is_near = abs(met.offset_ms) <= MAX_SKEW_MS
    what = f"{url}: clock {met.offset_ms:+} ms, slot {met.status.head_slot}, {format_identity(met.peer)}"
    return Finding("peer", is_near, what, "" if is_near else "Set the clock, here or there.")
