"""Whether a node can be reached as a peer, and what it says: a handshake, one word, and good-bye."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from anchor.consensus.schemes import SigningKey
from anchor.errors import MalformedSSZ, Unavailable
from anchor.node.chain import Chain
from anchor.node.clock import Clock
from anchor.node.network.handshake import Identity, Randomness
from anchor.node.network.identity import SEED_BYTES
from anchor.node.network.link import Link
from anchor.node.network.links import HANDSHAKE_SECONDS, Links, make_session
from anchor.node.network.messages import Kind, PeerStatus, decode_message
from anchor.params import SCHEME_ED25519


class Met(NamedTuple):
    """A peer, as it showed itself."""

    peer: bytes
    """Its identity."""
    status: PeerStatus
    offset_ms: int
    """By which its clock is ahead of this machine's."""


async def probe_peer(url: str, chain: Chain, clock: Clock, randomness: Randomness) -> Met:
    """Meets the node at `url` as a stranger of the chain's network, with a key for this once.

    Raises Unavailable when it cannot be reached or says nothing, other AnchorErrors where it is no peer.
    """
    key = SigningKey(SCHEME_ED25519, randomness(SEED_BYTES))
    network_id = chain.get_head().state.genesis_validators_root
    own = Identity(key, network_id, chain.genesis.fork_version)
    met: list[Met] = []

    async def converse(link: Link) -> None:
        async def on_frame(frame: bytes) -> None:
            if frame[:1] == bytes([Kind.STATUS]):
                status = decode_message(chain.scope, frame).value
                met.append(Met(link.peer, status, int(status.time_ms) - clock.now_ms()))
                link.drop()

        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await link.talk(on_frame)

    links = Links(own, 1, randomness, lambda *_: "")
    async with make_session() as session:
        try:
            await links.dial(session, url, converse)
        except (TimeoutError, MalformedSSZ):
            raise Unavailable("It does not say how it stands.") from None
    if not met:
        raise Unavailable("It hung up at once.")
    return met[0]
