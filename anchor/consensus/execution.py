"""The execution layer, as the consensus rules see it: something that judges payloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anchor.types import Root, VersionedHash


@dataclass(frozen=True)
class NewPayloadRequest:
    """What an execution engine is asked about (NewPayloadRequest of each fork)."""

    execution_payload: Any
    """The fork's own ExecutionPayload."""
    versioned_hashes: tuple[VersionedHash, ...] = ()
    """Of the blobs' commitments, since deneb."""
    parent_beacon_block_root: Root | None = None
    """Since deneb."""
    execution_requests: Any = None
    """The fork's own ExecutionRequests, since electra."""


ExecutionEngine = Callable[[NewPayloadRequest], bool]
"""Whether the execution layer takes a payload for valid (verify_and_notify_new_payload)."""


def accept_payload(request: NewPayloadRequest) -> bool:
    """The engine of who has no execution client: every payload that fits its state is taken for valid."""
    return True
