"""Two operators, two processes: from a draft to a model that verifies; one joins, and one leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from anchor.chain.nodes import fetch_data
from anchor.errors import Unavailable
from tests.node.tools import PHRASE

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PATIENCE = 240.0
"""Seconds until something must be seen, on a machine that has other things to do."""


class Lab:
    """A folder in which commands are run, and the nodes that were started there."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._nodes = folder, dict[str, subprocess.Popen[bytes]]()
        self._environment = {**os.environ, "ANCHOR_PASSPHRASE": PHRASE, "PYTHONPATH": str(ROOT)}
        self.ports = {name: find_port() for name in ("a", "b")}

    def run(self, *words: str, code: int = 0) -> Any:
        """The result of a command, or its error when it must fail."""
        done = subprocess.run(
            [sys.executable, "-m", "anchor.cli.main", *words, "--json"],
            capture_output=True,
            check=False,
            cwd=self._folder,
            env=self._environment,
            timeout=PATIENCE,
        )
        envelope = json.loads(done.stdout)
        assert done.returncode == code, envelope
        return envelope["error"] if code else envelope["result"]

    def start(self, name: str) -> None:
        """Starts an operator's node."""
        words = ["node", "--ledger", f"node-{name}", "--keystores", name, "--port", str(self.ports[name])]
        peers = [word for other in self.ports if other != name for word in ("--peer", self.url(other))]
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "anchor.cli.main", *words, *peers]
            self._nodes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, env=self._environment
            )

    def kill(self, name: str) -> None:
        """Kills an operator's node."""
        self._nodes[name].send_signal(signal.SIGKILL)
        self._nodes.pop(name).wait()

    def stop(self) -> None:
        """Kills all that still run."""
        for name in list(self._nodes):
            self.kill(name)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def get(self, name: str, path: str) -> Any:
        """What an operator's node answers."""
        return fetch_data(self.url(name), path, "answer")

    def wait_final(self, name: str, epochs: int) -> int:
        """Waits until a later epoch than `epochs` is final, says an operator's node; returns it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                final = int(self.get(name, "status")["finalized"].partition(":")[2])
            except Unavailable:
                final = -1
            if final > epochs:
                return final
            time.sleep(0.5)
        raise AssertionError(f"{name}: no epoch after {epochs} is final")


def find_port() -> int:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.stop()


def test_two_operators_found_a_network_and_publish(lab: Lab, tmp_path: Path) -> None:
    administrator = lab.run("keygen", "admin.key", "--administrator")["identity"]
    draft = ("--administrator", administrator, "--seconds-per-slot", "1", "-o", "draft.json")
    lab.run("network", "draft", "lab", *draft)
    for name in ("a", "b"):
        words = ("--network", "draft.json", "--operator", f"Lab {name}", "--count", "4", "--out", name)
        lab.run("validator", "keygen", *words)
    start = datetime.fromtimestamp(time.time() + 20, UTC).isoformat()
    words = ("a/deposits.json", "b/deposits.json", "--start", start, "-o", "genesis.json")
    trust = lab.run("network", "create", "draft.json", *words)["checkpoint"]
    for name in ("a", "b"):
        lab.run("network", "join", "genesis.json", f"node-{name}")
        lab.start(name)
    lab.wait_final("a", 0)

    # A publisher is registered at one node, publishes at the other, and anyone verifies offline.
    publisher = lab.run("keygen", "alice.key")["identity"]
    at = {name: ("--node", lab.url(name), "--trust", trust) for name in ("a", "b")}
    lab.run("network", "register", publisher, "--key", "admin.key", *at["a"])
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    words = ("--model", "acme/tiny", "--version", "1", "--key", "alice.key")
    verify = lab.run("publish", "model", *words, *at["b"])["verify"]
    assert lab.run(*verify[1:])["evidence"]["stage"] == "development"
    assert lab.run("status", "--ledger", "node-a")["operators"] == 2

    # Killed and started again, a node goes on signing, and contradicts nothing.
    lab.kill("a")
    lab.start("a")
    final = lab.wait_final("a", lab.wait_final("b", 0))

    # A third operator is consented to by both; one validator leaves.
    network = "node-a/network.json"
    words = ("--network", network, "--operator", "Lab c", "--count", "1", "--out", "c")
    lab.run("validator", "keygen", *words)
    lab.run("validator", "propose", "c/deposits.json", "--network", network, "-o", "proposal.json")
    for name in ("a", "b"):
        words = ("--network", network, "--keystores", name, "-o", f"consent-{name}.json")
        lab.run("validator", "consent", "proposal.json", *words)
    words = ("admit", "proposal.json", "consent-a.json")
    error = lab.run("validator", *words, "--key", "admin.key", *at["a"], code=1)
    assert "with 50% of the stake" in error["what"]
    lab.run("validator", *words, "consent-b.json", "--key", "admin.key", *at["a"])
    assert len(lab.get("b", "validators")) == 9
    lab.wait_final("b", max(final, 16))  # who leaves must have been active for 16 epochs
    leaver = next((tmp_path / "a").glob("keystore-*")).stem.removeprefix("keystore-")
    left = lab.run("validator", "exit", leaver, "--keystores", "a", *at["b"])["validators"]
    lab.wait_final("a", lab.wait_final("b", final) + 2)
    assert int(lab.get("a", f"validators/{left[0]}")["exit_epoch"]) < 1 << 20
    assert not any(lab.get(name, "evidence") for name in ("a", "b")), "nobody was slashed"
