"""What commands print: outcomes, tables, colour on a terminal only, progress of anything over a second."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, TextIO

from anchor.errors import AnchorError, Unavailable

SCHEMA = "anchor/1"
COLORS = {"red": 31, "green": 32, "yellow": 33, "bold": 1, "dim": 2}
STATUS_WORDS = {0: "ok", 1: "failed", 2: "usage", 3: "unavailable", 4: "incomplete", 5: "qualified"}
PROGRESS_AFTER = 1.0
"""Seconds before a bar appears."""
Progress = Callable[[int], None]
"""Told how much was done since the last call."""


class Outcome:
    """What a command found: words for people, a result for programs, and the exit code."""

    def __init__(self, text: str, result: dict[str, Any] | None = None, status: int = 0) -> None:
        self.text, self.result, self.status = text, result or {}, status


class Stream:
    """Standard output or error. What becomes of the text never changes what is done, nor how it ended."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def isatty(self) -> bool:
        """Whether a person sees it."""
        return self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> str:
        """Writes `text` at once. Returns why it could not; a reader that has left wants no more."""
        if self._stream is None:
            return ""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())  # takes what is in the buffer
            self._stream = None
            return "" if isinstance(error, BrokenPipeError) else str(error.strerror)
        return ""


class Terminal:
    """Where a command's output goes: results to standard output, all else to standard error."""

    def __init__(self, *, as_json: bool = False, color: bool = True) -> None:
        self.as_json = as_json
        self.out, self.err = Stream(sys.stdout), Stream(sys.stderr)
        self._color = color and not as_json and not os.environ.get("NO_COLOR")

    def paint(self, text: str, color: str) -> str:
        """`text` in a colour of COLORS, where standard output is a terminal."""
        if not (self._color and self.out.isatty()):
            return text
        return f"\x1b[{COLORS[color]}m{text}\x1b[0m"

    def note(self, text: str) -> None:
        """One line on what is going on, for people."""
        if not self.as_json:
            self.err.write(f"{text}\n")

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Progress]:
        """A bar in bytes with the time left, once more than a second has passed on a terminal."""
        bar = _Bar(self.err, what, total, visible=not self.as_json and self.err.isatty())
        try:
            yield bar.advance
        finally:
            bar.clear()

    def show(self, command: str | None, outcome: Outcome) -> int:
        """Prints an outcome; returns its exit code, or Unavailable's for a success that cannot be told."""
        text = outcome.text
        if self.as_json:
            text = _format_envelope(command, outcome.status, outcome.result, None)
        if failure := self.out.write(f"{text}\n"):
            self.err.write(f"the result cannot be written: {failure.lower()}\n")
            return outcome.status or Unavailable.exit_code
        return outcome.status

    def show_error(self, command: str | None, error: AnchorError) -> int:
        """Prints an error in a sentence and what to do; returns its exit code."""
        if self.as_json:
            details = {"kind": type(error).__name__, "what": error.what, "fix": error.fix}
            self.out.write(f"{_format_envelope(command, error.exit_code, None, details)}\n")
            return error.exit_code
        name = f"anchor {printable(command)}" if command else "anchor"
        lines = [f"{name}: {printable(error.what)}", *([printable(error.fix)] if error.fix else [])]
        self.err.write("\n".join([*lines, ""]))
        return error.exit_code

    def show_interrupt(self) -> int:
        """The exit code of a command that was interrupted from the keyboard."""
        self.err.write("\ninterrupted; nothing was left half-written\n")
        return 130


class _Bar:
    """One line that is drawn over itself."""

    def __init__(self, stream: Stream, what: str, total: int, *, visible: bool) -> None:
        self._stream, self._what, self._total, self._visible = stream, what, total, visible
        self._start = self._drawn = time.monotonic()
        self._done = 0

    def advance(self, amount: int) -> None:
        self._done += amount
        now = time.monotonic()
        if self._visible and now - self._start > PROGRESS_AFTER and now - self._drawn > 0.1:
            self._drawn = now
            self._stream.write(f"\r\x1b[K{self._line(now - self._start)}")

    def _line(self, elapsed: float) -> str:
        share = min(self._done / max(self._total, 1), 1.0)
        left = elapsed * (1 - share) / share if share else 0.0
        filled = round(20 * share)
        bar = "█" * filled + "░" * (20 - filled)
        amounts = f"{format_bytes(self._done)} of {format_bytes(self._total)}"
        return f"{self._what} {bar} {share:4.0%}  {amounts}, {left:.0f} s left"

    def clear(self) -> None:
        if self._drawn > self._start:
            self._stream.write("\r\x1b[K")


def format_bytes(count: int) -> str:
    """A size for people: "512 B", "90.9 MB" (powers of ten)."""
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"


def format_count(number: int, what: str) -> str:
    """ "1 file", "2 files"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 80) -> str:
    """A table that fits `width` columns: the widest column gives way, with "…" where it is cut.

    Numbers stand right; everything from outside must have gone through `printable`.
    """
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > 4:
        widths[widths.index(max(widths))] -= 1
    right = [all(_is_number(row[i]) for row in rows) and bool(rows) for i in range(len(header))]
    lines = []
    for row in table:
        cells = [_fit(cell, w, r) for cell, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _fit(cell: str, width: int, right: bool) -> str:
    if len(cell) > width:
        cell = f"{cell[: width - 1]}…"
    return cell.rjust(width) if right else cell.ljust(width)


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell in ("", "-")


def printable(text: str) -> str:
    """`text` with control, ANSI and bidirectional characters escaped (rule 5)."""
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])


def _format_envelope(
    command: str | None, status: int, result: dict[str, Any] | None, error: dict[str, Any] | None
) -> str:
    envelope = {
        "schema": SCHEMA,
        "command": command,
        "status": STATUS_WORDS[status],
        "result": result,
        "error": error,
    }
    import json

    return json.dumps(envelope, default=_to_plain)


def _to_plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    raise TypeError(f"{type(value).__name__} has no form in JSON")
