"""What a user trusts: a checkpoint, and what stands beside it under a name in their trust store."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.entries import require_organisation
from anchor.consensus.text import (
    encode_name,
    format_checkpoint,
    format_identity,
    parse_checkpoint,
    parse_identity,
)
from anchor.errors import InvalidEntry, MalformedFile, Misuse
from anchor.files import PRIVATE, read_bounded, told_plainly, write_over
from anchor.lock import hold_folder
from anchor.ml.formats.strict_json import parse

SCHEMA: Final = "anchor-trust/1"
NETWORK_SCHEMA: Final = "anchor-network/1"
"""Of the public description of a network, which `anchor init` writes."""
MAX_STORE_BYTES: Final = 1 << 20
MAX_OPERATOR: Final = 200
PATIENCE: Final = 10.0
"""Seconds to wait for someone else who changes the store."""
ONE_OPERATOR: Final = "one operator"
"""What is said of a network's operators unless the user's own configuration says otherwise (rule 5)."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Trust(NamedTuple):
    """A trusted checkpoint, and what the user says of its network."""

    checkpoint: Checkpoint
    name: str = ""
    """In the trust store; empty for a checkpoint that was given as such."""
    network_id: bytes | None = None
    operator: str = ONE_OPERATOR
    publishers: Mapping[str, bytes] = MappingProxyType({})
    """Root keys by organisation: who may publish models of that name."""

    @property
    def source(self) -> str:
        """Where the trust comes from, in words."""
        given = f"0x{self.checkpoint.root[:4].hex()}…:{self.checkpoint.epoch}"
        return f"{self.name!r} of your trust store, {given}" if self.name else f"{given}, as you gave it"


def get_store_path() -> Path:
    """`anchor/trust.json` in the user's configuration folder (XDG_CONFIG_HOME, else ~/.config).

    Raises Misuse where there is no such folder.
    """
    given = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(given) if given.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        raise Misuse("There is no home folder to keep a trust store in.", fix="Set HOME.") from None
    return folder / "anchor" / "trust.json"


def resolve_trust(text: str, store: Path | None = None) -> Trust:
    """The trust that `text` gives: `root:epoch`, or a name in the store. Raises Misuse for neither."""
    if not text:
        raise Misuse("No trusted checkpoint is given.", fix="Give root:epoch, or a name of your trust store.")
    if ":" in text:
        return Trust(parse_checkpoint(text))
    known = load_store(store or get_store_path())
    if text not in known:
        raise Misuse(f"Your trust store has no {text!r}.", fix="See: anchor trust list")
    return known[text]


def load_store(path: Path) -> dict[str, Trust]:
    """All that a store holds, by name; nothing when there is no such file.

    Raises Misuse for a file that is not a trust store, Unavailable for one that cannot be read.
    """
    with told_plainly(path, "read"):
        if not path.exists():
            return {}
    return decode_store(read_bounded(path, MAX_STORE_BYTES, "a trust store"), str(path))


def decode_store(data: bytes, where: str) -> dict[str, Trust]:
    """What the bytes of a store say. Raises Misuse, naming `where` they are from."""
    try:
        document: Any = parse(data, where)
        if document["schema"] != SCHEMA:
            raise KeyError("schema")
        return {name: _from_json(name, entry) for name, entry in document["trust"].items()}
    except (MalformedFile, ValueError, KeyError, TypeError, AttributeError):
        raise Misuse(
            f"{where} is not a trust store as this program writes it.",
            fix="Repair it, or move it away and add your checkpoints again.",
        ) from None


def add_trust(path: Path, trust: Trust) -> None:
    """Writes `trust` into the store, in place of what it held under that name.

    Raises Misuse for a name that is not one, Unavailable when the store cannot be written.
    """
    _require_words(trust)
    with _held(path):
        _save(path, load_store(path) | {trust.name: trust})


def remove_trust(path: Path, name: str) -> None:
    """Takes `name` out of the store. Raises Misuse when it is not there."""
    _require_known(load_store(path), name)  # before a folder is made for the lock
    with _held(path):
        known = load_store(path)
        _require_known(known, name)
        del known[name]
        _save(path, known)


def _require_known(known: Mapping[str, Trust], name: str) -> None:
    if name not in known:
        raise Misuse(f"Your trust store has no {name!r}.", fix="See: anchor trust list")


def to_json(trust: Trust) -> dict[str, Any]:
    """The form of a trust in the store."""
    return {
        "checkpoint": format_checkpoint(trust.checkpoint),
        "network_id": trust.network_id and f"0x{trust.network_id.hex()}",
        "operator": trust.operator,
        "publishers": {name: format_identity(key) for name, key in sorted(trust.publishers.items())},
    }


def read_network_id(path: Path) -> bytes:
    """The identity of the network that a `network.json` describes, which commits to all of its configuration.

    Raises Misuse for another file, Unavailable when it cannot be read.
    """
    try:
        document: Any = parse(read_bounded(path, MAX_STORE_BYTES, "a network's description"), str(path))
        if document["schema"] != NETWORK_SCHEMA:
            raise KeyError("schema")
        return _parse_network_id(document["network_id"])
    except (MalformedFile, ValueError, KeyError, TypeError):
        raise Misuse(f"{path} does not describe a network.", fix="Take the ledger's network.json.") from None


def _from_json(name: str, entry: Any) -> Trust:
    trust = Trust(
        checkpoint=parse_checkpoint(entry["checkpoint"]),
        name=name,
        network_id=None if entry["network_id"] is None else _parse_network_id(entry["network_id"]),
        operator=entry["operator"],
        publishers={name: parse_identity(key) for name, key in entry["publishers"].items()},
    )
    _require_words(trust)
    return trust


def _parse_network_id(text: str) -> bytes:
    """`0x` and 64 hexadecimal digits. Raises ValueError, TypeError."""
    if not re.fullmatch(r"0x[0-9a-f]{64}", text):
        raise ValueError(text)
    return bytes.fromhex(text[2:])


def _require_words(trust: Trust) -> None:
    """Raises Misuse for what must not be stored, or shown."""
    if not _NAME.fullmatch(trust.name):
        raise Misuse(f"{trust.name!r} is not a name: letters, digits, '.', '_' and '-', at most 64.")
    if not str.isprintable(trust.operator) or len(trust.operator) > MAX_OPERATOR:
        raise Misuse(f"What is said of the operator is at most {MAX_OPERATOR} printable characters.")
    for organisation in trust.publishers:
        try:
            require_organisation(encode_name(organisation))
        except InvalidEntry as error:
            raise Misuse(error.what) from None


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Nobody else changes the store during the body: what two add at once is both there."""
    with told_plainly(path.parent):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_folder(path.parent, patience=PATIENCE, on_wait=lambda _: None):
        yield


def _save(path: Path, known: Mapping[str, Trust]) -> None:
    document = {"schema": SCHEMA, "trust": {name: to_json(trust) for name, trust in sorted(known.items())}}
    write_over(path, json.dumps(document, indent=2).encode() + b"\n", mode=PRIVATE)
