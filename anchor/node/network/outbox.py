"""What an engine wants sent; its driver sends it."""

from __future__ import annotations

from typing import Any, NamedTuple

from anchor.node.network.messages import Kind, Message

PeerId = bytes
"""32 bytes: a peer's Ed25519 public key."""


class Send(NamedTuple):
    """What the driver is to do."""

    message: Message
    to: PeerId | None = None
    """None: every peer …"""
    but: PeerId | None = None
    """… except the one that it came from."""


class Outbox:
    """What waits to be handed to the driver."""

    def __init__(self) -> None:
        self._sends: list[Send] = []

    def publish(self, kind: Kind, value: Any) -> None:
        """Something of our own, for every peer."""
        self._sends.append(Send(Message(kind, value)))

    def forward(self, message: Message, peer: PeerId | None) -> None:
        """What `peer` sent, for every other peer."""
        self._sends.append(Send(message._replace(request=0), but=peer))

    def drain(self) -> list[Send]:
        """Everything that waits, in order; it waits no longer."""
        sends, self._sends = self._sends, []
        return sends
