"""Serving a node: sockets, TLS, signals, and a stop that lets answers end."""

from __future__ import annotations

import asyncio
import resource
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from anchor.errors import Misuse, Unavailable
from anchor.files import open_regular, read_bounded
from anchor.node.api.answering import Front
from anchor.node.app import build_app
from anchor.node.connections import MAX_CONNECTIONS, Doors
from anchor.node.hot import HotConnection
from anchor.node.logs import tell, warn
from anchor.node.node import Node

STOP_SECONDS: Final = 5.0
"""That answers have to end when the node stops."""
BACKLOG: Final = 1024
MAX_CERTIFICATE_BYTES: Final = 1 << 20
SPARE_FILES: Final = 256
"""Open files beside connections."""


@asynccontextmanager
async def serving(
    front: Front[Any],
    app: web.Application,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    doors: Doors | None = None,
) -> AsyncIterator[int]:
    """Serves an application for the length of the body, which is told the port.

    Raises Unavailable when the port is taken.
    """
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    server, counted = runner.server, doors or Doors()
    if server is None:
        raise Unavailable("The server did not start.")
    try:
        listener = await _listen(lambda: HotConnection(server, counted, front.hot), host, port, tls)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
            front.node.hang_up()
    finally:
        await runner.cleanup()


async def _listen(
    make: Callable[[], asyncio.Protocol], host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(make, host, port, ssl=tls, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unavailable(
            f"{host}:{port} cannot be listened on: {reason.lower()}.", fix="Choose another --host or --port."
        ) from None


async def run_node(node: Node, front: Front[Node], host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Serves until SIGTERM or SIGINT. Raises what ends the node's own work."""
    _allow_files()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await node.start()
    try:
        async with serving(front, build_app(front), host, port, tls=tls) as actual:
            scheme = "https" if tls else "http"
            final = f"0x{node.status.finalized.root.hex()}:{node.status.finalized.epoch}"
            role = "takes entries" if node.takes_entries else "only reads"
            tell(
                f"{node.status.name!a} is served at {scheme}://{host}:{actual}/ and {role}; final: {final}.",
                port=actual,
                finalized=final,
                takes_entries=node.takes_entries,
            )
            await _wait(stop, node)
            tell("Stopping.")
    finally:
        await node.stop()


def _allow_files() -> None:
    """Asks the system for as many open files as the node lets connections in."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most > soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        warn(f"Only {most} files may be open at once. Raise the limit (ulimit -n {wanted}).", limit=most)


async def _wait(stop: asyncio.Event, node: Node) -> None:
    work, told = asyncio.create_task(node.watch()), asyncio.create_task(stop.wait())
    health = asyncio.create_task(_watch_health(node))
    done, _ = await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
    for task in (work, told, health):
        task.cancel()
    if work in done:
        work.result()


async def _watch_health(node: Node) -> None:
    """Says once when health turns bad, and once when it turns good."""
    was_good = True
    while True:
        health = node.judge_health()
        if health.is_good != was_good:
            was_good = health.is_good
            (tell if was_good else warn)(health.words)
        await asyncio.sleep(5)


def load_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's side of TLS 1.2 or newer. Raises Misuse for files that do not fit, Unavailable for none."""
    for path in (certificate, key):
        with open_regular(path):
            pass  # OpenSSL would wait for a FIFO
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise Misuse(
            f"{certificate} and {key} are no certificate with its key: {error}.",
            fix="Give PEM files to --tls-cert and --tls-key.",
        ) from None
    return context


def compute_fingerprint(certificate: Path) -> bytes:
    """SHA-256 of the node's own certificate: the first in its PEM file. Raises Misuse where there is none."""
    text = read_bounded(certificate, MAX_CERTIFICATE_BYTES, "a certificate chain").decode("ascii", "replace")
    first = text[text.find(ssl.PEM_HEADER) :].partition(ssl.PEM_FOOTER)
    try:
        return sha256(ssl.PEM_cert_to_DER_cert(first[0] + first[1])).digest()
    except ValueError:
        raise Misuse(f"{certificate} holds no certificate.", fix="Give a PEM file to --tls-cert.") from None
