"""`anchor bitcoin verify`: a file of Bitcoin headers against the rules and the checkpoints in the code."""

from __future__ import annotations

import stat
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anchor.cli.output import Outcome, Progress, Terminal, printable
from anchor.consensus.bitcoin.header import HEADER_SIZE, format_hash
from anchor.consensus.bitcoin.network import MAINNET
from anchor.consensus.bitcoin.run import Run, verify_run
from anchor.errors import MalformedHeader, Misuse
from anchor.files import open_regular, told_plainly

HELP = """\
Check a file of Bitcoin headers (80 bytes each, one after the other): links,
proof of work, retargets, median time, versions, and checkpoints in the code.
"""
EXAMPLES = """
anchor bitcoin verify headers.bin
anchor bitcoin verify headers.bin --now 1767225600 --minimum-work
anchor bitcoin verify later.bin --start-height 295000 --json
"""
PIECE = 4096 * HEADER_SIZE
"""Bytes read at a time."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("action", choices=["verify"], help="what to do")
    parser.add_argument("file", type=Path, metavar="FILE", help="the headers")
    parser.add_argument(
        "--start-height", type=int, default=0, metavar="N", help="the height of the first header (0)"
    )
    parser.add_argument(
        "--now", type=int, metavar="T", help="refuse times over two hours after T (seconds since 1970)"
    )
    parser.add_argument(
        "--minimum-work",
        type=_parse_work,
        nargs="?",
        const=MAINNET.minimum_work,
        metavar="HEX",
        help="refuse a chain with less work; without HEX, less than the real chain's at height 824000",
    )


def _parse_work(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise ArgumentTypeError(f"{printable(text)!r} is not a number in hex") from None


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Verifies the file. Headers that nothing ties to a checkpoint are qualified, not OK."""
    size = _get_size(options.file)
    with terminal.progress("verifying", size) as advance:
        found = verify_run(
            MAINNET,
            _read_pieces(options.file, advance),
            start_height=options.start_height,
            now=options.now,
            minimum_work=options.minimum_work,
        )
    qualified = found.anchor is None or found.unknown_bits > 0
    return Outcome(_describe(found, options), _to_result(found, options), status=5 if qualified else 0)


def _get_size(path: Path) -> int:
    with told_plainly(path, "read"):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise Misuse(f"{path} is not a file.", fix="Give a file of 80-byte headers.")
    if status.st_size % HEADER_SIZE:
        raise MalformedHeader(
            f"{path} has {status.st_size} bytes, which are not whole headers of {HEADER_SIZE}.",
            fix="The file was cut, or it isn't plain headers one after the other.",
        )
    return status.st_size


def _read_pieces(path: Path, advance: Progress) -> Iterator[bytes]:
    with open_regular(path) as file:
        while piece := file.read(PIECE):
            yield piece
            advance(len(piece))


def _describe(found: Run, options: Namespace) -> str:
    tip = found.tip
    lines = [
        f"{found.count:,} headers of Bitcoin keep the rules: {found.start_height:,} to {tip.height:,}",
        f"  last hash    {format_hash(tip.hash)}",
        f"  work         0x{tip.work:x}{'' if found.anchor is not None else ' (of these headers alone)'}",
        f"  rests on     {_describe_anchor(found)}",
        *[f"  not checked  {gap}" for gap in _get_gaps(found, options)],
    ]
    return "\n".join(lines)


def _describe_anchor(found: Run) -> str:
    if found.anchor is None:
        return "nothing: no checkpoint in the code ties these headers to the chain"
    return f"the checkpoint in the code at height {found.anchor:,}"


def _get_gaps(found: Run, options: Namespace) -> list[str]:
    """What could not be checked, in words."""
    gaps = []
    if found.unknown_medians:
        gaps.append(f"the median time of headers that lack eleven before them: {found.unknown_medians}")
    if found.unknown_bits:
        gaps.append(f"the difficulty of headers whose window begins before the file: {found.unknown_bits}")
    if options.now is None:
        gaps.append("times in the future (--now)")
    if options.minimum_work is None:
        gaps.append("that the work is the real chain's (--minimum-work)")
    return gaps


def _to_result(found: Run, options: Namespace) -> dict[str, Any]:
    return {
        "network": MAINNET.table.name,
        "count": found.count,
        "start_height": found.start_height,
        "end_height": found.tip.height,
        "hash": format_hash(found.tip.hash),
        "work": f"0x{found.tip.work:x}",
        "anchor_height": found.anchor,
        "checkpoints": list(found.agreed),
        "unknown_medians": found.unknown_medians,
        "unknown_bits": found.unknown_bits,
        "future_checked": options.now is not None,
        "minimum_work_checked": options.minimum_work is not None,
    }
