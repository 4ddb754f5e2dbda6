"""A run of headers, in bulk and in bounded memory (specs/05 §5.4).

Within a retarget window all headers have the same bits, so a whole stretch is checked column by column:
hashing is most of the time. The columns may only accept; what they don't is judged header by header by
`verify_header`, which has the last word and says what is wrong.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from struct import Struct

from anchor.consensus.bitcoin.difficulty import compute_target, compute_work
from anchor.consensus.bitcoin.header import (
    HEADER_SIZE,
    MAX_FUTURE,
    MEDIAN_SPAN,
    Tip,
    get_median_time_past,
    get_next_bits,
    get_start,
    settle_tip,
    verify_header,
)
from anchor.consensus.bitcoin.network import Network
from anchor.errors import InvalidHeader, MalformedHeader, Misuse

_ROWS = Struct(f"{HEADER_SIZE}s")
_PARENTS = Struct("4x32s44x")
_WORDS = HEADER_SIZE // 4


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of headers showed."""

    start_height: int
    tip: Tip
    """Its last header."""
    anchor: int | None
    """The height of the newest checkpoint in the code that it starts from or passes; None: nothing ties
    these headers to the chain, they only agree with each other."""
    agreed: tuple[int, ...]
    """The heights of all checkpoints that it passes."""
    unknown_medians: int
    """Headers whose median time could not be known: a run that starts mid-chain lacks its first eleven."""
    unknown_bits: int
    """Headers whose bits could not be derived, as the window before them is not in the run."""

    @property
    def count(self) -> int:
        """Headers in the run."""
        return self.tip.height - self.start_height + 1


def verify_run(
    network: Network,
    pieces: Iterable[bytes],
    *,
    start_height: int = 0,
    now: int | None = None,
    minimum_work: int | None = None,
) -> Run:
    """Verifies headers one after the other, the first at `start_height`; a piece is any number of whole ones.

    With `now`, timestamps over two hours ahead are refused; with `minimum_work`, a chain that has less.
    Raises Misuse where there is no header, MalformedHeader, InvalidHeader and InvalidCheckpoint.
    """
    tip = get_start(network, start_height)
    anchor = tip.height if tip.height in network.table.entries else None
    run = Run(start_height, tip, anchor, (), 0, 0)
    for piece in pieces:
        for stretch in _split(network, run, piece):
            run = _advance(network, run, stretch, now)
    if not run.count:
        raise Misuse("There is no header to verify.", fix="Give a file of 80-byte headers.")
    if minimum_work is not None and run.tip.work < minimum_work:
        raise InvalidHeader(
            f"The chain to height {run.tip.height} has work 0x{run.tip.work:x}, below 0x{minimum_work:x}.",
            fix="Ask for the rest of it, or elsewhere: a chain that reaches the present has more.",
        )
    return run


def _split(network: Network, run: Run, piece: bytes) -> Iterator[bytes]:
    """Stretches of the next piece, none across a retarget, a checkpoint, or the run's eleventh header."""
    height = run.tip.height + 1
    if len(piece) % HEADER_SIZE:
        raise MalformedHeader(
            f"{len(piece)} bytes from height {height} on are not whole headers of {HEADER_SIZE} bytes.",
            fix="The file was cut, or it isn't plain headers one after the other.",
        )
    start = 0
    stops = [run.start_height + MEDIAN_SPAN, *[entry + 1 for entry in network.table.entries]]
    while start < len(piece):
        window_end = height - height % network.interval + network.interval
        end = min([window_end, *[stop for stop in stops if stop > height]])
        size = (end - height) * HEADER_SIZE
        yield piece[start : start + size]
        start, height = start + size, end


def _advance(network: Network, run: Run, stretch: bytes, now: int | None) -> Run:
    tip = _check_columns(network, run.tip, stretch, now)
    if tip is not None:
        return _note(network, run, tip)
    for (raw,) in _ROWS.iter_unpack(stretch):
        before = run.tip
        tip = verify_header(network, before, raw, now)
        medians = get_median_time_past(before) is None
        run = _note(network, run, tip, medians, get_next_bits(network, before) is None)
    return run


def _note(network: Network, run: Run, tip: Tip, medians: int = 0, bits: int = 0) -> Run:
    """`run` moved on to `tip`. What was unknown before a checkpoint is settled by its hash."""
    if tip.height in network.table.entries:
        return Run(run.start_height, tip, tip.height, (*run.agreed, tip.height), 0, 0)
    unknown_medians, unknown_bits = run.unknown_medians + medians, run.unknown_bits + bits
    return replace(run, tip=tip, unknown_medians=unknown_medians, unknown_bits=unknown_bits)


def _check_columns(network: Network, tip: Tip, stretch: bytes, now: int | None) -> Tip | None:
    """`tip` moved over a stretch in which every header surely stands; None where that takes a closer look."""
    bits = get_next_bits(network, tip)
    if bits is None or len(tip.times) < MEDIAN_SPAN:
        return None
    hashes = [sha256(sha256(raw).digest()).digest() for (raw,) in _ROWS.iter_unpack(stretch)]
    parents = [parent for (parent,) in _PARENTS.iter_unpack(stretch)]
    versions = _read_words("i", stretch)[0::_WORDS]
    times, all_bits = [_read_words("I", stretch)[place::_WORDS] for place in (17, 18)]
    height = tip.height + len(hashes)
    stands = (
        parents == [tip.hash, *hashes[:-1]]
        and all_bits.count(bits) == len(all_bits)
        and max([digest[::-1] for digest in hashes]) <= compute_target(bits).to_bytes(32, "big")
        and min(versions) >= network.get_version_floor(height)
        and (now is None or max(times) <= now + MAX_FUTURE)
        and _follow_medians(tip.times, times)
        and network.table.entries.get(height) in (None, hashes[-1][::-1])
    )
    if not stands:
        return None
    work = tip.work + len(hashes) * compute_work(bits)
    window_time = tip.window_time if (tip.height + 1) % network.interval else times[0]
    newest = (*tip.times, *times)[-MEDIAN_SPAN:]
    return settle_tip(network, Tip(height, hashes[-1], parents[-1], bits, work, newest, window_time))


def _read_words(kind: str, stretch: bytes) -> array[int]:
    """The little-endian 32-bit words of a stretch, signed ("i") or not ("I")."""
    words = array(kind, stretch)
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _follow_medians(before: Sequence[int], times: Sequence[int]) -> bool:
    """Whether each of `times` is after the median of the eleven before it.

    Whoever is after a median is not before the next one, to which it belongs: six of those eleven are not
    after it. So only a time that is not after the last one takes a sort. The first is held to all before it.
    """
    known = (*before, *times)
    earlier = (max(before), *times[:-1])
    late = [i for i, (time, last) in enumerate(zip(times, earlier, strict=True)) if time <= last]
    return all(times[i] > sorted(known[i : i + MEDIAN_SPAN])[MEDIAN_SPAN // 2] for i in late)
