"""What `anchor sync` does with endpoints: ask them all, take what holds, follow, serve."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from anchor.bundle.trust import resolve_trust
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.chain.beacon.claims import (
    Claim,
    choose_unverified,
    describe_claims,
    drop_refuted,
    find_conflict,
    keep_conflict,
    require_choice,
    require_no_conflict,
)
from anchor.chain.beacon.endpoint import parse_endpoint
from anchor.chain.beacon.follow import Followed, Follower, News, advance
from anchor.chain.beacon.http import Client, Timeouts, open_session
from anchor.chain.beacon.light import start_light
from anchor.chain.beacon.networks import Network
from anchor.chain.beacon.sync import (
    Note,
    Settings,
    ask_in_turn,
    find_skew,
    get_network,
    place,
    survey,
    sync_checkpoint,
    sync_newer,
)
from anchor.cli.output import Terminal
from anchor.cli.sync import (
    DownloadBar,
    Found,
    get_folder,
    keep,
    keep_followed,
    load_stored,
    make_settings,
)
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint
from anchor.errors import AnchorError, InvalidCheckpoint
from anchor.node.app import build_beacon_app, build_front
from anchor.node.clock import SystemClock
from anchor.node.operators import Operators
from anchor.node.server import serving
from anchor.node.synced import SyncedNode, SyncedView

LISTEN: Final = "127.0.0.1"
RATE: Final = 100.0
"""Requests a second from one address."""


async def sync(options: Namespace, terminal: Terminal, network: Network | None) -> Found:
    """Finds, verifies, keeps, follows and serves what was asked for."""
    endpoints = [parse_endpoint(url) for url in options.urls]
    timeouts = Timeouts(idle=options.idle_timeout, total=options.timeout)
    with ExitStack() as bars:
        settings = make_settings(options, terminal, network, DownloadBar(terminal, bars))
        async with open_session() as session:
            clients = [Client(session, endpoint, timeouts) for endpoint in endpoints]
            return await _Sync(options, settings, clients).run()


@asynccontextmanager
async def _serve(node: SyncedNode, port: int) -> AsyncIterator[str]:
    """Serves a node on loopback until the body ends; its address."""
    front = build_front(node, Operators(), rate=RATE)
    try:
        async with serving(front, build_beacon_app(front), LISTEN, port) as actual:
            yield f"http://{LISTEN}:{actual}"
    finally:
        node.close()


class _Sync:
    """One run of the command."""

    def __init__(self, options: Namespace, settings: Settings, clients: Sequence[Client]) -> None:
        self._options, self._settings, self._clients = options, settings, list(clients)
        self._found = Found()
        self._node: SyncedNode | None = None

    async def run(self) -> Found:
        """All of it, in order."""
        checkpoint = await self._choose()
        if self._options.light:
            follower, followed = await self._start_light(checkpoint)
            followed = await self._look(follower, followed, self._warn)
            self._settings.note("The bootstrap is the trusted block's.")
            self._note_final(follower.to_checkpoint(followed.finalized))
        else:
            anchor = self._found.anchor = await self._sync_anchor(checkpoint)
            await asyncio.to_thread(keep, self._options, self._found)
            follower = Follower(anchor.network)
            followed = follower.start(anchor)
            self._settings.note("Block and state are those of the checkpoint.")
        await self._warn_of_skew(follower.network)
        async with AsyncExitStack() as stack:
            if self._options.serve is not None and self._found.anchor is not None:
                self._node = SyncedNode(SyncedView([self._found.anchor]), SystemClock())
                address = await stack.enter_async_context(_serve(self._node, self._options.serve))
                self._settings.note(f"Serving what is verified on {address}.")
            await self._follow(follower, followed)
        return self._found

    async def _choose(self) -> Checkpoint:
        """The checkpoint to hold everything to; endpoints that contradict it are left out."""
        given = resolve_trust(self._options.trust).checkpoint if self._options.trust else None
        claims = await survey(self._clients) if len(self._clients) > 1 or given is None else []
        self._keep_conflicts(claims, given)
        if given is not None:
            return given
        if not self._options.unverified:
            require_choice(claims)
        self._found.is_trusted = False
        self._found.warnings += [f"unverified: {line}" for line in describe_claims(claims)]
        return choose_unverified(claims)

    def _keep_conflicts(self, claims: Sequence[Claim], given: Checkpoint | None) -> None:
        """Keeps evidence of two roots at one epoch; stops unless the user's own root decides between them."""
        refuted = drop_refuted(claims, given) if given is not None else set()
        folder, now = get_folder(self._options).parent, time.time()
        if refuted and given is not None:
            own = find_conflict([claim for claim in claims if claim.label in refuted], given)
            if own is not None:
                kept = keep_conflict(folder, own, now)
                self._warn(f"{own.describe()}: left out. This is kept in {kept}.")
            self._clients = [client for client in self._clients if client.label not in refuted]
            if not self._clients:
                raise InvalidCheckpoint("Every endpoint contradicts the trusted checkpoint.")
        conflict = find_conflict([claim for claim in claims if claim.label not in refuted])
        require_no_conflict(conflict, keep_conflict(folder, conflict, now) if conflict else None)

    async def _sync_anchor(self, checkpoint: Checkpoint) -> VerifiedCheckpoint:
        stored = await asyncio.to_thread(load_stored, self._options, checkpoint)
        if stored is not None:
            return stored
        anchor = await sync_checkpoint(self._clients, checkpoint, self._settings, time.time())
        if anchor.checkpoint != checkpoint:
            self._warn(f"proven by light client from {format_checkpoint(checkpoint)}, whose state is gone")
        return anchor

    async def _start_light(self, checkpoint: Checkpoint) -> tuple[Follower, Followed]:
        async def ask(client: Client) -> tuple[Follower, Followed]:
            now, expired = time.time(), self._settings.accept_expired
            network = await get_network(client, self._settings, now)
            return await start_light(client, network, checkpoint, now, accept_expired=expired)

        return await ask_in_turn(self._clients, ask, self._settings.note)

    async def _warn_of_skew(self, network: Network) -> None:
        warning = await find_skew(self._clients[0], network, time.time())
        if warning:
            self._warn(warning)

    async def _follow(self, follower: Follower, followed: Followed) -> None:
        """Follows as many final checkpoints as were asked for; waits between looks."""
        wanted = self._options.follow or 0
        wanted += len(self._found.followed) if wanted > 0 else 0
        async with News(self._clients, self._options.poll) as news:
            while wanted < 0 or len(self._found.followed) < wanted:
                before = followed.finalized.beacon.slot
                followed = await self._look(follower, followed, self._settings.note)
                if followed.finalized.beacon.slot > before:
                    await self._take(follower, followed)
                else:
                    await news.wait()
            while self._node is not None and self._options.follow is None:
                await news.wait()

    async def _look(self, follower: Follower, followed: Followed, tell: Note) -> Followed:
        """What is known after asking in turn; what does not hold is told, and changes nothing."""

        async def ask(client: Client) -> Followed:
            return await advance(client, follower, followed, time.time())

        try:
            return await ask_in_turn(self._clients, ask, self._settings.note)
        except AnchorError as error:
            tell(place(self._clients[0], error) if len(self._clients) == 1 else error.what)
            return followed

    async def _take(self, follower: Follower, followed: Followed) -> None:
        """Notes a newly final checkpoint; for those we serve, its block and state are loaded too."""
        newest = follower.to_checkpoint(followed.finalized)
        self._note_final(newest)
        keep_followed(self._options, self._found, followed.finalized.beacon.slot)
        if self._node is None:
            return
        self._node.publish(self._node.view.with_followed(followed))

        async def ask(client: Client) -> VerifiedCheckpoint:
            settings = replace(self._settings, accept_expired=False)
            return await sync_newer(client, follower.network, newest, settings, time.time())

        try:
            anchor = await ask_in_turn(self._clients, ask, self._settings.note)
            self._node.publish(self._node.view.with_anchor(anchor))
        except AnchorError as error:
            self._settings.note(f"Its state cannot be served: {error.what}")

    def _note_final(self, checkpoint: Checkpoint) -> None:
        self._found.followed.append(checkpoint)
        self._settings.note(f"{format_checkpoint(checkpoint)} is final.")

    def _warn(self, text: str) -> None:
        self._found.warnings.append(text)
        self._settings.note(text)
