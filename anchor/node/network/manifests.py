"""Manifests that the chain names and this node lacks: got from peers over HTTP, checked by their roots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from anchor.chain.beacon.answers import SSZ
from anchor.chain.beacon.endpoint import parse_endpoint
from anchor.chain.beacon.http import Client, Timeouts, open_session
from anchor.errors import AnchorError, CorruptedLedger, MalformedAnswer, Unavailable
from anchor.ml.manifest import decode_manifest, manifest_root

LOOK_SECONDS: Final = 1.0
WAITED_PART: Final = 8
"""What was missing for a time is asked for again after this part of it: soon when its entry is new, ever less
often when its publisher never brings it."""
MAX_RETRY: Final = 300.0
MAX_MANIFEST_BYTES: Final = 64 << 20
TIMEOUTS: Final = Timeouts(idle=10.0, total=300.0)


class Fetcher:
    """Gets one manifest after the other, each from whichever peer has it."""

    def __init__(
        self,
        find_missing: Callable[[], Awaitable[list[bytes]]],
        get_urls: Callable[[], Iterable[str]],
        keep: Callable[[bytes, bytes], Awaitable[None]],
    ) -> None:
        self._find_missing, self._get_urls, self._keep = find_missing, get_urls, keep
        self._since: dict[bytes, float] = {}
        self._next_try: dict[bytes, float] = {}

    async def run(self) -> None:
        """Fetches what is missing, for ever."""
        time = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look(time)
            except CorruptedLedger:
                raise
            except Unavailable:
                continue  # the store cannot be used now, which is said elsewhere

    async def _look(self, time: Callable[[], float]) -> None:
        for root in await self._find_missing():
            if self._next_try.get(root, 0.0) <= time() and not await self._try_all(root):
                now = time()
                waited = now - self._since.setdefault(root, now)
                self._next_try[root] = now + min(waited / WAITED_PART, MAX_RETRY)

    async def _try_all(self, root: bytes) -> bool:
        """Whether some peer gave a manifest, which then is kept."""
        for url in list(self._get_urls()):
            try:
                data = await fetch_manifest(url, root)
            except AnchorError:
                continue  # this one has it not, or not now
            await self._keep(root, data)
            self._since.pop(root, None)
            self._next_try.pop(root, None)
            return True
        return False


async def fetch_manifest(url: str, root: bytes) -> bytes:
    """The encoding of the manifest with this root, from the node at `url`.

    Raises NotServed, Unavailable, MalformedAnswer and MalformedSSZ for what is not that.
    """
    async with open_session() as session:
        client = Client(session, parse_endpoint(url), TIMEOUTS)
        path = f"/anchor/v1/manifests/0x{root.hex()}"
        answer = await client.get("a manifest", path, accept=SSZ, limit=MAX_MANIFEST_BYTES)
    computed = await asyncio.to_thread(lambda: manifest_root(decode_manifest(answer.body)))
    if computed != root:
        raise MalformedAnswer(f"{url} gives manifest 0x{computed.hex()} for 0x{root.hex()}.")
    return answer.body
