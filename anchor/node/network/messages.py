"""What nodes say to each other: records, one to a frame (specs/06-network §2).

    frame = kind (1 byte) ‖ request (4 bytes, little-endian) ‖ SSZ of the kind's record

`request` is 0 in what is pushed. A question carries a number that its asker chooses, every answer to it the
same number, and END says that no more answers come. No frame is longer than MAX_FRAME.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple

from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import (
    Attestation,
    AttesterSlashing,
    Checkpoint,
    ProposerSlashing,
    SignedBeaconBlock,
    SignedVoluntaryExit,
)
from anchor.errors import MalformedSSZ
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.merkle.scope import Scope
from anchor.types import BLSSignature, Bytes32, Length, Limit, Root, Slot, uint64

MAX_FRAME: Final = 4 << 20
"""Bytes; more than the largest block has."""
MAX_BLOCKS_ASKED: Final = 128
MAX_ROOTS_ASKED: Final = 32
MAX_ADDRESSES: Final = 64
MAX_ADDRESS_BYTES: Final = 256


class Kind(IntEnum):
    """The first byte of a frame."""

    STATUS = 1
    BLOCK = 2
    ATTESTATION = 3
    CONTRIBUTION = 4
    ENTRY = 5
    PROPOSER_SLASHING = 6
    ATTESTER_SLASHING = 7
    EXIT = 8
    ADDRESSES = 9
    GET_BLOCKS_BY_RANGE = 16
    GET_BLOCKS_BY_ROOT = 17
    END = 31


class PeerStatus(Container):
    """How a node stands (phase0/p2p-interface, Status), and what its clock says."""

    finalized: Checkpoint
    head_root: Root
    head_slot: Slot
    earliest_slot: Slot
    """Of the oldest block that it can give."""
    time_ms: uint64
    """Unix milliseconds, when it sent this."""


class SyncContribution(Container):
    """Signatures of seats of the sync committee for one block (altair/validator, aggregated)."""

    slot: Slot
    beacon_block_root: Root
    sync_committee_bits: Annotated[Bits, Length("SYNC_COMMITTEE_SIZE")]
    signature: BLSSignature
    """Of those seats, aggregated; a key that has two of them signs twice."""


class Addresses(Container):
    """Where nodes can be reached: URLs, in UTF-8."""

    urls: Annotated[tuple[Annotated[bytes, Limit(MAX_ADDRESS_BYTES)], ...], Limit(MAX_ADDRESSES)]


class BlocksByRange(Container):
    """Asks for the canonical blocks of slots start … start + count - 1, ascending."""

    start_slot: Slot
    count: uint64
    """At most MAX_BLOCKS_ASKED; empty slots count too."""


class BlocksByRoot(Container):
    """Asks for blocks, canonical or not."""

    roots: Annotated[tuple[Bytes32, ...], Limit(MAX_ROOTS_ASKED)]


RECORDS: Final[dict[Kind, type[Container]]] = {
    Kind.STATUS: PeerStatus,
    Kind.BLOCK: SignedBeaconBlock,
    Kind.ATTESTATION: Attestation,
    Kind.CONTRIBUTION: SyncContribution,
    Kind.ENTRY: SignedEntry,
    Kind.PROPOSER_SLASHING: ProposerSlashing,
    Kind.ATTESTER_SLASHING: AttesterSlashing,
    Kind.EXIT: SignedVoluntaryExit,
    Kind.ADDRESSES: Addresses,
    Kind.GET_BLOCKS_BY_RANGE: BlocksByRange,
    Kind.GET_BLOCKS_BY_ROOT: BlocksByRoot,
}
"""END has no record: its frame ends after the request."""
KINDS: Final = {kind.value: kind for kind in Kind}


class Message(NamedTuple):
    """One frame, decoded."""

    kind: Kind
    value: Any
    """The kind's record; None for END."""
    request: int = 0


def encode_message(scope: Scope, message: Message) -> bytes:
    """The frame of `message`, by the record sizes of a network's scope."""
    head = bytes([message.kind]) + message.request.to_bytes(4, "little")
    return head if message.kind == Kind.END else head + scope.encode(message.value)


def decode_message(scope: Scope, frame: bytes) -> Message:
    """The message in `frame`. Raises MalformedSSZ for anything but what `encode_message` gives."""
    if not 5 <= len(frame) <= MAX_FRAME:
        raise MalformedSSZ(f"A frame has 5 to {MAX_FRAME} bytes, and this one {len(frame)}.")
    kind, request = KINDS.get(frame[0]), int.from_bytes(frame[1:5], "little")
    if kind is None:
        raise MalformedSSZ(f"There is no kind of frame {frame[0]}.")
    if kind == Kind.END:
        if len(frame) > 5:
            raise MalformedSSZ(f"A frame of {len(frame)} bytes ends a question; it must have 5.")
        return Message(kind, None, request)
    return Message(kind, scope.schema(RECORDS[kind]).decode(frame[5:]), request)
