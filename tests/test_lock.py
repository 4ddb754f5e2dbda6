"""One writer at a time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anchor.errors import Unavailable
from anchor.lock import FILE, hold_folder
from anchor.node.store import Store
from tests.node.tools import make_ledger, opened

HOLDER = """
import sys, time
from pathlib import Path
from anchor.lock import hold_folder
with hold_folder(Path(sys.argv[1]), patience=0, on_wait=print):
    print("held", flush=True)
    time.sleep(60)
"""


def _start_holder(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_holder_waits_and_then_gives_up(tmp_path: Path) -> None:
    notes: list[str] = []
    holder = _start_holder(tmp_path)
    with (
        pytest.raises(Unavailable, match=rf"still in use by process {holder.pid} after 0 s\."),
        hold_folder(tmp_path, patience=0.2, on_wait=notes.append),
    ):
        pytest.fail("held twice")
    holder.kill()
    holder.communicate()
    assert len(notes) == 1
    assert f"in use by process {holder.pid}; waiting" in notes[0]


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    holder = _start_holder(tmp_path)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    with hold_folder(tmp_path, patience=0, on_wait=pytest.fail):
        pass


def test_one_after_the_other(tmp_path: Path) -> None:
    with (
        hold_folder(tmp_path, patience=0, on_wait=pytest.fail),
        pytest.raises(Unavailable),
        hold_folder(tmp_path, patience=0, on_wait=pytest.fail),
    ):
        pytest.fail("held twice")
    with hold_folder(tmp_path, patience=0, on_wait=pytest.fail):
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no such file"):
        hold_folder(tmp_path / "none", patience=0, on_wait=pytest.fail).__enter__()


@pytest.mark.parametrize("moment", ["reserve", "commit"])
def test_a_lock_that_was_taken_away_does_not_make_two_histories(tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "ledger"
    seed = make_ledger(folder)
    with opened(folder, seed) as first:
        (folder / FILE).unlink()
        with opened(folder, seed) as second, pytest.MonkeyPatch.context() as patch:
            write = getattr(Store, moment)
            others = iter([second])

            def overtaken(store: Store, *arguments: Any) -> None:
                for other in others:
                    other.record([])
                write(store, *arguments)

            patch.setattr(Store, moment, overtaken)
            with pytest.raises(Unavailable, match="Another process has written"):
                first.record([])
            assert len(list(second.chain.get_blocks())) == 16, "one history, of which no block is missing"


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    with (
        pytest.raises(Unavailable, match="lock cannot be written: no space left on device"),
        hold_folder(tmp_path, patience=0, on_wait=pytest.fail),
    ):
        pass
