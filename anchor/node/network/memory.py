"""What a node remembers of others across restarts: learnt addresses and bans, in one small file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from anchor.errors import MalformedFile, Misuse
from anchor.files import PRIVATE, read_bounded, write_over
from anchor.ml.formats.strict_json import parse
from anchor.node.network.peers import AddressBook, Standing, Standings
from anchor.node.network.urls import parse_url

FILE: Final = "peers.json"
SCHEMA: Final = "anchor-peers/1"
MAX_BYTES: Final = 1 << 20


def encode_memory(book: AddressBook, standings: Standings, now: float) -> bytes:
    """The file's content. What the operator listed is the operator's to say again, and not in it."""
    document = {
        "schema": SCHEMA,
        "addresses": [
            {"url": one.url, "source": one.source.hex()}
            for one in book.get_learnt()
            if one.source is not None
        ],
        "bans": [
            {"peer": peer.hex(), "until": int(one.banned_until), "bans": one.bans}
            for peer, one in standings.get_bans(now).items()
        ],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def decode_memory(data: bytes, listed: Iterable[str], own: str) -> tuple[AddressBook, Standings]:
    """What `encode_memory` wrote, beside what the operator lists now. Raises MalformedFile."""
    book, known = AddressBook(listed, own), {}
    try:
        document: Any = parse(data, FILE)
        for one in document["addresses"]:
            book.learn(parse_url(one["url"]), _read_peer(one["source"]))
        for one in document["bans"]:
            until, bans = int(one["until"]), int(one["bans"])
            known[_read_peer(one["peer"])] = Standing(0.0, 0.0, bans, float(until))
    except (MalformedFile, Misuse, KeyError, ValueError, TypeError, AttributeError):
        raise MalformedFile(f"{FILE} is not as it was written.", cause="peers") from None
    return book, Standings(known)


def _read_peer(text: str) -> bytes:
    peer = bytes.fromhex(text)
    if len(peer) != 32:
        raise ValueError(text)
    return peer


def load_memory(folder: Path, listed: Iterable[str], own: str) -> tuple[AddressBook, Standings]:
    """What is remembered in `folder`; nothing where there is no file. Raises MalformedFile, Unavailable."""
    path = folder / FILE
    if not path.exists():
        return AddressBook(listed, own), Standings()
    return decode_memory(read_bounded(path, MAX_BYTES, "a node's memory of peers"), listed, own)


def save_memory(folder: Path, data: bytes) -> None:
    """Writes it down, whole or not at all. Raises Unavailable."""
    write_over(folder / FILE, data, mode=PRIVATE)
