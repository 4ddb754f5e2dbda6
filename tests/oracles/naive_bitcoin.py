"""Bitcoin's header rules the slow way: the whole chain at hand, every rule looked up by index."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

Headers = Sequence[bytes]


def field(raw: bytes, start: int, size: int = 4) -> int:
    return int.from_bytes(raw[start : start + size], "little")


def time_of(raw: bytes) -> int:
    return field(raw, 68)


def bits_of(raw: bytes) -> int:
    return field(raw, 72)


def hash_of(raw: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(raw).digest()).digest()


def decode(bits: int) -> tuple[int, bool, bool]:
    """(target, negative, overflow): digits in base 256, of which the first three are given."""
    digits = [bits >> 16 & 0x7F, bits >> 8 & 0xFF, bits & 0xFF]
    places = [(bits >> 24) - count for count in (1, 2, 3)]
    value = sum([digit << 8 * place for digit, place in zip(digits, places, strict=True) if place >= 0])
    return value, value > 0 and bool(bits & 0x800000), value >= 2**256


def encode(target: int) -> int:
    """The shortest base-256 number with its first three digits; a leading zero digit keeps the sign clear."""
    digits = [*target.to_bytes(33, "big")]
    while digits and digits[0] == 0:
        digits.pop(0)
    if digits and digits[0] >= 0x80:
        digits.insert(0, 0)
    first = bytes([*digits, 0, 0, 0][:3])
    return len(digits) << 24 | int.from_bytes(first, "big")


def work_of(bits: int) -> int:
    return (1 << 256) // (decode(bits)[0] + 1)


def next_bits(chain: Headers, interval: int, spacing: int, limit: int) -> int:
    """The bits that the header after `chain`, which starts at genesis, must have."""
    height = len(chain)
    if height % interval:
        return bits_of(chain[-1])
    aim = interval * spacing
    took = time_of(chain[height - 1]) - time_of(chain[height - interval])
    took = max(took, aim // 4)
    took = min(took, aim * 4)
    return encode(min(decode(bits_of(chain[-1]))[0] * took // aim, limit))


def median_time(chain: Headers) -> int:
    newest = sorted([time_of(raw) for raw in chain[-11:]])
    return newest[len(newest) // 2]


def first_bad(chain: Headers, interval: int, spacing: int, limit: int, now: int | None = None) -> int | None:
    """The height of the first header that breaks a rule; the first in `chain` is genesis, taken as it is."""
    for height in range(1, len(chain)):
        raw, before = chain[height], chain[:height]
        target, negative, overflow = decode(bits_of(raw))
        good = (
            len(raw) == 80
            and raw[4:36] == hash_of(before[-1])
            and not negative
            and not overflow
            and 0 < target <= limit
            and field(hash_of(raw), 0, 32) <= target
            and bits_of(raw) == next_bits(before, interval, spacing, limit)
            and time_of(raw) > median_time(before)
            and (now is None or time_of(raw) <= now + 7200)
        )
        if not good:
            return height
    return None
