"""A verified checkpoint in a folder: `state.ssz`, `block.ssz`, `checkpoint.json`.

What is read back is verified again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.chain.beacon.networks import NETWORKS, Network, from_config
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint, parse_checkpoint
from anchor.errors import Misuse
from anchor.files import new_folder, read_bounded, write_new, write_over

SCHEMA: Final = "anchor-sync/1"
MAX_JSON: Final = 1 << 20
MAX_STATE: Final = 1 << 31
MAX_BLOCK: Final = 1 << 26
STATE, BLOCK, CHECKPOINT, FINALIZED = "state.ssz", "block.ssz", "checkpoint.json", "finalized.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a folder holds, not yet verified."""

    network: Network
    checkpoint: Checkpoint
    state: bytes
    block: bytes
    is_trusted: bool
    """Whether the user gave the root; else the endpoints did."""


def store_checkpoint(folder: Path, anchor: VerifiedCheckpoint, *, is_trusted: bool) -> None:
    """Makes `folder`, which is there whole or not at all. Raises Misuse when it is there already."""
    document = describe(anchor) | {"trusted": is_trusted, "schema": SCHEMA}
    config = {name: _to_plain(value) for name, value in anchor.network.config.items()}
    document["config"] = config if anchor.network.name not in NETWORKS else None
    with new_folder(folder) as staged:
        write_new(staged / STATE, anchor.state_bytes)
        write_new(staged / BLOCK, anchor.block.fork.scope.encode(anchor.block.block))
        write_new(staged / CHECKPOINT, _print(document))


def store_finalized(folder: Path, finalized: Checkpoint, slot: int) -> None:
    """Notes what the light client has followed finality to."""
    document = {"schema": SCHEMA, "finalized": format_checkpoint(finalized), "slot": slot}
    write_over(folder / FINALIZED, _print(document))


def describe(anchor: VerifiedCheckpoint) -> dict[str, Any]:
    """A verified checkpoint in JSON."""
    root = anchor.network.genesis_validators_root or b""
    return {
        "network": anchor.network.name,
        "genesis_validators_root": f"0x{root.hex()}",
        "genesis_time": anchor.network.genesis_time,
        "checkpoint": format_checkpoint(anchor.checkpoint),
        "fork": anchor.block.fork.name,
        "slot": anchor.block.slot,
        "state_root": f"0x{anchor.block.state_root.hex()}",
        "weak_subjectivity_period": anchor.period,
        "expired": anchor.is_expired,
        "configuration_claimed": anchor.network.is_claimed,
    }


def load_checkpoint(folder: Path) -> Stored:
    """What `store_checkpoint` wrote. Raises Misuse for another folder, Unavailable when it cannot be read."""
    try:
        document = json.loads(read_bounded(folder / CHECKPOINT, MAX_JSON, "a checkpoint's description"))
        if document["schema"] != SCHEMA:
            raise KeyError("schema")
        network = _read_network(document)
        checkpoint, is_trusted = parse_checkpoint(document["checkpoint"]), document["trusted"] is True
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Misuse(f"{folder} is no checkpoint as this program writes it.", fix="Choose another.") from None
    state = read_bounded(folder / STATE, MAX_STATE, "a state")
    block = read_bounded(folder / BLOCK, MAX_BLOCK, "a block")
    return Stored(network, checkpoint, state, block, is_trusted)


def _read_network(document: dict[str, Any]) -> Network:
    if document["config"] is None:
        return NETWORKS[document["network"]]
    root = bytes.fromhex(document["genesis_validators_root"][2:])
    network = from_config(document["config"], is_claimed=bool(document["configuration_claimed"]))
    return network.with_genesis(root, int(document["genesis_time"]))


def load_config(path: Path) -> Network:
    """The network that a file describes: JSON as /eth/v1/config/spec answers it, or a `config.yaml`.

    Raises Misuse, Unavailable.
    """
    data = read_bounded(path, MAX_JSON, "a network's configuration")
    try:
        document = json.loads(data) if data.lstrip()[:1] == b"{" else _read_yaml(data.decode())
    except (ValueError, IndexError, RecursionError):
        document = None
    values = document.get("data", document) if isinstance(document, dict) else None
    if not isinstance(values, dict):
        raise Misuse(
            f"{path} is no network configuration.", fix="Give a config.yaml, or a node's spec in JSON."
        )
    return from_config(values)


def _read_yaml(text: str) -> dict[str, Any]:
    """The subset in which configurations are written: `NAME: value`, and lists of such below a name."""
    values: dict[str, Any] = {}
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        bare = line.split("#")[0].rstrip()
        key, colon, value = bare.strip().removeprefix("- ").partition(":")
        if not bare:
            continue
        if not colon:
            raise ValueError(line)
        word = value.strip().strip("'\"")
        if bare[0] not in " -":
            rows = []
            values[key] = word or rows
        else:
            if bare.strip().startswith("-"):
                rows.append({})
            rows[-1][key.strip()] = word
    return values


def _to_plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return [{k: str(v) for k, v in row.items()} for row in value] if isinstance(value, tuple) else str(value)


def _print(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"
