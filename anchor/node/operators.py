"""Operators' tokens: a private file with one a line, compared in constant time."""

from __future__ import annotations

import hmac
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final

from anchor.errors import Misuse
from anchor.files import PRIVATE, read_bounded, told_plainly

MIN_TOKEN: Final = 32
"""Characters. Draw one with: openssl rand -hex 32"""
MAX_FILE_BYTES: Final = 1 << 14
_DRAW: Final = "Draw one with: openssl rand -hex 32"


class Operators:
    """Knows who is an operator. Only digests of tokens are kept in memory."""

    def __init__(self, tokens: frozenset[str] = frozenset()) -> None:
        self._digests = [sha256(token.encode()).digest() for token in sorted(tokens)]

    def accept(self, authorization: str) -> bool:
        """Whether the header, `Bearer TOKEN`, carries an operator's token. Takes as long for any."""
        scheme, _, token = authorization.partition(" ")
        given = sha256(token.encode("utf-8", "replace")).digest()
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        return scheme.lower() == "bearer" and any(matches)


def read_operators(path: Path) -> Operators:
    """The operators whose tokens are in the file at `path`, one a line.

    Raises Misuse for a file that others may read, or a token that could be guessed; Unavailable.
    """
    with told_plainly(path, "read"):
        mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~PRIVATE:
        raise Misuse(f"{path} has mode {mode:04o}: others may read the tokens.", fix=f"Run: chmod 600 {path}")
    data = read_bounded(path, MAX_FILE_BYTES, "a file of tokens")
    tokens = frozenset(data.decode("utf-8", "replace").split())
    if not tokens or min(map(len, tokens)) < MIN_TOKEN:
        raise Misuse(f"{path} holds no token of {MIN_TOKEN} characters or more a line.", fix=_DRAW)
    return Operators(tokens)
