"""Files that are there whole or not at all: written beside their place, synced, then moved into it.

Who is killed while writing leaves a file or a folder beside the place, which the next one to write there
removes. A lock tells it from that of someone who is writing now.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from anchor.errors import Misuse, Unavailable

PRIVATE = 0o600
PUBLIC = 0o644
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LEFTOVER = re.compile(r"\.(.{1,32})\.[0-9a-f]{16}\.new", re.DOTALL)
"""Names of files that are being written, after the name that they shall have."""


def write_new(path: Path, data: bytes, *, mode: int = PUBLIC) -> None:
    """Writes `data` to `path`, which must not exist yet. Durable on return.

    Raises Misuse when `path` exists, Unavailable when it cannot be written.
    """
    with new_file(path, mode=mode) as file:
        file.write(data)


@contextmanager
def new_file(path: Path, *, mode: int = PUBLIC) -> Iterator[BinaryIO]:
    """A file for the body to write; it becomes `path`, as `write_new` does it, when the body succeeds."""
    with _staged(path, mode) as (staged, file):
        yield file
        _sync(file)
        try:
            os.link(staged, path)
        except FileExistsError:
            raise Misuse(
                f"{path} is there already, and is never overwritten.", fix="Choose another name."
            ) from None


def write_over(path: Path, data: bytes, *, mode: int = PUBLIC) -> None:
    """Writes `data` to `path`, in place of what was there. Durable on return."""
    with _staged(path, mode) as (staged, file):
        file.write(data)
        _sync(file)
        staged.replace(path)


@contextmanager
def _staged(path: Path, mode: int) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside `path`, for the body to write and then move into place."""
    with told_plainly(path):
        remove_leftovers(path)
        staged, handle = _create_beside(path, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                yield staged, file
            sync_folder(path.parent)
        finally:
            with suppress(FileNotFoundError):
                staged.unlink()


def _create_beside(path: Path, mode: int) -> tuple[Path, int]:
    """A new file beside `path`, and its handle, which holds the file's lock until it is closed."""
    while True:
        staged = _get_place_beside(path)
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return staged, handle
        os.close(handle)  # someone took it for a leftover before it was locked


def remove_leftovers(path: Path) -> None:
    """Removes the files beside `path` that killed processes left when they wrote it."""
    for place in _find_leftovers(path):
        with suppress(OSError):  # it is being written, or is not ours: it stays
            _remove_leftover(place)


def _find_leftovers(path: Path) -> Iterator[Path]:
    for place in path.parent.iterdir():
        match = LEFTOVER.fullmatch(place.name)
        if match and match[1] == path.name[:32]:
            yield place


def _remove_leftover(place: Path) -> None:
    """Removes the file at `place`. Raises OSError when someone holds its lock."""
    handle = os.open(place, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if S_ISREG(os.fstat(handle).st_mode):
            place.unlink()
    finally:
        os.close(handle)


def _get_place_beside(path: Path) -> Path:
    """A name that nothing has: who was killed may have left a file there, and process numbers come again."""
    return path.parent / f".{path.name[:32]}.{os.urandom(8).hex()}.new"


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A private folder beside `path` for the body to fill; it becomes `path` when the body succeeds.

    Raises Misuse when `path` exists and is not an empty folder, Unavailable when it cannot be made.
    """
    require_new_folder(path)
    with told_plainly(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_left_folders(path)
        staged, handle = _make_beside(path)
        try:
            yield staged
            sync_folder(staged)
            _move(staged, path)
            sync_folder(path.parent)
        finally:
            import shutil

            shutil.rmtree(staged, ignore_errors=True)
            os.close(handle)


def _make_beside(path: Path) -> tuple[Path, int]:
    """A new folder beside `path`, and its handle, which holds the folder's lock until it is closed."""
    while True:
        staged = _get_place_beside(path)
        staged.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # someone took it for a leftover before it was locked
            handle = os.open(staged, FOLDER)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return staged, handle
            os.close(handle)


def _move(staged: Path, path: Path) -> None:
    """Raises Misuse when someone else has put something there meanwhile."""
    try:
        staged.rename(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise _is_taken(path) from None


def remove_left_folders(path: Path) -> None:
    """Removes the folders beside `path` that killed processes left when they made it."""
    for place in _find_leftovers(path):
        with suppress(OSError):  # it is being filled, or is not ours: it stays
            handle = os.open(place, FOLDER)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                import shutil

                shutil.rmtree(place)
            finally:
                os.close(handle)


def require_new_folder(path: Path) -> None:
    """Raises Misuse when `path` exists and is not an empty folder, or is where the process runs."""
    if path.is_dir() and path.samefile(Path.cwd()):
        raise Misuse(f"{path} is the folder that you are in.", fix="Name a new one in it.")
    is_empty = path.is_dir() and not any(path.iterdir())
    if path.is_symlink() or (path.exists() and not is_empty):
        raise _is_taken(path)


def _is_taken(path: Path) -> Misuse:
    return Misuse(f"{path} is there already, and is not an empty folder.", fix="Choose another folder.")


def read_bounded(path: Path, limit: int, what: str, *, may_be_pipe: bool = False) -> bytes:
    """The contents of `path`, a regular file unless it `may_be_pipe`.

    Raises Misuse when it has more than `limit` bytes, Unavailable when it is missing or of another kind.
    """
    with told_plainly(path, "read"), path.open("rb") if may_be_pipe else open_regular(path) as file:
        is_too_large = os.fstat(file.fileno()).st_size > limit
        data = b"" if is_too_large else file.read(limit + 1)
    if is_too_large or len(data) > limit:
        raise Misuse(f"{path} is too large to be {what}: more than {limit} bytes.")
    return data


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """The regular file at `path`, to be read. Raises Unavailable for all else, and waits for no FIFO."""
    with told_plainly(path, "read"), open(path, "rb", opener=_open_without_waiting) as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Unavailable(f"{path} is not a regular file.", fix="Give a copy of it in a file.")
        yield file


def _open_without_waiting(path: str, flags: int) -> int:
    """Opens a FIFO at once too: whoever made the folder that a file is in may have put one there."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _sync(file: BinaryIO) -> None:
    """Makes what was written to `file` durable."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def told_plainly(path: Path, verb: str = "written") -> Iterator[None]:
    """Turns an error of the operating system into Unavailable, in a sentence that names `path`."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"{path} cannot be {verb}: {_get_reason(error)}.") from None


def explain(error: OSError) -> Unavailable:
    """What the operating system refused where nobody can say more."""
    place = "" if error.filename is None else f" {error.filename}"
    return Unavailable(
        f"The system refuses{place}: {_get_reason(error)}.", fix="Check the names that you gave."
    )


def _get_reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
