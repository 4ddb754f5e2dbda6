"""Finding peers: dialling the addresses that are known, and learning others from whoever is connected."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from random import random
from typing import Final

from aiohttp import ClientSession

from anchor.errors import AnchorError, Misuse
from anchor.node.logs import warn
from anchor.node.network.company import Company
from anchor.node.network.link import Link
from anchor.node.network.links import Converse, make_session
from anchor.node.network.messages import MAX_ADDRESSES, Addresses, Kind, Message
from anchor.node.network.urls import may_dial, parse_url

LOOK_SECONDS: Final = 0.25
"""Between two looks at whom to dial."""
MAX_DIALS: Final = 8
"""That are not answered yet, at once."""
COMPLAIN_AT: Final = 3
"""Failures in a row of an address that the operator listed, after which that is said once."""
ENOUGH: Final = 2
"""Learnt addresses are dialled until one in so many places is taken: the rest is for those who call."""


class Dialling:
    """Keeps a node connected to its listed peers, and to some that it learnt of."""

    def __init__(self, company: Company, most: int, converse: Converse) -> None:
        self._company, self._most, self._converse = company, most, converse
        self._dials: dict[str, asyncio.Task[None]] = {}
        """By address; each lasts as long as its link."""

    async def run(self) -> None:
        """Dials, for ever."""
        async with make_session() as session:
            try:
                while True:
                    for url in self._choose():
                        self._dials[url] = asyncio.create_task(self._dial(session, url))
                    await asyncio.sleep(LOOK_SECONDS)
            finally:
                tasks = list(self._dials.values())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _choose(self) -> list[str]:
        """Whom to dial now."""
        links, book = self._company.links, self._company.book
        asked = [url for url in self._dials if links.reached.get(url) not in links.all]
        room = min(self._most - len(links.all), MAX_DIALS) - len(asked)
        chosen = [
            url
            for url in book.get_due(time.time())
            if url not in self._dials
            and links.reached.get(url) not in links.all
            and not any(url == link.url for link in links.all.values())
            and not self._company.is_unheard(b"", url)
            and (book.is_listed(url) or len(links.all) + len(asked) < self._most // ENOUGH)
        ]
        return chosen[: max(room, 0)]

    async def _dial(self, session: ClientSession, url: str) -> None:
        book = self._company.book

        async def converse(link: Link) -> None:
            book.on_success(url)
            await self._converse(link)

        try:
            await self._company.links.dial(session, url, converse)
        except AnchorError as error:
            if book.is_listed(url) and book.get_failures(url) == COMPLAIN_AT:
                warn(f"Peer {url} is not connected. {error.what} It is dialled again and again.", url=url)
        finally:
            book.on_failure(url, time.time(), random())  # noqa: S311 (it only spreads nodes apart)
            del self._dials[url]

    # Addresses

    def introduce(self, link: Link) -> None:
        """Tells a peer where others say that they can be reached."""
        links = self._company.links.all.values()
        urls = [other.said_url.encode() for other in links if other.said_url and other is not link]
        if urls:
            self._company.tell(link, Message(Kind.ADDRESSES, Addresses(urls=tuple(urls[:MAX_ADDRESSES]))))

    def learn(self, link: Link, addresses: Addresses) -> None:
        """Takes up what a peer tells of. What is no address, or not to be dialled, is nobody's fault."""
        for url in addresses.urls:
            with suppress(Misuse):
                parsed = parse_url(url.decode("utf-8", "replace"))
                if may_dial(parsed, link.address):
                    self._company.book.learn(parsed, link.peer)

    def on_link(self, link: Link) -> None:
        """A peer is connected: where it says it can be reached is worth a try later."""
        if link.said_url and may_dial(link.said_url, link.address):
            self._company.book.learn(link.said_url, link.peer)
        self.introduce(link)
