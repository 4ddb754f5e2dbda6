"""A node whose folder is taken from under it ends, and says why."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile, rmtree

import pytest

from anchor.errors import Unavailable
from anchor.node.places import FILE
from anchor.node.presence import Presence
from tests.node.test_processes import ROOT

LIMIT = 20.0
"""Seconds; an idle machine takes three."""


def _move(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def _unlink(folder: Path) -> None:
    (folder / FILE).unlink()


def _replace(folder: Path) -> None:
    copyfile(folder / FILE, folder / "other")
    (folder / "other").replace(folder / FILE)


@pytest.mark.parametrize("act", (rmtree, _move, _unlink, _replace))
def test_what_is_gone_is_told(ledger: tuple[Path, bytes], act: Callable[[Path], None]) -> None:
    presence = Presence(ledger[0])
    presence.require()
    (ledger[0] / FILE).touch()
    (ledger[0] / "more").touch()
    presence.require()
    act(ledger[0])
    with pytest.raises(Unavailable, match="was removed, moved or replaced") as caught:
        presence.require()
    assert f"Bring {ledger[0]} back" in caught.value.fix


def test_a_node_without_its_folder_ends(ledger: tuple[Path, bytes]) -> None:
    options = ["--ledger", str(ledger[0]), "--read-only", "--port", "0"]
    command = [sys.executable, "-m", "anchor.cli.main", "node", *options]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert "is served at" in process.stderr.readline()
            rmtree(ledger[0])
            _, words = process.communicate(timeout=LIMIT)
        finally:
            process.send_signal(signal.SIGKILL)
    assert process.returncode == 3
    assert f"{ledger[0]} was removed, moved or replaced under the node" in words
