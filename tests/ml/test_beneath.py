"""Opening beneath a folder: the kernel's resolver and the walk answer alike, and never leave."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchor.errors import AnchorError, MissingFile, Unsafe
from anchor.ml.beneath import MAX_LINKS, default_opener, open_by_kernel, open_by_walk, open_file, open_folder

HAS_OPENAT2 = default_opener() is open_by_kernel
OPENERS = [open_by_walk, open_by_kernel] if HAS_OPENAT2 else [open_by_walk]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """root/ with files, folders and every kind of link; a secret lies beside it."""
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "file").write_text("file")
    (root / "sub" / "file").write_text("sub/file")
    links = {
        "to_file": "file",
        "to_sub_file": "sub/file",
        "sub/up": "../file",
        "sub/deep/far": "../../sub/./file",
        "to_sub": "sub",
        "dangling": "nowhere",
        "loop": "loop",
        "loop_a": "loop_b",
        "loop_b": "loop_a",
        "escape": "../secret",
        "sub/escape": "../../secret",
        "out_and_in": "../root/file",
        "absolute": str(root / "file"),
        "magic": f"/proc/{os.getpid()}/root/etc/hostname",
        "through_file": "file/x",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    for n in range(MAX_LINKS + 2):
        (root / f"chain{n}").symlink_to("file" if n == 0 else f"chain{n - 1}")
    os.mkfifo(root / "fifo")
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


FOLLOWED: dict[str, str | type[AnchorError]] = {
    "file": "file",
    "sub/file": "sub/file",
    "to_file": "file",
    "to_sub_file": "sub/file",
    "sub/up": "file",
    "sub/deep/far": "sub/file",
    "to_sub/file": "sub/file",
    f"chain{MAX_LINKS - 1}": "file",
    f"chain{MAX_LINKS}": Unsafe,
    "dangling": MissingFile,
    "absent": MissingFile,
    "absent/file": MissingFile,
    "file/x": MissingFile,
    "through_file": MissingFile,
    "loop": Unsafe,
    "loop_a": Unsafe,
    "escape": Unsafe,
    "sub/escape": Unsafe,
    "out_and_in": Unsafe,
    "absolute": Unsafe,
    "magic": Unsafe,
    "../secret": Unsafe,
    "sub/../../secret": Unsafe,
    "/etc/hostname": Unsafe,
    "fifo": Unsafe,
    "sub": Unsafe,
    "to_sub": Unsafe,
}
LINKS = {"to_file", "to_sub_file", "sub/up", "sub/deep/far", "to_sub/file", f"chain{MAX_LINKS - 1}"}


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("follow", [True, False], ids=["follow", "refuse"])
@pytest.mark.parametrize("path", FOLLOWED)
def test_both_ways_answer_alike(folder: int, opener: object, path: str, follow: bool) -> None:
    expected = FOLLOWED[path] if follow or path not in LINKS else Unsafe
    if not follow and path in ("dangling", "through_file"):
        expected = Unsafe  # it is a link; where it leads is not looked at
    if isinstance(expected, str):
        fd = open_file(folder, path, follow=follow, opener=opener)  # type: ignore[arg-type]
        try:
            assert os.read(fd, 99).decode() == expected
        finally:
            os.close(fd)
    else:
        with pytest.raises(expected):
            open_file(folder, path, follow=follow, opener=opener)  # type: ignore[arg-type]


@pytest.mark.parametrize("opener", OPENERS)
def test_no_descriptor_is_left_open(folder: int, opener: object) -> None:
    before = _free_descriptor(folder)
    for path in FOLLOWED:
        try:
            os.close(open_file(folder, path, follow=True, opener=opener))  # type: ignore[arg-type]
        except AnchorError:
            continue
    assert _free_descriptor(folder) == before


def _free_descriptor(folder: int) -> int:
    """The lowest number that is free: it grows with every descriptor that is left open."""
    fd = os.dup(folder)
    os.close(fd)
    return fd


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        folder = os.open(tmp_path, os.O_RDONLY)
        for opener in OPENERS:
            with pytest.raises(Unsafe, match="socket"):
                open_file(folder, "sock", follow=True, opener=opener)
        os.close(folder)


def test_a_folder_is_opened_over_no_link(folder: int) -> None:
    os.close(open_folder(folder, "sub/deep"))
    for path in ("to_sub", "../root"):
        with pytest.raises(Unsafe):
            open_folder(folder, path)
    with pytest.raises(MissingFile):
        open_folder(folder, "file")
