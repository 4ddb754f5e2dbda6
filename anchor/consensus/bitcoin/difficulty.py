"""Targets, their compact form ("bits"), the work behind them, and the retarget (specs/05 §5.3)."""

from __future__ import annotations

from anchor.errors import InvalidHeader

_SIGN = 0x00800000
_MANTISSA = 0x007FFFFF
_RETARGET_CLAMP = 4


def decode_bits(bits: int) -> tuple[int, str]:
    """The target that `bits` stand for, and what is wrong with them: empty where nothing is.

    Wrong is a target that is negative, zero or over 256 bits, and any encoding but the one that
    `compute_bits` gives: the rules never ask for another.
    """
    size, mantissa = bits >> 24, bits & _MANTISSA
    target = mantissa << 8 * (size - 3) if size > 3 else mantissa >> 8 * (3 - size)
    if not target:
        return target, "stand for a target of zero"
    if bits & _SIGN:
        return target, "stand for a negative target"
    if target >> 256:
        return target, "stand for a target of more than 256 bits"
    return target, "" if compute_bits(target) == bits else "are not the one encoding of their target"


def compute_target(bits: int) -> int:
    """The target that `bits` stand for: a hash, read as a little-endian number, may not exceed it.

    Raises InvalidHeader for bits that no header may have.
    """
    target, fault = decode_bits(bits)
    if fault:
        raise InvalidHeader(f"The bits 0x{bits:08x} {fault}.")
    return target


def compute_bits(target: int) -> int:
    """The compact form of a target: a byte of size, a sign bit, 23 bits of mantissa (the rest is cut)."""
    size = (target.bit_length() + 7) // 8
    mantissa = target >> 8 * (size - 3) if size > 3 else target << 8 * (3 - size)
    if mantissa & _SIGN:  # the top bit would read as a sign
        mantissa >>= 8
        size += 1
    return size << 24 | mantissa


def compute_work(bits: int) -> int:
    """The hashes that a header with these bits takes on average: 2²⁵⁶ / (target + 1), rounded down."""
    return (1 << 256) // (compute_target(bits) + 1)


def compute_next_bits(bits: int, elapsed: int, timespan: int, pow_limit: int) -> int:
    """The bits of the window after one with `bits`, whose last header came `elapsed` seconds after its first.

    `timespan` is what a window should take: as many spacings as it has headers, though `elapsed` spans one
    less (Bitcoin's off-by-one, kept). One step changes the target at most fourfold.
    """
    held = min(max(elapsed, timespan // _RETARGET_CLAMP), timespan * _RETARGET_CLAMP)
    return compute_bits(min(compute_target(bits) * held // timespan, pow_limit))
