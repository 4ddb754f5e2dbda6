"""What a node thinks of others, and where it finds them: scores, bans, addresses, clocks.

This is specs/06-network §5. Nothing here reads a socket or a clock. Times are Unix seconds: bans outlive a
restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, unique
from statistics import median
from typing import Final

BAN_AT: Final = 100.0
"""Points at which a peer is banned."""
HALF_LIFE: Final = 600.0
"""Seconds in which half of a peer's points are forgiven."""
BAN_SECONDS: Final = 3600.0
"""Of a first ban; each further one takes twice as long as the one before …"""
MAX_BAN_SECONDS: Final = 86400.0
"""… up to this."""
MAX_STANDINGS: Final = 4096
"""Peers that are remembered beside those that are connected."""
FIRST_RETRY: Final = 1.0
"""Seconds before an address that failed once is dialled again; each further failure doubles them …"""
MAX_RETRY: Final = 60.0
"""… up to this."""
FORGET_AFTER: Final = 10
"""Failures in a row after which a learnt address is forgotten."""
MAX_LEARNT: Final = 256
MAX_LEARNT_FROM_ONE: Final = 32
"""Addresses that one peer can add: none fills the book."""
MAX_SKEW_MS: Final = 500
"""By which two clocks may differ before it is said (phase0/p2p-interface, MAXIMUM_GOSSIP_CLOCK_DISPARITY)."""


@unique
class Fault(IntEnum):
    """What a peer can do wrong, and its points."""

    FLOOD = 2
    """More than its allowance of a kind."""
    SLOW = 5
    """It does not read what it is sent."""
    STALLED = 10
    """It does not answer a question in time."""
    UNASKED = 20
    """It answers what nobody asked."""
    INVALID = 25
    """It passed on what breaks the ledger's rules."""
    LIED = 40
    """It gave other blocks than it was asked for, or none where it said that it has some."""
    MALFORMED = 60
    """It sent what cannot be read."""


@dataclass(slots=True)
class Standing:
    """What is held against one peer."""

    points: float = 0.0
    """As of `at`."""
    at: float = 0.0
    bans: int = 0
    banned_until: float = 0.0

    def get_points(self, now: float) -> float:
        """What is left of its points at `now`."""
        return self.points * float(0.5 ** (max(now - self.at, 0.0) / HALF_LIFE))


class Standings:
    """What is held against peers, by identity. Who was blamed longest ago is forgotten first."""

    def __init__(self, known: dict[bytes, Standing] | None = None) -> None:
        self._known = known or {}

    def blame(self, peer: bytes, fault: Fault, now: float) -> bool:
        """Holds `fault` against a peer; whether that bans it."""
        standing = self._known.pop(peer, None) or Standing()
        self._known[peer] = standing
        standing.points, standing.at = standing.get_points(now) + fault, now
        is_banned = standing.points >= BAN_AT
        if is_banned:
            seconds = min(BAN_SECONDS * 2**standing.bans, MAX_BAN_SECONDS)
            standing.banned_until, standing.bans, standing.points = now + seconds, standing.bans + 1, 0.0
        if len(self._known) > MAX_STANDINGS:
            self._forget(now)
        return is_banned

    def get_points(self, peer: bytes, now: float) -> float:
        """A peer's points; BAN_AT while it is banned."""
        standing = self._known.get(peer)
        if standing is None:
            return 0.0
        return BAN_AT if now < standing.banned_until else standing.get_points(now)

    def get_ban(self, peer: bytes, now: float) -> float:
        """The seconds for which a peer stays banned; 0 when it is not."""
        standing = self._known.get(peer)
        return 0.0 if standing is None else max(standing.banned_until - now, 0.0)

    def get_bans(self, now: float) -> dict[bytes, Standing]:
        """Who is banned at `now`."""
        return {peer: one for peer, one in self._known.items() if now < one.banned_until}

    def _forget(self, now: float) -> None:
        """Lets go of the longest untouched, of those that are not banned if there are any."""
        free = (peer for peer, one in self._known.items() if now >= one.banned_until)
        del self._known[next(free, next(iter(self._known)))]


