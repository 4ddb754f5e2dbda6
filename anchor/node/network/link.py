"""One connection to a peer: frames over a websocket, bounded in size, in number and in time.

What a frame means is not known here.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType, web

from anchor.errors import MalformedAnswer, RefusedPeer, Unavailable
from anchor.node.network.messages import MAX_FRAME

IDLE_SECONDS: Final = 30.0
"""Without a whole frame, after which a link is cut: peers tell each other how they stand more often."""
WRITE_SECONDS: Final = 20.0
"""In which a peer must have taken a frame."""
CLOSE_SECONDS: Final = 1.0
MAX_QUEUED: Final = 1024
MAX_QUEUED_BYTES: Final = 2 * MAX_FRAME
"""Frames, and their bytes, that wait for one peer."""
MAX_KNOWN: Final = 8192
"""Pushed frames that are remembered for each peer, so that it never gets one again, or back."""
MAX_PINGS: Final = 64
"""That a peer may send between two frames."""
REFUSED: Final = 4000
"""The code with which a websocket is closed where a node refuses its peer; the reason says why."""
GOING_AWAY: Final = 1001
MAX_REASON_BYTES: Final = 123
"""What a close frame has room for (RFC 6455, 5.5)."""
Socket = web.WebSocketResponse | ClientWebSocketResponse
OnFrame = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Link:
    """A peer that is connected."""

    socket: Socket
    peer: bytes
    """Its identity, proven."""
    url: str
    """Where it was reached, else where it says that it can be; empty when it does not say."""
    said_url: str
    """Where it says that it can be reached: that may be told to others."""
    address: str
    """Of its end of the connection."""
    is_dialled: bool
    """Whether this node opened the connection."""
    frames: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED))
    """To be sent."""
    queued_bytes: int = 0
    known: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""

    def note(self, digest: bytes) -> bool:
        """Remembers a pushed frame; whether the peer has neither had nor sent it before."""
        is_new = digest not in self.known
        self.known[digest] = None
        self.known.move_to_end(digest)
        if len(self.known) > MAX_KNOWN:
            self.known.popitem(last=False)
        return is_new

    def has_room(self, size: int) -> bool:
        """Whether a frame of `size` bytes can wait behind the others."""
        return not self.frames.full() and self.queued_bytes + size <= MAX_QUEUED_BYTES

    def send(self, frame: bytes) -> bool:
        """Puts a frame behind those that wait; False when the peer is too slow for that."""
        if not self.has_room(len(frame)):
            return False
        self.queued_bytes += len(frame)
        self.frames.put_nowait(frame)
        return True

    async def deliver(self, frame: bytes) -> None:
        """As `send`, and waits for room: for answers, whose asker sets the pace."""
        while not self.send(frame):
            self.room.clear()
            await self.room.wait()

    def drop(self, why: str = "") -> None:
        """Ends the link. A reason is told to the peer."""
        self.why = self.why or why
        self.dropped.set()

    async def talk(self, on_frame: OnFrame) -> None:
        """Sends what waits and hands over what comes, until either side ends it.

        Raises MalformedAnswer for what is no frame, Unavailable for a peer that is silent or does not read.
        """
        tasks = [
            asyncio.create_task(self._read(on_frame)),
            asyncio.create_task(self._write()),
            asyncio.create_task(self.dropped.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _write(self) -> None:
        while True:
            frame = await self.frames.get()
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self.socket.send_bytes(frame)
            except TimeoutError:
                raise Unavailable("It does not read what it is sent.") from None
            except (OSError, ClientError):
                raise Unavailable("The connection broke.") from None
            self.queued_bytes -= len(frame)
            self.room.set()

    async def _read(self, on_frame: OnFrame) -> None:
        while (frame := await read_frame(self.socket, IDLE_SECONDS)) is not None:
            await on_frame(frame)


async def read_frame(socket: Socket, seconds: float) -> bytes | None:
    """The next binary message; None at a plain end.

    Raises RefusedPeer where the other side says why it hangs up, MalformedAnswer for what is no frame,
    Unavailable when nothing whole comes for too long.
    """
    for _ in range(MAX_PINGS):
        try:
            message = await socket.receive(seconds)
        except TimeoutError:
            raise Unavailable(f"It has said nothing for {seconds:.0f} s.") from None
        if message.type is WSMsgType.PING:
            await socket.pong(message.data)
        elif message.type is WSMsgType.BINARY:
            return bytes(message.data)
        elif message.type in (WSMsgType.TEXT, WSMsgType.ERROR):
            raise MalformedAnswer("It sent what is no frame, or too long for one.")
        elif message.type is WSMsgType.CLOSE and message.data == REFUSED:
            raise RefusedPeer(f"It refuses: {message.extra or 'it does not say why.'}")
        elif message.type is not WSMsgType.PONG:
            return None
    raise MalformedAnswer(f"It sent {MAX_PINGS} pings and no frame.")


async def hang_up(socket: Socket, why: str = "") -> None:
    """Closes a websocket, with a reason if there is one; the other side has a second to answer."""
    reason = why.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore").encode()
    try:
        async with asyncio.timeout(2 * CLOSE_SECONDS):
            await socket.close(code=REFUSED if why else GOING_AWAY, message=reason)
    except (TimeoutError, OSError, ClientError, RuntimeError):
        return  # it has gone already, or does not listen
