"""Lodestar 1.5.1 as a process: a beacon node of others, on loopback, with a chain of its own."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
SECONDS_PER_SLOT = 3
SLOTS_PER_EPOCH = 8
REDIAL_SECONDS = 40.0
DELAYS = (25, 60, 120)
"""Seconds from a node's start to its chain's, one attempt after another."""
PARAMETERS = ("--params.SECONDS_PER_SLOT", str(SECONDS_PER_SLOT), "--params.ALTAIR_FORK_EPOCH", "0")


def require_lodestar() -> None:
    """Skips the test where Lodestar is not installed."""
    if shutil.which("node") is None:
        pytest.skip("no Node.js here: Lodestar cannot run")
    if not (CACHE / ".ready").exists():
        pytest.skip("Lodestar is not installed: make test-real installs it")


def find_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Lodestar:
    """A running node."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")

    def get(self, path: str) -> Any:
        with urlopen(f"{self.url}{path}", timeout=5) as answer:  # noqa: S310
            return json.load(answer)["data"]

    def get_finalized(self) -> tuple[int, str]:
        known = self.get("/eth/v1/beacon/states/head/finality_checkpoints")["finalized"]
        return int(known["epoch"]), known["root"]

    def get_head(self) -> int:
        return int(self.get("/eth/v1/node/syncing")["head_slot"])

    def connect(self, other: Lodestar) -> None:
        """Dials another node, anew where it is connected: each tells the other where its head is now."""
        identity = other.get("/eth/v1/node/identity")
        address = next(a for a in identity["p2p_addresses"] if "127.0.0.1" in a)
        self.post("disconnect_peer", peerId=identity["peer_id"])
        assert self.post("connect_peer", peerId=identity["peer_id"], multiaddr=address) == 200

    def post(self, command: str, **query: str) -> int:
        """The status that Lodestar answers a command of its own with."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", f"/eth/v1/lodestar/{command}?{urlencode(query)}")
            return connection.getresponse().status
        finally:
            connection.close()

    def catch_up(self, other: Lodestar, seconds: float) -> None:
        """Reaches another node's head. This release asks a peer for its head when it connects, and again only
        minutes later: where that head was passed meanwhile, it is asked by dialling anew.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.connect(other)
            if self.find("head", lambda: self.get_head() >= other.get_head() - 1, REDIAL_SECONDS):
                return
        raise AssertionError(f"the head is not reached in {seconds} s:\n{self.log[-3000:]}")

    def wait(self, what: str, is_done: Any, seconds: float) -> Any:
        """What `is_done` gives, once it gives something true."""
        found = self.find(what, is_done, seconds)
        assert found, f"no {what} in {seconds} s:\n{self.log[-3000:]}"
        return found

    def find(self, what: str, is_done: Any, seconds: float) -> Any:
        """The same; None where it does not in this time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"Lodestar ended before {what}:\n{self.log[-3000:]}"
            try:
                found = is_done()
            except (URLError, ConnectionError, TimeoutError, KeyError):
                found = None
            if found:
                return found
            time.sleep(0.5)
        return None


def _end_with_parent() -> None:
    """Whoever is killed before it can end its nodes leaves none behind (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@contextmanager
def run(folder: Path, command: str, arguments: Sequence[str]) -> Iterator[Lodestar]:
    """A node until the body ends. It ignores SIGTERM, and is killed by its own id."""
    folder.mkdir(parents=True)
    port, p2p = find_port(), find_port()
    home = CACHE / "lodestar"
    line = [
        "node", "--import", str(home / "polyfill.mjs"),
        str(home / "node_modules/@chainsafe/lodestar/lib/index.js"), command,
        "--dataDir", str(folder / "data"), *PARAMETERS, *arguments,
        "--sync.isSingleNode", "true", "--network.allowPublishToZeroPeers", "true",
        "--eth1", "false", "--execution.engineMock",
        "--rest", "--rest.address", "127.0.0.1", "--rest.port", str(port), "--rest.namespace", "*",
        "--listenAddress", "127.0.0.1", "--port", str(p2p), "--enr.ip", "127.0.0.1",
    ]  # fmt: skip
    if command == "dev":
        line += ["--beaconNodes", f"http://127.0.0.1:{port}"]
    environment = os.environ | {"LODESTAR_PRESET": "minimal"}
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            line,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 (no thread runs here)
        )
    try:
        yield Lodestar(folder, port, process)
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def run_chain(folder: Path) -> Iterator[Lodestar]:
    """A node with eight validators, and a chain that has begun.

    A node that is not up when its chain starts waits for peers, and never makes a block: on a machine that is
    busy it is given longer.
    """
    arguments = ["--reset", "--genesisValidators", "8", "--startValidators", "0..7"]
    for attempt, delay in enumerate(DELAYS):
        genesis = str(int(time.time()) + delay)
        with run(folder / str(attempt), "dev", [*arguments, "--genesisTime", genesis]) as node:
            is_last = delay == DELAYS[-1]
            if node.find("first blocks", lambda node=node: node.get_head() > 1, delay + 45) or is_last:
                yield node
                return


def run_consumer(folder: Path, genesis: Path, source: str, checkpoint: str) -> Any:
    """A node that syncs from a checkpoint that `source` serves."""
    arguments = ["--network", "dev", "--genesisStateFile", str(genesis), "--checkpointSyncUrl", source]
    return run(folder, "beacon", [*arguments, "--wssCheckpoint", checkpoint])
