"""A model on disk: a file, a folder, or a snapshot in a Hugging Face cache. Opened once, read beneath.

Every file is reached from the folder's descriptor (`beneath`), never by a fresh path. Links are followed only
in a cache snapshot, and only to where they stay inside the enclosing `models--*` folder (rule 12).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from anchor.errors import Misuse, Unavailable, Unsafe
from anchor.ml import beneath
from anchor.ml.formats.reading import read_up_to
from anchor.ml.paths import IGNORED, is_ignored

MAX_FILES: Final = 1 << 16
"""Files that one model may have: the limit of the manifest's list."""
MAX_ENTRIES: Final = 1 << 20
"""Directory entries that are looked at, those that are ignored included."""
MAX_DEPTH: Final = 32
"""Folders below folders."""


class Listing(NamedTuple):
    """What lies in a model's folder; every path relative, POSIX, sorted by its bytes."""

    files: tuple[str, ...]
    """Regular files and links; a link may yet turn out to be unsafe or dangling when it is opened."""
    special: tuple[tuple[str, str], ...]
    """(path, kind) of what is neither file nor folder nor link: FIFO, socket, device."""
    ignored: tuple[str, ...]
    """Paths that the fixed ignore list passes over."""


class Source:
    """A model's folder, open. Use as a context manager."""

    def __init__(self, name: str, folder: int, prefix: str, *, follow: bool, single: str | None) -> None:
        self.name = name
        """The folder's path, for messages."""
        self._folder = folder
        self._prefix = prefix
        self._follow = follow
        self.single = single
        """The one file that was asked for, or None when the model is the whole folder."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)

    def open(self, path: str) -> int:
        """Descriptor of the regular file at `path`: the caller closes it.

        Raises Unsafe, MissingFile, Unavailable.
        """
        return beneath.open_file(self._folder, self._prefix + path, follow=self._follow)

    def read(self, path: str, limit: int) -> bytes:
        """At most `limit` bytes of the file at `path`, from its start. Raises as `open` does."""
        fd = self.open(path)
        try:
            return read_up_to(fd, 0, limit)
        finally:
            os.close(fd)

    def listing(self, rules: tuple[str, ...] = IGNORED) -> Listing:
        """All that lies here, in a fixed order; `rules` of the ignore list apply.

        Raises Unsafe when there are too many entries, or folders too deep; Unavailable for an unreadable one.
        """
        if self.single is not None:
            return Listing((self.single,), (), ())
        files: list[str] = []
        special: list[tuple[str, str]] = []
        ignored: list[str] = []
        for path, mode in self._entries():
            if is_ignored(path, rules):
                ignored.append(path)
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                files.append(path)
            else:
                special.append((path, beneath.kind_of(mode)))
        _bound(len(files) + len(special), MAX_FILES)
        return Listing(
            tuple(sorted(files, key=os.fsencode)),
            tuple(sorted(special, key=lambda entry: os.fsencode(entry[0]))),
            tuple(sorted(ignored, key=os.fsencode)),
        )

    def _entries(self) -> Iterator[tuple[str, int]]:
        """(path, mode) of every entry that is not a folder."""
        todo = [""]
        seen = 0
        while todo:
            below = todo.pop()
            for name, mode in _scan(self._folder, self._prefix + below):
                seen += 1
                _bound(seen, MAX_ENTRIES)
                if not stat.S_ISDIR(mode):
                    yield below + name, mode
                elif below.count("/") >= MAX_DEPTH:
                    raise Unsafe(f"{below!r} lies more than {MAX_DEPTH} folders deep.")
                else:
                    todo.append(f"{below}{name}/")


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open the model at `path`: a file, a folder, or a snapshot of a Hugging Face cache.

    `path` itself is the user's word, and may lead over links. Raises Unavailable, Misuse, Unsafe.
    """
    given = Path(path)
    try:
        mode = given.stat().st_mode
        real = (given if stat.S_ISDIR(mode) else given.parent).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"There is no model at {str(path)!r}.", fix="Give a file or a folder.") from error
    if stat.S_ISDIR(mode):
        return _open_folder(real, None)
    if stat.S_ISREG(mode):
        return _open_single(given, real)
    raise Misuse(f"{str(path)!r} is a {beneath.kind_of(mode)}.", fix="Give a file or a folder.")


def _open_single(given: Path, parent: Path) -> Source:
    if given.is_symlink() and _cache_root(parent) is None:
        # Outside a cache the link is the user's own: the model is the file that it points at.
        given = given.resolve(strict=True)
        parent = given.parent
    return _open_folder(parent, given.name)


def _open_folder(real: Path, single: str | None) -> Source:
    root = _cache_root(real)
    try:
        folder = os.open(root or real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(f"{str(real)!r} cannot be opened: {error.strerror}.") from error
    prefix = f"{real.relative_to(root).as_posix()}/" if root else ""
    return Source(str(real), folder, prefix, follow=root is not None, single=single)


def _cache_root(real: Path) -> Path | None:
    """The `models--*` folder of a cache that has `real` at or below one of its snapshots."""
    for outer in real.parents:
        if outer.name == "snapshots" and outer.parent.name.startswith("models--"):
            return outer.parent
    return None


def _scan(folder: int, path: str) -> list[tuple[str, int]]:
    """(name, mode) of a folder's entries; links are not followed."""
    fd = beneath.open_folder(folder, path)
    try:
        with os.scandir(fd) as entries:
            return [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
    except OSError as error:
        raise Unavailable(f"{path!r} cannot be listed: {error.strerror}.") from error
    finally:
        os.close(fd)


def _bound(count: int, limit: int) -> None:
    if count > limit:
        raise Unsafe(f"The folder has more than {limit} files.", fix="Give the model's own folder.")
