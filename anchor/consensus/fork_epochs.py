"""Which fork rules in an epoch, by a network's configuration alone (phase0/fork, fulu/beacon-chain)."""

from __future__ import annotations

from typing import Final

from anchor.consensus.presets import Config
from anchor.consensus.signing import compute_fork_data_root
from anchor.merkle.hashing import sha256
from anchor.types import Epoch, Root, Version

FORK_NAMES: Final = ("phase0", "altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas")
"""In the order in which they follow each other."""


def get_fork_epoch(config: Config, name: str) -> Epoch:
    """When a fork starts; FAR_FUTURE_EPOCH when it is not scheduled."""
    return 0 if name == "phase0" else int(config[f"{name.upper()}_FORK_EPOCH"])


def get_fork_version(config: Config, name: str) -> Version:
    """The version that signatures of a fork are bound to."""
    key = "GENESIS_FORK_VERSION" if name == "phase0" else f"{name.upper()}_FORK_VERSION"
    return bytes(config[key])


def get_fork_name(config: Config, epoch: Epoch) -> str:
    """The fork that rules in `epoch`: the latest that has started."""
    return [name for name in FORK_NAMES if get_fork_epoch(config, name) <= epoch][-1]


def compute_fork_version(config: Config, epoch: Epoch) -> Version:
    """The version that signatures of `epoch` are bound to."""
    return get_fork_version(config, get_fork_name(config, epoch))


def compute_fork_digest(config: Config, epoch: Epoch, genesis_validators_root: Root) -> bytes:
    """The four bytes that tell a fork of a network on the wire; from fulu on they bind the blob limit too."""
    root = compute_fork_data_root(compute_fork_version(config, epoch), genesis_validators_root)
    if epoch < get_fork_epoch(config, "fulu"):
        return root[:4]
    since, limit = get_blob_parameters(config, epoch)
    mask = sha256(since.to_bytes(8, "little") + limit.to_bytes(8, "little"))
    return bytes([a ^ b for a, b in zip(root[:4], mask[:4], strict=True)])


def get_blob_parameters(config: Config, epoch: Epoch) -> tuple[Epoch, int]:
    """The epoch since which the blob limit of `epoch` holds, and the limit (EIP-7892)."""
    schedule = sorted([(int(row["EPOCH"]), int(row["MAX_BLOBS_PER_BLOCK"])) for row in config.BLOB_SCHEDULE])
    held = [row for row in schedule if row[0] <= epoch]
    if held:
        return held[-1]
    return get_fork_epoch(config, "electra"), int(config.MAX_BLOBS_PER_BLOCK_ELECTRA)
