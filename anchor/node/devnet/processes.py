"""A node as a process of its own: started apart from who starts it, and known by number and birth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from anchor.errors import Unavailable
from anchor.files import PRIVATE, told_plainly
from anchor.node.devnet.plan import Member

STOP_SECONDS: Final = 10.0
"""That a node has to end when it is told to; then it is killed."""
CALL_SECONDS: Final = 300.0
"""That a command may take; what it waits for becomes final in less."""
STEP: Final = 0.05


def start(member: Member, arguments: Sequence[str], log: Path) -> None:
    """Starts `anchor` with `arguments` as `member`'s process; what it says is added to `log`.

    It has a session of its own: Ctrl-C in a terminal is not for it.
    """
    command = [sys.executable, "-m", "anchor.cli.main", *arguments]
    with told_plainly(log):
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        duplicates = [(os.POSIX_SPAWN_DUP2, handle, number) for number in (1, 2)]
        try:
            member.pid = os.posix_spawn(
                sys.executable, command, os.environ, file_actions=[*actions, *duplicates], setsid=True
            )
        finally:
            os.close(handle)
    member.born = read_birth(member.pid)


def call(arguments: Sequence[str], settings: Mapping[str, str]) -> Any:
    """The envelope with which `anchor` answers to `arguments`. Raises Unavailable when it gives none."""
    command = [sys.executable, "-m", "anchor.cli.main", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 (this very program)
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **settings},
            timeout=CALL_SECONDS,
            check=False,
        )
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise Unavailable(f"anchor {arguments[0]} did not answer in {CALL_SECONDS:.0f} s.") from None


def is_alive(member: Member) -> bool:
    """Whether `member`'s process runs. One that ended and was not waited for does not."""
    if member.pid is None or member.born is None:
        return False
    with suppress(ChildProcessError):
        os.waitpid(member.pid, os.WNOHANG)  # where it is a child of this process, and has ended
    return read_birth(member.pid) == member.born


def read_birth(pid: int) -> int | None:
    """When a process started, in ticks since the system did; None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def kill(member: Member) -> None:
    """Ends a process at once, as a crash would."""
    _send(member, signal.SIGKILL)
    _wait(member, STOP_SECONDS)


def stop(members: Sequence[Member]) -> None:
    """Ends processes as they would end by themselves; kills what does not."""
    for member in members:
        _send(member, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    for member in members:
        if not _wait(member, deadline - time.monotonic()):
            kill(member)


def _send(member: Member, number: signal.Signals) -> None:
    if is_alive(member) and member.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(member.pid, number)


def _wait(member: Member, seconds: float) -> bool:
    """Whether the process ends within so many seconds."""
    deadline = time.monotonic() + seconds
    while is_alive(member):
        if time.monotonic() > deadline:
            return False
        time.sleep(STEP)
    member.pid = member.born = None
    return True


def require_running(member: Member, log: Path) -> None:
    """Raises Unavailable, with its last words, when a node has ended by itself."""
    if not is_alive(member):
        words = log.read_text(errors="replace").strip().splitlines()[-1:] if log.is_file() else []
        raise Unavailable(
            f"Node {member.number} has ended: {''.join(words) or 'it said nothing'}", fix=f"See {log}."
        )
