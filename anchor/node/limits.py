"""What one address may take: a bucket of tokens each, in a table of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

MAX_ADDRESSES: Final = 1 << 16
"""Buckets that are kept; whoever was quiet for longest is forgotten first."""


class Buckets:
    """Each address may take `rate` tokens a second, and `burst` at once. A rate of 0 is no limit."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, cost: float, now: float) -> float:
        """Takes `cost` tokens: 0 when they were there, else the seconds until they will be."""
        if not self._rate:
            return 0.0
        owner = group_address(address)
        tokens, then = self._buckets.pop(owner, (self._burst, now))
        tokens = min(tokens + (now - then) * self._rate, self._burst)
        wait = max(min(cost, self._burst) - tokens, 0.0) / self._rate
        self._buckets[owner] = (tokens if wait else tokens - cost, now)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return wait


def group_address(address: str) -> str:
    """Whose allowance an address takes from: one host of IPv4, one network of 64 bits of IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else parsed.exploded[:19]
    return str(parsed)
