"""The commands as processes: two at once, and killed while they run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from anchor.node.folder import open_reader
from tests.node.tools import PHRASE, published

ANCHOR = """
import sys
from anchor.cli.main import main
from anchor.node import keys

keys.SCRYPT_N = 1 << 4  # cheap passphrases
sys.exit(main())
"""
ROOT = Path(__file__).parents[2]


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"ANCHOR_PASSPHRASE": PHRASE, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", ANCHOR, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(folder: Path, *arguments: str) -> Any:
    process = _start(folder, *arguments, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return json.loads(out)["result"]


def _publish(folder: Path, version: str, *more: str) -> subprocess.Popen[str]:
    names = ("--model", "acme/tiny", "--version", version, "--key", "alice.key")
    return _start(folder, "publish", "model", *names, *more)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a ledger, a publisher and a model."""
    _run(tmp_path, "init", "ledger")
    _run(tmp_path, "keygen", "alice.key")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return tmp_path


def test_two_at_once(home: Path) -> None:
    """Both are brand-new to the ledger: the second finds the publisher registered when its turn comes."""
    processes = [_publish(home, version, "-o", f"{version}.anchor") for version in ("1", "2", "3")]
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], results
    with open_reader(home / "ledger") as chain:
        assert sorted(published(chain)) == ["1", "2", "3"]
    for out, _ in results:
        words = out.split("offline:")[1].replace("\\\n", " ").split()
        _run(home, *words[1:])


def test_killed_when_it_says_what_it_does(home: Path) -> None:
    """At chosen points of what is shown: in the first epoch, in the second, at the end."""
    acknowledged: list[str] = []
    for case, sign in enumerate(["■", "justified\nepoch", "is final"]):
        process = _publish(home, f"{case}")
        assert process.stderr is not None
        shown = ""
        while sign not in shown and (char := process.stderr.read(1)):
            shown += char
        process.kill()
        out, err = process.communicate(timeout=120)
        if process.returncode == 0:
            acknowledged.append(f"{case}")
        else:
            assert process.returncode == -signal.SIGKILL, out + err
        with open_reader(home / "ledger") as chain:
            assert set(acknowledged) <= set(published(chain))
    _finish_all(home, [f"{case}" for case in range(3)])


def _finish_all(home: Path, versions: list[str]) -> None:
    """Publishing again brings whatever is missing; all verifies in the end."""
    for version in versions:
        process = _publish(home, version)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 or "is published already" in err, out + err
    status = _run(home, "status")
    assert status["entries"] == status["final_entries"]
    with open_reader(home / "ledger") as chain:
        assert sorted(published(chain)) == versions
    bundle = ("bundle", f"acme/tiny@{versions[-1]}", "--for", status["genesis"], "--ledger", "ledger")
    _run(home, *bundle, "-o", "model/model.anchor")
    identity = json.loads((home / "alice.key").read_text())["identity"]
    trust = ("--trust", status["genesis"], "--publisher", identity)
    _run(home, "verify", "model", *trust, "--model", f"acme/tiny@{versions[-1]}")


@pytest.mark.slow
def test_killed_at_random(home: Path) -> None:
    chance = random.Random(11)
    start = time.monotonic()
    _publish(home, "0").communicate(timeout=120)
    longest = time.monotonic() - start
    acknowledged = ["0"]
    for case in range(1, 13):
        process = _publish(home, f"{case:02}")
        time.sleep(chance.uniform(0.2, 1.1) * longest)
        process.kill()
        process.communicate(timeout=120)
        if process.returncode == 0:
            acknowledged.append(f"{case:02}")
        with open_reader(home / "ledger") as chain:
            assert set(acknowledged) <= set(published(chain))
    _finish_all(home, ["0", *[f"{case:02}" for case in range(1, 13)]])


@pytest.mark.slow
def test_killed_while_a_ledger_is_made(tmp_path: Path) -> None:
    """The folder is there whole, or not at all."""
    chance = random.Random(12)
    start = time.monotonic()
    _run(tmp_path, "init", "whole")
    longest = time.monotonic() - start
    for case in range(6):
        process = _start(tmp_path, "init", f"ledger{case}")
        time.sleep(chance.uniform(0.3, 1.1) * longest)
        process.kill()
        process.communicate(timeout=120)
        if (tmp_path / f"ledger{case}").exists():
            assert _run(tmp_path, "status", "--ledger", f"ledger{case}")["entries"] == 0
