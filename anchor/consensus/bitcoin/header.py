"""One header against the chain before it: every rule, and what the next is judged by (specs/05 §5.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from struct import Struct
from typing import Final, NamedTuple

from anchor.consensus.bitcoin.difficulty import compute_next_bits, compute_work, decode_bits
from anchor.consensus.bitcoin.network import Network
from anchor.consensus.hardcoded import verify_root
from anchor.errors import InvalidHeader, MalformedHeader, Misuse
from anchor.types import Bytes32

HEADER_SIZE: Final = 80
"""Bytes of a header."""
MEDIAN_SPAN: Final = 11
"""Headers whose timestamps' median the next one must exceed."""
MAX_FUTURE: Final = 2 * 60 * 60
"""Seconds that a timestamp may be ahead of the clock of whoever checks."""
_LAYOUT = Struct("<i32s32sIII")
_FIX = "Check the height of the first header, that none is missing or out of place, and any time given."


class Header(NamedTuple):
    """The fields of a header."""

    version: int
    parent: bytes
    merkle_root: bytes
    time: int
    """Seconds since 1970."""
    bits: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a chain of headers: what the next one is judged by."""

    height: int
    hash: Bytes32
    """Empty where it isn't known."""
    parent: Bytes32
    """The hash before it; empty where it isn't known."""
    bits: int | None
    """None where they aren't known."""
    work: int
    """Of the chain from genesis; of the headers seen, while nothing ties them to a checkpoint."""
    times: tuple[int, ...]
    """The timestamps of the newest headers, oldest first, eleven at most."""
    window_time: int | None
    """The timestamp of the first header of this one's retarget window; None where it isn't known."""


def parse_header(raw: bytes) -> Header:
    """The fields of an 80-byte header. Raises MalformedHeader for any other length."""
    if len(raw) != HEADER_SIZE:
        raise MalformedHeader(f"A header of Bitcoin has {HEADER_SIZE} bytes, not {len(raw)}.")
    return Header(*_LAYOUT.unpack(raw))


def compute_hash(raw: bytes) -> Bytes32:
    """The hash of a header: SHA-256 twice."""
    return sha256(sha256(raw).digest()).digest()


def format_hash(block_hash: Bytes32) -> str:
    """A hash as people know it: reversed, in hex."""
    return block_hash[::-1].hex()


def get_start(network: Network, height: int) -> Tip:
    """What is known before the header at `height`: at genesis, and after a checkpoint, all that it takes.

    Anywhere else nothing is known, and only a checkpoint further up will tie the headers to the chain.
    Raises Misuse for a negative height.
    """
    if height < 0:
        raise Misuse(f"No header has the height {height}.", fix="The genesis block has height 0.")
    if height == 0:
        return Tip(-1, bytes(32), b"", None, 0, (), None)
    root, context = network.table.entries.get(height - 1), network.contexts.get(height - 1)
    if root is None or context is None:
        return Tip(height - 1, b"", b"", None, 0, (), None)
    return Tip(height - 1, root[::-1], b"", context.bits, context.work, (), context.window_time)


def get_median_time_past(tip: Tip) -> int | None:
    """The median of the newest eleven timestamps (fewer near genesis); None where some aren't known."""
    if not tip.times or len(tip.times) < min(MEDIAN_SPAN, tip.height + 1):
        return None
    return sorted(tip.times)[len(tip.times) // 2]


def get_next_bits(network: Network, tip: Tip) -> int | None:
    """The bits that the header after `tip` must have; None where its window's start isn't known."""
    if (tip.height + 1) % network.interval:
        return tip.bits
    if tip.bits is None or tip.window_time is None or not tip.times:
        return None
    elapsed = tip.times[-1] - tip.window_time
    return compute_next_bits(tip.bits, elapsed, network.timespan, network.pow_limit)


def verify_header(network: Network, tip: Tip, raw: bytes, now: int | None = None) -> Tip:
    """The chain's end after the 80-byte header `raw`, which must keep every rule after `tip`.

    With `now` (seconds since 1970), timestamps more than two hours ahead are refused. Raises
    MalformedHeader, InvalidHeader, or InvalidCheckpoint for a conflict with the code's table.
    """
    header, block_hash = parse_header(raw), compute_hash(raw)
    broken = (
        _check_parent(tip, header)
        or _check_work(network, tip, header, block_hash)
        or _check_time(tip, header, now)
        or _check_version(network, tip, header)
    )
    if broken:
        raise InvalidHeader(
            f"The header at height {tip.height + 1}, {format_hash(block_hash)}, {broken}.", fix=_FIX
        )
    verify_root(network.table, tip.height + 1, block_hash[::-1])
    return extend_tip(network, tip, block_hash, header)


def _check_parent(tip: Tip, header: Header) -> str:
    """What is wrong with the parent; empty where nothing is."""
    if tip.hash and header.parent != tip.hash:
        return f"names the parent {format_hash(header.parent)}, not {format_hash(tip.hash)} before it"
    return ""


def _check_work(network: Network, tip: Tip, header: Header, block_hash: Bytes32) -> str:
    expected = get_next_bits(network, tip)
    if expected is not None and header.bits != expected:
        return f"has the bits 0x{header.bits:08x} where the rules ask for 0x{expected:08x}"
    target, fault = decode_bits(header.bits)
    if fault:
        return f"has the bits 0x{header.bits:08x}, which {fault}"
    if target > network.pow_limit:
        return f"has the bits 0x{header.bits:08x}, easier than the network's limit"
    if int.from_bytes(block_hash, "little") > target:
        return f"lacks the work that its bits 0x{header.bits:08x} ask for"
    return ""


def _check_time(tip: Tip, header: Header, now: int | None) -> str:
    median = get_median_time_past(tip)
    if median is not None and header.time <= median:
        return f"has the time {header.time}, not after the median {median} before it"
    if now is not None and header.time > now + MAX_FUTURE:
        return f"has the time {header.time}, over two hours after {now}"
    return ""


def _check_version(network: Network, tip: Tip, header: Header) -> str:
    floor = network.get_version_floor(tip.height + 1)
    return f"has version {header.version}, below {floor}" if header.version < floor else ""


def extend_tip(network: Network, tip: Tip, block_hash: Bytes32, header: Header) -> Tip:
    """`tip` moved on by one header that was verified. A checkpoint settles its work and window."""
    height = tip.height + 1
    extended = Tip(
        height=height,
        hash=block_hash,
        parent=header.parent,
        bits=header.bits,
        work=tip.work + compute_work(header.bits),
        times=(*tip.times, header.time)[-MEDIAN_SPAN:],
        window_time=tip.window_time if height % network.interval else header.time,
    )
    return settle_tip(network, extended)


def settle_tip(network: Network, tip: Tip) -> Tip:
    """`tip` with what the code says of its height, where a checkpoint stands there."""
    context = network.contexts.get(tip.height)
    return replace(tip, work=context.work, window_time=context.window_time) if context else tip
