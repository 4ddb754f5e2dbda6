"""Open a path beneath a folder, and nothing else (rule 12).

Where the kernel has `openat2`, it resolves the whole path and holds it beneath the folder. Elsewhere the same
is done one component at a time, each opened from its parent's descriptor without following links. Both answer
alike, and neither ever opens anything but a directory or a regular file.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from anchor.errors import AnchorError, MissingFile, Unavailable, Unsafe

if TYPE_CHECKING:
    import ctypes

MAX_LINKS: Final = 40
"""Links that one path may lead through, as in the kernel."""

_OPENAT2: Final = 437
_NO_MAGIC_LINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08

_FILE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

Opener = Callable[[int, str, int, bool], int]
"""(folder's descriptor, path, flags, follow links) → descriptor; raises OSError."""


def open_file(folder: int, path: str, *, follow: bool, opener: Opener | None = None) -> int:
    """Descriptor of the regular file at `path` beneath `folder`. With `follow`, links that stay beneath it.

    Raises Unsafe (escape, loop, link, not a regular file), MissingFile, Unavailable (no permission).
    """
    opener = opener or default_opener()
    try:
        fd = opener(folder, path, _FILE_FLAGS, follow)
    except OSError as error:
        raise _explain(error, path, follow) from error
    kind = os.fstat(fd).st_mode
    if not stat.S_ISREG(kind):
        os.close(fd)
        raise Unsafe(f"{path!r} is a {kind_of(kind)}, not a regular file.", fix="Take it out of the model.")
    return fd


def open_folder(folder: int, path: str) -> int:
    """Descriptor of the directory at `path` beneath `folder`; no component may be a link."""
    try:
        return default_opener()(folder, path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, False)
    except OSError as error:
        raise _explain(error, path, False) from error


def kind_of(mode: int) -> str:
    """What `st_mode` says, in a word."""
    for is_kind, word in (
        (stat.S_ISDIR, "directory"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISFIFO, "FIFO"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
    ):
        if is_kind(mode):
            return word
    return "regular file" if stat.S_ISREG(mode) else "thing of unknown kind"


@cache
def default_opener() -> Opener:
    """The kernel's resolver where there is one, the walk otherwise."""
    if not sys.platform.startswith("linux"):
        return open_by_walk
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_by_kernel(here, ".", os.O_RDONLY | os.O_CLOEXEC, False))
    except OSError:
        return open_by_walk  # an old kernel, or a sandbox that forbids the call
    finally:
        os.close(here)
    return open_by_kernel


def open_by_kernel(folder: int, path: str, flags: int, follow: bool) -> int:
    """`openat2(2)` with RESOLVE_BENEATH: looks first, so that a device or FIFO is never opened."""
    resolve = _BENEATH | _NO_MAGIC_LINKS | (0 if follow else _NO_SYMLINKS)
    seen = _openat2(folder, path, os.O_PATH | os.O_CLOEXEC, resolve)
    try:
        _refuse_special(os.fstat(seen).st_mode)
    finally:
        os.close(seen)
    return _openat2(folder, path, flags, resolve)


def _openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    import ctypes  # a few milliseconds, and the standard library has no other way to this call

    how = (ctypes.c_uint64 * 3)(flags, 0, resolve)
    name = ctypes.c_char_p(os.fsencode(path))
    for _ in range(8):  # EAGAIN: something was renamed under the resolver
        fd: int = _libc().syscall(
            ctypes.c_long(_OPENAT2), ctypes.c_int(folder), name, ctypes.byref(how), ctypes.c_size_t(24)
        )
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def open_by_walk(folder: int, path: str, flags: int, follow: bool) -> int:
    """The same, component by component: `..` climbs only what was descended, links are read and walked."""
    todo = deque(_relative(path))
    descended = [os.dup(folder)]
    links = 0
    try:
        while todo:
            name = todo.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                _climb(descended)
                continue
            mode = os.stat(name, dir_fd=descended[-1], follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                todo.extendleft(reversed(_read_link(descended[-1], name, follow and links <= MAX_LINKS)))
            elif stat.S_ISDIR(mode):
                down = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                descended.append(os.open(name, down, dir_fd=descended[-1]))
            else:
                _refuse_special(mode)
                if any(part not in ("", ".") for part in todo):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                return os.open(name, flags | os.O_NOFOLLOW, dir_fd=descended[-1])
        return os.dup(descended[-1])
    finally:
        for fd in descended:
            os.close(fd)


def _climb(descended: list[int]) -> None:
    if len(descended) == 1:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    os.close(descended.pop())


def _read_link(folder: int, name: str, allowed: bool) -> list[str]:
    if not allowed:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return _relative(os.readlink(name, dir_fd=folder))


def _relative(path: str) -> list[str]:
    if path.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    return path.split("/")


def _refuse_special(mode: int) -> None:
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise _Special(kind_of(mode))


class _Special(OSError):
    """A FIFO, socket or device stands at the path."""


def _explain(error: OSError, path: str, follow: bool) -> AnchorError:
    if isinstance(error, _Special):
        return Unsafe(f"{path!r} is a {error.args[0]}, not a regular file.", fix="Take it out of the model.")
    if error.errno == errno.EXDEV:
        return Unsafe(f"{path!r} leads out of the model's folder.", fix="Replace it by the file itself.")
    if error.errno == errno.ELOOP:
        what = "goes in circles" if follow else "is a link outside a model cache"
        return Unsafe(f"{path!r} {what}.", fix="Replace it by the file itself.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return MissingFile(f"{path!r} is not there.", fix="Fetch it again.")
    return Unavailable(f"{path!r} cannot be opened: {error.strerror}.")
