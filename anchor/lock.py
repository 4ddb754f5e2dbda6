"""One writer at a time: a lock on a folder, which the system lets go when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anchor.errors import Unavailable
from anchor.files import PRIVATE, told_plainly

FILE = "lock"
STEP = 0.05
"""Seconds between two tries."""


@contextmanager
def hold_folder(folder: Path, *, patience: float, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock of `folder` for the length of the body.

    Waits at most `patience` seconds for another holder, and tells so once through `on_wait`; then raises
    Unavailable.
    """
    path = folder / FILE
    with told_plainly(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        _acquire(handle, folder, patience, on_wait)
        with told_plainly(path):
            os.ftruncate(handle, 0)
            os.pwrite(handle, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(handle)  # lets the lock go


def _acquire(handle: int, folder: Path, patience: float, on_wait: Callable[[str], None]) -> None:
    for attempt in range(int(patience / STEP) + 1):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt == 0 and patience:
                on_wait(f"{folder} is in use by {_describe_holder(handle)}; waiting up to {patience:.0f} s.")
            time.sleep(STEP)
        else:
            return
    waited = f" after {patience:.0f} s" if patience else ""
    raise Unavailable(
        f"{folder} is still in use by {_describe_holder(handle)}{waited}.",
        fix="Try again when it is done. If it is a node, stop it, or give entries to it with --node.",
    )


def _describe_holder(handle: int) -> str:
    """The process that wrote its number into the lock, as far as it can be told."""
    number = os.pread(handle, 20, 0).strip()
    return f"process {int(number)}" if number.isdigit() else "another process"
