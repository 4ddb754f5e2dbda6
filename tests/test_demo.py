"""The whole main job, as a stranger runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parent.parent / "devnet" / "demo.py"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEMO), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    done = run("--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    for epoch in (1, 2, 3):
        assert f"demo/spiral@epoch-{epoch} is final." in shown
    verified, tampered = shown.split("Flip one bit")
    assert "Verified: this is demo/spiral@epoch-3, as it was published." in verified
    assert "TAMPERED" not in verified
    assert re.search(r"^TAMPERED +layers\.1\.weight +1 +1061368-2109943$", tampered, re.MULTILINE)


@pytest.mark.slow
def test_the_demo_of_a_checkpoint_of_ones_own(tmp_path: Path) -> None:
    model = tmp_path / "mine" / "notes.bin"
    model.parent.mkdir()
    model.write_bytes(bytes(range(256)) * 20_000)
    done = run(model, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "TAMPERED" in done.stdout.split("Flip one bit")[1]
    assert model.read_bytes() == bytes(range(256)) * 20_000


def test_the_demo_never_removes_what_it_is_given(tmp_path: Path) -> None:
    model = tmp_path / "out" / "model.safetensors"
    model.parent.mkdir()
    model.write_bytes(b"precious")
    done = run(model, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "move your checkpoint out of it" in done.stderr
    assert model.read_bytes() == b"precious"
