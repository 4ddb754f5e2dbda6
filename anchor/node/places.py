"""Where a ledger's store is: a file in the ledger's folder, or a database that a file there names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anchor.errors import Unavailable
from anchor.files import PRIVATE, read_bounded, write_new
from anchor.node.database import Database
from anchor.node.postgresql import Postgresql, Url
from anchor.node.sqlite import Sqlite

FILE: Final = "ledger.sqlite"
POINTER: Final = "store.url"
"""Holds a database's URL; private, as that may hold a password."""
MAX_URL_BYTES: Final = 4096
Place = Path | Url


def choose_place(folder: Path, url: Url | None) -> Place:
    """Where a new ledger in `folder` keeps what it has; a URL is written down there."""
    if url is None:
        return folder / FILE
    write_new(folder / POINTER, url.text.encode() + b"\n", mode=PRIVATE)
    return url


def find_store(folder: Path) -> Place:
    """Where the ledger in `folder` keeps what it has. Raises Unavailable when there is no ledger."""
    if (folder / FILE).is_file():
        return folder / FILE
    if (folder / POINTER).is_file():
        data = read_bounded(folder / POINTER, MAX_URL_BYTES, "a store's URL")
        return Url(data.decode("utf-8", "replace").strip())
    fix = "Name its folder with --ledger, or start one with: anchor init"
    raise Unavailable(f"There is no ledger in {folder}.", fix=fix)


def connect(place: Place, *, writable: bool, is_new: bool = False) -> Database:
    """A connection to the store at `place`. Raises Unavailable when it cannot be had."""
    if isinstance(place, Url):
        return Postgresql.connect(place, writable=writable)
    return Sqlite.connect(place, "rwc" if is_new else "rw" if writable else "ro")