def compute_retry(failures: int, jitter: float) -> float:
    """Seconds to wait after so many failures in a row. `jitter`, from 0 to 1, spreads nodes apart."""
    return min(FIRST_RETRY * 2.0 ** min(failures - 1, 30), MAX_RETRY) * (0.5 + jitter / 2)


@dataclass(slots=True)
class Address:
    """Where a node may be reached."""

    url: str
    source: bytes | None
    """The peer that told of it; None when the operator did."""
    failures: int = 0
    """In a row."""
    next_try: float = 0.0


class AddressBook:
    """Where nodes may be reached. What the operator listed is never forgotten, and told to nobody."""

    def __init__(self, listed: Iterable[str], own: str = "") -> None:
        self._own = own
        self._addresses = {url: Address(url, None) for url in listed if url != own}

    def __len__(self) -> int:
        return len(self._addresses)

    def learn(self, url: str, source: bytes) -> bool:
        """Takes up what a peer tells of; False where it is known, or there is no room for it."""
        learnt = [one.source for one in self._addresses.values() if one.source is not None]
        is_full = len(learnt) >= MAX_LEARNT or learnt.count(source) >= MAX_LEARNT_FROM_ONE
        if url == self._own or url in self._addresses or is_full:
            return False
        self._addresses[url] = Address(url, source)
        return True

    def get_due(self, now: float) -> list[str]:
        """What may be dialled now: the operator's first, then what failed least."""
        due = [one for one in self._addresses.values() if one.next_try <= now]
        return [one.url for one in sorted(due, key=lambda one: (one.source is not None, one.failures))]

    def is_listed(self, url: str) -> bool:
        """Whether an address is the operator's own choice."""
        return url in self._addresses and self._addresses[url].source is None

    def get_failures(self, url: str) -> int:
        """How often in a row nobody was reached at an address."""
        return self._addresses[url].failures if url in self._addresses else 0

    def on_success(self, url: str) -> None:
        """A peer was reached at `url`."""
        if url in self._addresses:
            self._addresses[url].failures, self._addresses[url].next_try = 0, 0.0

    def on_failure(self, url: str, now: float, jitter: float) -> None:
        """None was. A learnt address that fails too often is forgotten."""
        address = self._addresses.get(url)
        if address is None:
            return
        address.failures += 1
        address.next_try = now + compute_retry(address.failures, jitter)
        if address.source is not None and address.failures >= FORGET_AFTER:
            del self._addresses[url]

    def forget(self, url: str) -> None:
        """Drops an address that leads to this node itself, or to one that is banned."""
        address = self._addresses.get(url)
        if address is not None and address.source is not None:
            del self._addresses[url]

    def get_learnt(self) -> list[Address]:
        """What peers told of."""
        return [one for one in self._addresses.values() if one.source is not None]


class ClockJudge:
    """Compares this machine's clock with those of its peers. Nobody is blamed for a clock."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}

    def on_status(self, peer: bytes, time_ms: int, now_ms: int) -> None:
        """A peer said what time it is; what the message's way took counts against it, and is short."""
        self._offsets[peer] = time_ms - now_ms

    def on_gone(self, peer: bytes) -> None:
        """A peer has left."""
        self._offsets.pop(peer, None)

    def get_offset(self) -> int:
        """Milliseconds by which most peers' clocks are ahead of this one; 0 when there are none."""
        return int(median(self._offsets.values())) if self._offsets else 0

    def get_words(self) -> str:
        """What is wrong, in a sentence; empty when nothing is."""
        offset, count = self.get_offset(), len(self._offsets)
        if abs(offset) <= MAX_SKEW_MS:
            return ""
        side = "behind" if offset > 0 else "ahead of"
        return f"This machine's clock is {abs(offset) / 1000:.1f} s {side} those of its {count} peers."
