"""Files that are there whole or not at all."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from anchor.errors import Misuse, Unavailable
from anchor.files import PRIVATE, new_file, new_folder, read_bounded, remove_leftovers, write_new, write_over

WRITER = """
import sys, time
from pathlib import Path
from anchor.files import new_file
with new_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""
FOLDER_MAKER = """
import sys, time
from pathlib import Path
from anchor.files import new_folder
with new_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_bytes(b"")
    print("writing", flush=True)
    time.sleep(60)
"""


def _names(folder: Path) -> list[str]:
    return sorted([path.name for path in folder.iterdir()])


def test_a_new_file_is_whole_and_private(tmp_path: Path) -> None:
    write_new(tmp_path / "key", b"secret", mode=PRIVATE)
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert _names(tmp_path) == ["key"]


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"old")
    with pytest.raises(Misuse, match="is there already"):
        write_new(tmp_path / "key", b"new")
    assert (tmp_path / "key").read_bytes() == b"old"
    assert _names(tmp_path) == ["key"]


def test_writing_over_replaces(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(b"old")
    write_over(tmp_path / "bundle", b"new")
    assert (tmp_path / "bundle").read_bytes() == b"new"
    assert _names(tmp_path) == ["bundle"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be written: no such file"):
        write_new(tmp_path / "missing" / "key", b"")


def test_a_folder_appears_only_when_it_is_full(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "ledger") as folder:
        (folder / "half").write_bytes(b"")
        raise KeyboardInterrupt
    assert _names(tmp_path) == []
    (tmp_path / "ledger").mkdir()  # empty: as good as none
    with new_folder(tmp_path / "ledger") as folder:
        (folder / "whole").write_bytes(b"1")
        assert not (tmp_path / "ledger" / "whole").exists()
    assert _names(tmp_path / "ledger") == ["whole"]
    assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["file", "full folder", "link to an empty folder"])
def test_a_folder_never_replaces_anything(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "ledger"
    if kind == "file":
        place.write_bytes(b"1")
    elif kind == "full folder":
        place.mkdir()
        (place / "file").write_bytes(b"1")
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    before = _names(tmp_path)
    with pytest.raises(Misuse, match="is there already"), new_folder(place):
        pass
    assert _names(tmp_path) == before


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(11))
    assert read_bounded(tmp_path / "key", 11, "a key") == bytes(11)
    with pytest.raises(Misuse, match="too large to be a key: more than 10 bytes"):
        read_bounded(tmp_path / "key", 10, "a key")
    with pytest.raises(Unavailable, match="cannot be read: no such file"):
        read_bounded(tmp_path / "none", 10, "a key")


def test_only_a_regular_file_is_read_and_no_pipe_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unavailable, match="pipe is not a regular file"):
        read_bounded(tmp_path / "pipe", 10, "a key")
    with pytest.raises(Unavailable, match="cannot be read: is a directory"):
        read_bounded(tmp_path, 10, "a key")
    with pytest.raises(Unavailable, match="null is not a regular file"):
        read_bounded(Path(os.devnull), 10, "a key")


def test_a_pipe_is_read_where_one_may_be(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"secret")
    os.close(writing)
    assert read_bounded(Path(f"/dev/fd/{reading}"), 10, "a passphrase's file", may_be_pipe=True) == b"secret"
    os.close(reading)


def test_where_one_stands_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misuse, match="the folder that you are in"), new_folder(Path()):
        pass


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path) -> None:
    left = f".ledger.{os.getpid()}.new"
    for number in (1, 2):  # process numbers come again, in a container with every start
        (tmp_path / str(number)).mkdir()
    (tmp_path / "1" / left).write_bytes(b"half")
    write_over(tmp_path / "1" / "ledger", b"whole")
    (tmp_path / "2" / left).mkdir()
    with new_folder(tmp_path / "2" / "ledger"):
        pass
    assert _names(tmp_path / "1") == _names(tmp_path / "2") == [left, "ledger"]


def _start_writer(place: Path, script: str = WRITER) -> subprocess.Popen[str]:
    writer = subprocess.Popen([sys.executable, "-c", script, place], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    return writer


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path) -> None:
    writer = _start_writer(tmp_path / "model.anchor")
    (left,) = _names(tmp_path)
    assert left.startswith(".model.anchor.")
    write_over(tmp_path / "model.anchor", b"1")
    assert _names(tmp_path) == [left, "model.anchor"]  # it is being written
    writer.kill()
    writer.communicate()
    write_over(tmp_path / "other", b"1")
    assert left in _names(tmp_path)  # not the other one's
    write_over(tmp_path / "model.anchor", b"2")
    assert _names(tmp_path) == ["model.anchor", "other"]


def test_what_a_killed_maker_of_a_folder_left_goes_with_the_next_one(tmp_path: Path) -> None:
    maker = _start_writer(tmp_path / "ledger", FOLDER_MAKER)
    (left,) = _names(tmp_path)
    assert left.startswith(".ledger.") and _names(tmp_path / left) == ["half"]
    with new_folder(tmp_path / "other"), new_folder(tmp_path / "ledger"):
        assert left in _names(tmp_path)  # it is being filled
    maker.kill()
    maker.communicate()
    shutil.rmtree(tmp_path / "ledger")
    with new_folder(tmp_path / "ledger"):
        pass
    assert _names(tmp_path) == ["ledger", "other"]


def test_of_two_who_make_a_folder_the_first_one_has_it(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="is there already"), new_folder(tmp_path / "ledger") as late:
        (late / "late").write_bytes(b"")
        with new_folder(tmp_path / "ledger") as first:
            (first / "first").write_bytes(b"")
    assert _names(tmp_path) == ["ledger"]
    assert _names(tmp_path / "ledger") == ["first"]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "another name", "no number"])
def test_what_is_no_leftover_stays(tmp_path: Path, kind: str) -> None:
    name = f".bundle.{'0' * 16}.new"
    if kind == "folder":
        (tmp_path / name).mkdir()
    elif kind == "link":
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(b"1")
    elif kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        other = "bundles" if kind == "another name" else "bundle"
        (tmp_path / f".{other}.{'0' * (16 if kind == 'another name' else 15)}.new").write_bytes(b"1")
    before = _names(tmp_path)
    remove_leftovers(tmp_path / "bundle")
    assert _names(tmp_path) == before


def _write_often(place: Path) -> None:
    for number in range(100):
        write_over(place, b"%d" % number)


def test_many_writers_of_one_place_do_not_hinder_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(tmp_path / "bundle",)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert (tmp_path / "bundle").read_bytes() == b"99"
    assert _names(tmp_path) == ["bundle"]


def test_a_file_that_was_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, calls = fcntl.flock, iter([True])

    def robbed(handle: int, flags: int) -> None:
        if next(calls, False):
            remove_leftovers(tmp_path / "bundle")
        lock(handle, flags)

    monkeypatch.setattr(fcntl, "flock", robbed)
    with new_file(tmp_path / "bundle") as file:
        file.write(b"whole")
    assert (tmp_path / "bundle").read_bytes() == b"whole"
    assert _names(tmp_path) == ["bundle"]
