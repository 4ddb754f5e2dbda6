"""Files are hashed where they are mapped; one that is cut short meanwhile is told of, and kills nobody."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.merkle import _hashlib

_native = pytest.importorskip("anchor.merkle._native", reason="no native kernel")

SIZE = 3 * os.sysconf("SC_PAGESIZE") + 77
DATA = random.Random(5).randbytes(SIZE)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A file of three pages and a bit."""
    path = tmp_path_factory.mktemp("mapped") / "small"
    path.write_bytes(DATA)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@given(data=st.data())
def test_slices_of_a_file_are_those_of_its_bytes(small: int, data: st.DataObject) -> None:
    offset, end = sorted(data.draw(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE))))
    cuts = sorted(data.draw(st.lists(st.integers(offset, end), max_size=9)))
    lengths = [b - a for a, b in zip([offset, *cuts], [*cuts, end], strict=True)]
    expected = _hashlib.hash_slices(DATA[offset:end], lengths)
    found = _native.hash_mapped(small, offset, end - offset, lengths)
    assert found == expected or (found is None and offset == end)
    assert _hashlib.hash_mapped(small, offset, end - offset, lengths) is None


@pytest.mark.parametrize("implementation", _native.IMPLEMENTATIONS)
def test_every_implementation_hashes_maps(small: int, implementation: str) -> None:
    _native.select(implementation)
    try:
        assert _native.hash_mapped(small, 5, 5000, [5000]) == _hashlib.sha256(DATA[5:5005])
    finally:
        _native.select(_native.IMPLEMENTATIONS[0])


@pytest.mark.parametrize("beyond", [1, 4018, 4019, 10_000, 1 << 30])
def test_what_is_not_all_there_has_no_digest(small: int, beyond: int) -> None:
    """The last page reads as zeros beyond the file's end; a further one is a bus error."""
    for offset in (0, 5000, SIZE - 1, SIZE, SIZE + 5):
        size = SIZE - offset + beyond
        if size > 0:
            assert _native.hash_mapped(small, offset, size, [size]) is None
    assert _native.hash_mapped(small, 0, SIZE, [SIZE]) == _hashlib.sha256(DATA)


def test_what_cannot_be_mapped_has_no_digest(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert _native.hash_mapped(folder, 0, 10, [10]) is None
    finally:
        os.close(folder)
    assert _native.hash_mapped(folder, 0, 10, [10]) is None  # closed
    with pytest.raises(ValueError, match="slice"):
        _native.hash_mapped(folder, 0, 10, [9])
    with pytest.raises(ValueError, match="no file has"):
        _native.hash_mapped(folder, -1, 10, [10])


def test_a_file_that_is_cut_while_threads_hash_it(tmp_path: Path, small: int) -> None:
    """Whoever meets the cut gets no digest; who hashes another file at the same time is not disturbed."""
    size = 128 << 20
    path = tmp_path / "shrinking"
    path.touch()
    os.truncate(path, size)
    found: list[bytes | None] = []
    fd = os.open(path, os.O_RDONLY)
    threads = [
        threading.Thread(target=lambda: found.append(_native.hash_mapped(fd, 0, size, [size])))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    os.truncate(path, 5000)
    for _ in range(100):
        assert _native.hash_mapped(small, 0, SIZE, [SIZE]) == _hashlib.sha256(DATA)
    for thread in threads:
        thread.join()
    os.close(fd)
    assert found == [None] * 3


GUARDED = """
import faulthandler, mmap, os, signal, sys, tempfile
from anchor.merkle._native import hash_mapped
{before}
file = tempfile.TemporaryFile()
file.write(bytes(10_000))
file.flush()
assert hash_mapped(file.fileno(), 0, 10_000, [10_000])
assert hash_mapped(file.fileno(), 0, 20_000, [20_000]) is None
view = mmap.mmap(file.fileno(), 10_000)
{after}
print("survived")
"""
FOREIGN_FAULT = "os.ftruncate(file.fileno(), 0); view[5000]"


def run(before: str, after: str) -> subprocess.CompletedProcess[str]:
    code = GUARDED.format(before=before, after=after)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("after", [FOREIGN_FAULT, "os.kill(os.getpid(), signal.SIGBUS)"])
def test_a_bus_error_of_others_ends_the_process_as_ever(after: str) -> None:
    done = run("", after)
    assert done.returncode == -signal.SIGBUS
    assert not done.stdout


def test_a_handler_that_was_there_before_gets_the_bus_errors_of_others() -> None:
    done = run("faulthandler.enable()", FOREIGN_FAULT)
    assert done.returncode == -signal.SIGBUS
    assert "Bus error" in done.stderr
    assert "line" in done.stderr


def test_a_handler_that_came_later_keeps_its_place() -> None:
    """Without the guard nothing is mapped."""
    done = run("", "faulthandler.enable(); assert hash_mapped(file.fileno(), 0, 10_000, [10_000]) is None")
    assert done.stdout == "survived\n", done.stderr
    done = run("", f"faulthandler.enable(); {FOREIGN_FAULT}")
    assert done.returncode == -signal.SIGBUS
    assert "Bus error" in done.stderr
