"""What validators signed, in the form in which programs hand it to each other (EIP-3076, version 5)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from anchor.errors import MalformedFile
from anchor.ml.formats.strict_json import parse

FORMAT: Final = "5"
MAX_FILE_BYTES: Final = 256 << 20
MAX_NUMBER: Final = (1 << 63) - 1
"""No slot or epoch of any network comes near: what is larger is refused."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_HEX: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*")


@dataclass(frozen=True, slots=True)
class History:
    """What one validator signed. A signing root is empty where it is not known."""

    pubkey: bytes
    blocks: tuple[tuple[int, bytes], ...]
    """Slot and signing root of each."""
    votes: tuple[tuple[int, int, bytes], ...]
    """Source epoch, target epoch and signing root of each."""


def encode_interchange(network_id: bytes, histories: Iterable[History]) -> bytes:
    """The bytes of an interchange file."""
    document = {
        "metadata": {
            "interchange_format_version": FORMAT,
            "genesis_validators_root": f"0x{network_id.hex()}",
        },
        "data": [_to_json(history) for history in histories],
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def _to_json(history: History) -> dict[str, Any]:
    return {
        "pubkey": f"0x{history.pubkey.hex()}",
        "signed_blocks": [{"slot": str(slot), **_show_root(root)} for slot, root in history.blocks],
        "signed_attestations": [
            {"source_epoch": str(source), "target_epoch": str(target), **_show_root(root)}
            for source, target, root in history.votes
        ],
    }


def _show_root(root: bytes) -> dict[str, str]:
    return {"signing_root": f"0x{root.hex()}"} if root else {}


def decode_interchange(data: bytes, where: str) -> tuple[bytes, list[History]]:
    """The network's id (its genesis validators root) and the histories in `data`, read from `where`.

    Raises MalformedFile for anything else than an interchange file of version 5.
    """
    try:
        document: Any = parse(data, where)
        metadata = document["metadata"]
        if metadata["interchange_format_version"] != FORMAT:
            raise KeyError("interchange_format_version")
        network_id = _read_bytes(metadata["genesis_validators_root"], 32)
        return network_id, [_from_json(entry) for entry in document["data"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MalformedFile(
            f"{where} is no record of what validators signed, in the form of EIP-3076, version {FORMAT}.",
            cause="interchange",
            fix="Export it again with the program that the keys come from.",
        ) from None


def _from_json(entry: Any) -> History:
    blocks = [(_read_number(block["slot"]), _read_root(block)) for block in entry["signed_blocks"]]
    votes = [
        (_read_number(vote["source_epoch"]), _read_number(vote["target_epoch"]), _read_root(vote))
        for vote in entry["signed_attestations"]
    ]
    return History(_read_bytes(entry["pubkey"], 48), tuple(blocks), tuple(votes))


def _read_root(entry: Any) -> bytes:
    root = entry.get("signing_root")
    return b"" if root is None else _read_bytes(root, 32)


def _read_number(text: Any) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > MAX_NUMBER:
        raise ValueError(text)
    return int(text)


def _read_bytes(text: Any, size: int) -> bytes:
    if not _HEX.fullmatch(text) or len(text) != 2 + 2 * size:
        raise ValueError(text)
    return bytes.fromhex(text[2:])
