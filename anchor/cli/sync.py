"""`anchor sync`: a beacon chain's checkpoint, verified; its finality, followed; and both served to others."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchor.bundle.trust import resolve_trust
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint, verify_pair
from anchor.chain.beacon.folder import (
    CHECKPOINT,
    MAX_BLOCK,
    MAX_STATE,
    describe,
    load_checkpoint,
    load_config,
    store_checkpoint,
    store_finalized,
)
from anchor.chain.beacon.networks import NETWORKS, Network, find_network
from anchor.cli.output import Outcome, Progress, Terminal, printable
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint
from anchor.errors import InvalidCheckpoint, MalformedSSZ, Misuse, Unavailable
from anchor.files import read_bounded, told_plainly

if TYPE_CHECKING:
    from anchor.chain.beacon.sync import Settings

HELP = """\
Sync a beacon chain from a checkpoint that you trust: download its state and
block, check both against it, then follow finality by light client.

Take the checkpoint from sources of your own. What endpoints say is only
counted: it never outweighs your root.
"""
EXAMPLES = """
anchor sync http://127.0.0.1:5052 --trust 0x…:411392
anchor sync https://a.example https://b.example --trust 0x…:411392 --follow
anchor sync --state state.ssz --block block.ssz --trust 0x…:411392 \\
  --network mainnet
anchor sync http://127.0.0.1:5052 --trust 0x…:411392 --light --follow 3
anchor sync http://127.0.0.1:5052 --trust 0x…:411392 --follow --serve 8080
"""
FOREVER = -1


@dataclass(slots=True)
class Found:
    """What a sync has found so far."""

    anchor: VerifiedCheckpoint | None = None
    """None with --light."""
    is_trusted: bool = True
    followed: list[Checkpoint] = field(default_factory=list)
    """The final checkpoints that the light client has proven, oldest first."""
    warnings: list[str] = field(default_factory=list)


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("urls", nargs="*", metavar="URL", help="endpoints of the Beacon API, in order")
    parser.add_argument(
        "--trust", metavar="ROOT:EPOCH", help="the trusted checkpoint, or its name in your store"
    )
    parser.add_argument(
        "--network",
        metavar="NAME",
        help=f"{', '.join(NETWORKS)}, or a configuration's file (else by genesis)",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the checkpoint here (anchor-sync)")
    parser.add_argument("--state", type=Path, metavar="FILE", help="a state's SSZ, in place of endpoints")
    parser.add_argument("--block", type=Path, metavar="FILE", help="the SSZ of the block that led to it")
    parser.add_argument("--light", action="store_true", help="the light client alone: nothing is kept")
    parser.add_argument(
        "--follow",
        type=int,
        nargs="?",
        const=FOREVER,
        metavar="N",
        help="follow N more checkpoints, or on and on",
    )
    parser.add_argument("--serve", type=int, metavar="PORT", help="serve what is verified, on loopback")
    parser.add_argument("--unverified", action="store_true", help="without --trust: take the endpoints' word")
    parser.add_argument(
        "--allow-stale-trust", action="store_true", help="go on after the weak-subjectivity period"
    )
    parser.add_argument("--poll", type=float, default=12.0, metavar="S", help="seconds between looks (12)")
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="S", help="for one answer (1800)")
    parser.add_argument("--idle-timeout", type=float, default=20.0, metavar="S", help="without a byte (20)")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Syncs from files or from endpoints."""
    _require_sense(options)
    if options.state is not None:
        return _report(_sync_from_files(options), options)
    return asyncio.run(_sync(options, terminal))


def _require_sense(options: Namespace) -> None:
    from_files = options.state is not None or options.block is not None
    if from_files and (options.state is None or options.block is None or options.urls):
        raise Misuse("--state and --block go together, and without endpoints.", fix="See: anchor sync --help")
    if from_files and options.trust is None:
        raise Misuse("Files are checked against a checkpoint that you trust.", fix="Give --trust root:epoch.")
    if from_files and (options.light or options.follow or options.serve):
        raise Misuse("--light, --follow and --serve need an endpoint.", fix="See: anchor sync --help")
    if not from_files and not options.urls:
        raise Misuse(
            "There is nothing to sync from.", fix="Give the URL of a beacon node, or --state and --block."
        )
    if options.light and options.serve is not None:
        raise Misuse("--serve serves a state, and --light loads none.", fix="Leave one of them out.")
    if min(options.timeout, options.idle_timeout, options.poll) <= 0:
        raise Misuse("Time-outs and --poll are more than 0 seconds.")


def _get_network(options: Namespace) -> Network | None:
    """The network that was named; None when none was."""
    if options.network is None:
        return None
    path = Path(options.network)
    return (
        load_config(path)
        if options.network not in NETWORKS and path.exists()
        else find_network(options.network)
    )


def _sync_from_files(options: Namespace) -> Found:
    network = _get_network(options)
    if network is None:
        raise Misuse("Files do not tell their network's configuration.", fix="Give --network.")
    block = read_bounded(options.block, MAX_BLOCK, "a block")
    state = read_bounded(options.state, MAX_STATE, "a state")
    return Found(_verify(network, resolve_trust(options.trust).checkpoint, block, state, options))


def _verify(
    network: Network, checkpoint: Checkpoint, block: bytes, state: bytes, options: Namespace
) -> VerifiedCheckpoint:
    expired = options.allow_stale_trust
    return verify_pair(network, checkpoint, block, state, now=time.time(), accept_expired=expired)


