"""The peers of a node, as it knows them: who is connected, how each stands, and what is held against whom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchor.consensus.text import format_duration, format_identity
from anchor.errors import MalformedFile
from anchor.merkle.scope import Scope
from anchor.node.logs import tell, warn
from anchor.node.network.handshake import NO_CERTIFICATE, Identity, Randomness
from anchor.node.network.judging import compute_digest
from anchor.node.network.link import Link
from anchor.node.network.links import Links
from anchor.node.network.memory import encode_memory, load_memory, save_memory
from anchor.node.network.messages import Kind, Message, PeerStatus, encode_message
from anchor.node.network.outbox import Send
from anchor.node.network.peers import AddressBook, ClockJudge, Fault, Standings
from anchor.node.network.syncing import Ask
from anchor.node.network.traffic import Allowances, MessageCounter, Seen


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator says about peers."""

    listed: tuple[str, ...] = ()
    """Addresses to dial."""
    most: int = 32
    """Peers at once."""
    url: str = ""
    """Where this node can be reached; empty: nobody is told."""
    prunes: bool = False
    """Whether blocks that nobody's trust needs are let go of."""
    has_faults: bool = False
    """Whether operators may make it misbehave, on a devnet."""
    certificate: bytes = NO_CERTIFICATE
    """SHA-256 of the certificate that its port shows."""


class Company:
    """Peers, connected or remembered. One event loop calls all of it."""

    def __init__(
        self, folder: Path, own: Identity, settings: Settings, scope: Scope, randomness: Randomness
    ) -> None:
        self._folder, self._scope = folder, scope
        self.links = Links(own, settings.most, randomness, self.refuse)
        self.book, self.standings = _remember(folder, settings)
        self.clocks, self.allowances = ClockJudge(), Allowances()
        self.counter, self.seen = MessageCounter(), Seen()
        self.statuses: dict[bytes, PeerStatus] = {}
        self.unheard: frozenset[str] = frozenset()
        """Identities and addresses that are not talked to while a fault is injected."""

    # Who may

    def refuse(self, peer: bytes, url: str) -> str:
        """Why there is no talk with a peer now; empty when there may be."""
        if self.is_unheard(peer, url):
            return "It does not talk to you now: a fault is injected."
        ban = self.standings.get_ban(peer, time.time())
        return f"It banned you for {format_duration(int(ban) + 1)} more." if ban else ""

    def is_unheard(self, peer: bytes, url: str) -> bool:
        """Whether an injected fault cuts this peer off."""
        return not self.unheard.isdisjoint((format_identity(peer), url))

    def cut_off(self, unheard: frozenset[str]) -> None:
        """Stops talking to these identities and addresses, and to no others."""
        self.unheard = unheard
        for link in list(self.links.all.values()):
            if self.is_unheard(link.peer, link.url):
                link.drop("A fault is injected.")

    def blame(self, peer: bytes, fault: Fault, what: str) -> None:
        """Holds something against a peer, and hangs up when it is too much."""
        if not self.standings.blame(peer, fault, time.time()):
            return
        words = format_duration(int(self.standings.get_ban(peer, time.time())))
        warn(f"Peer {format_identity(peer)} is banned for {words}. {what}", peer=format_identity(peer))
        if peer in self.links.all:
            self.links.all[peer].drop(f"You are banned for {words}. {what}")

    # What is sent

    def hand_out(self, sends: Iterable[Send]) -> None:
        """Sends messages to whom they are for, but never twice to one peer."""
        for send in sends:
            frame = encode_message(self._scope, send.message)
            digest = compute_digest(frame)
            self.seen.add(digest)
            for link in list(self.links.all.values()):
                if send.to in (None, link.peer) and link.peer != send.but and link.note(digest):
                    self._send(link, frame)

    def tell_status(self, status: PeerStatus, links: Sequence[Link]) -> None:
        """Tells some how this node stands."""
        frame = encode_message(self._scope, Message(Kind.STATUS, status))
        for link in links:
            self._send(link, frame)

    def tell(self, link: Link, message: Message) -> None:
        """Sends one peer a message."""
        self._send(link, encode_message(self._scope, message))

    def ask(self, asks: Iterable[Ask]) -> list[bytes]:
        """Sends questions; returns peers that are gone meanwhile."""
        gone = []
        for ask in asks:
            if ask.peer in self.links.all:
                self.tell(self.links.all[ask.peer], ask.message)
            else:
                gone.append(ask.peer)
        return gone

    def _send(self, link: Link, frame: bytes) -> None:
        if not link.send(frame):
            self.blame(link.peer, Fault.SLOW, "It does not read what it is sent.")
            link.drop("You are too slow.")

    # What is known

    def on_gone(self, peer: bytes) -> None:
        """A peer is no longer connected."""
        self.statuses.pop(peer, None)
        self.clocks.on_gone(peer)

    def describe(self) -> list[dict[str, Any]]:
        """The peers that are connected, for anyone."""
        return [self._describe(link) for link in self.links.all.values()]

    def describe_fully(self) -> list[dict[str, Any]]:
        """The same, for operators."""
        now = time.time()
        return [
            {
                **self._describe(link),
                "address": link.address,
                "url": link.url,
                "points": round(self.standings.get_points(link.peer, now), 1),
                "waiting": link.frames.qsize(),
            }
            for link in self.links.all.values()
        ]

    def _describe(self, link: Link) -> dict[str, Any]:
        status = self.statuses.get(link.peer)
        return {
            "peer": format_identity(link.peer),
            "direction": "out" if link.is_dialled else "in",
            "head_slot": 0 if status is None else int(status.head_slot),
        }

    def save(self) -> Callable[[], None]:
        """What writes down the addresses and the bans of this moment; it may run in another thread."""
        data = encode_memory(self.book, self.standings, time.time())
        return lambda: save_memory(self._folder, data)


def _remember(folder: Path, settings: Settings) -> tuple[AddressBook, Standings]:
    try:
        return load_memory(folder, settings.listed, settings.url)
    except MalformedFile as error:
        tell(f"{error.what} The node begins a new one.")
        return AddressBook(settings.listed, settings.url), Standings()