async def _sync(options: Namespace, terminal: Terminal) -> Outcome:
    try:
        from anchor.cli.syncing import sync
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise Unavailable(
            "To sync from endpoints needs aiohttp.", fix="Install it with: pip install 'anchor-ledger[node]'"
        ) from None
    return _report(await sync(options, terminal, _get_network(options)), options)


def get_folder(options: Namespace) -> Path:
    """Where the checkpoint is kept."""
    return options.data or Path("anchor-sync")


def load_stored(options: Namespace, checkpoint: Checkpoint) -> VerifiedCheckpoint | None:
    """The checkpoint that the folder holds already, verified again; None when it holds nothing.

    Raises Misuse when it holds another one.
    """
    folder = get_folder(options)
    if not _holds_something(folder):
        return None
    with _telling_of(folder):
        stored = load_checkpoint(folder)
    if stored.checkpoint != checkpoint:
        raise Misuse(
            f"{folder} holds {format_checkpoint(stored.checkpoint)}, and you trust "
            f"{format_checkpoint(checkpoint)}.",
            fix="Choose another folder with --data, or move that one away.",
        )
    network = _get_network(options) or stored.network
    with _telling_of(folder):
        return _verify(network, checkpoint, stored.block, stored.state, options)


@contextmanager
def _telling_of(folder: Path) -> Iterator[None]:
    """Lets errors say that they are about what is kept in `folder`."""
    try:
        yield
    except (InvalidCheckpoint, MalformedSSZ, Unavailable) as error:
        error.what = f"What {folder} keeps does not hold: {error.what}"
        error.fix = "Move it away, and sync again."
        raise


def keep(options: Namespace, found: Found) -> None:
    """Stores a checkpoint that was verified, unless it is there. Raises Misuse where another one is."""
    folder, anchor = get_folder(options), found.anchor
    if anchor is None or _holds_something(folder):
        return
    try:
        store_checkpoint(folder, anchor, is_trusted=found.is_trusted)
    except Misuse:
        if not (folder / CHECKPOINT).exists() or load_checkpoint(folder).checkpoint != anchor.checkpoint:
            raise  # else another process has stored the same meanwhile


def _holds_something(folder: Path) -> bool:
    with told_plainly(folder, "read"):
        return folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))


def keep_followed(options: Namespace, found: Found, slot: int) -> None:
    """Notes how far finality was followed."""
    if found.anchor is not None:
        store_finalized(get_folder(options), found.followed[-1], slot)


class DownloadBar:
    """A bar that begins when it is known how much will come."""

    def __init__(self, terminal: Terminal, stack: ExitStack) -> None:
        self._terminal, self._stack = terminal, stack
        self._advance: Progress | None = None
        self._done = 0

    def show(self, done: int, total: int) -> None:
        """Draws that `done` bytes of `total` came."""
        if self._advance is None or done < self._done:
            self._stack.close()
            self._advance = self._stack.enter_context(self._terminal.progress("state", total))
            self._done = 0
        self._advance(done - self._done)
        self._done = done


def _report(found: Found, options: Namespace) -> Outcome:
    keep(options, found)
    result = _to_result(found)
    is_qualified = not found.is_trusted or (found.anchor is not None and found.anchor.is_expired)
    lines = _describe_anchor(found) + [
        f"  final        {format_checkpoint(known)}" for known in found.followed
    ]
    lines += [f"  note         {printable(warning)}" for warning in found.warnings]
    if found.anchor is not None:
        lines.append(f"  kept in      {printable(str(get_folder(options)))}")
    return Outcome("\n".join(lines), result, status=5 if is_qualified else 0)


def _describe_anchor(found: Found) -> list[str]:
    anchor = found.anchor
    if anchor is None:
        return ["The light client followed the trusted block: a sync committee signed, no stake was counted"]
    first = (
        "holds" if found.is_trusted else "is what the endpoints say, and is NOT VERIFIED by a trusted root"
    )
    lines = [
        f"{format_checkpoint(anchor.checkpoint)} {first}",
        f"  network      {printable(anchor.network.name)}, {anchor.block.fork.name}",
        f"  slot         {anchor.block.slot:,}",
        f"  state root   0x{anchor.block.state_root.hex()}",
        f"  trusted for  {anchor.period:,} epochs{' (over, and accepted)' if anchor.is_expired else ''}",
    ]
    if anchor.network.is_claimed:
        lines.append(
            "  note         the network's configuration is the endpoint's word, its slot's length above all"
        )
    empty = anchor.checkpoint.epoch * anchor.network.preset.SLOTS_PER_EPOCH - anchor.block.slot
    if empty:
        lines.append(f"  note         of that epoch if the {empty:,} slots from the block on are empty")
    return lines


def _to_result(found: Found) -> dict[str, Any]:
    return {
        "anchor": describe(found.anchor) if found.anchor is not None else None,
        "trust": "given" if found.is_trusted else "unverified",
        "finalized": [format_checkpoint(known) for known in found.followed],
        "warnings": found.warnings,
    }


def make_settings(
    options: Namespace, terminal: Terminal, network: Network | None, bar: DownloadBar
) -> Settings:
    """What the driver goes by."""
    from anchor.chain.beacon.sync import Settings

    return Settings(
        network=network,
        accept_expired=options.allow_stale_trust,
        note=lambda text: terminal.note(printable(text)),
        progress=bar.show,
    )
