"""The bundle: all that a verifier needs beside a model's files and its user's trust (specs/04-bundle §2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from anchor.consensus.containers.altair import LightClientUpdate, SyncCommittee
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.ledger import RECORDS, ModelVersion, Network, Publisher
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint, Fork, Validator
from anchor.consensus.presets import LEDGER
from anchor.errors import MalformedBundle, MalformedSSZ
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.merkle.gindex import GeneralizedIndex
from anchor.merkle.scope import Scope
from anchor.merkle.sequences import List
from anchor.merkle.ssz import get_generalized_index
from anchor.types import (
    BLSSignature,
    Bytes32,
    CommitteeIndex,
    Epoch,
    Length,
    Limit,
    Root,
    Slot,
    uint64,
)

BUNDLE_VERSION: Final = 1
MAX_BUNDLE_BYTES: Final = 1 << 27
"""Bytes of a bundle that is looked at: the manifest of 4 TB of model, and every other part at its limit."""
MAX_VALIDATORS: Final = 512
"""A larger registry's finality is not shown by votes (rule 19)."""
MAX_HOPS: Final = 200


class TrustedBlock(Container):
    """The block that the user trusts, and what is read from its state."""

    header: BeaconBlockHeader
    genesis_validators_root: Root
    """The network's identity."""
    fork: Fork
    timestamp: uint64
    """When the block was made; Unix time, seconds."""
    network: Network
    proof: Annotated[tuple[Bytes32, ...], Length(8)]
    """Helpers of `TRUSTED_PATHS`."""


class Vote(Container):
    """What some validators said alike: a slot and a head, under the link that the vote belongs to."""

    slot: Slot
    index: CommitteeIndex
    beacon_block_root: Root
    participants: Annotated[Bits, Limit(MAX_VALIDATORS)]
    """A bit for each validator of the registry."""


class Link(Container):
    """The votes of two thirds of the stake for going from one checkpoint to another."""

    votes: Annotated[tuple[Vote, ...], Limit(MAX_VALIDATORS)]
    """Strictly ascending by slot, index and head; each adds a validator that counts."""
    signature: BLSSignature
    """The sum of all participants' signatures, each over its own vote."""


class Hop(Container):
    """A newly finalised checkpoint: two supermajority links, source → (epoch, header) → (epoch + 1, next)."""

    registry: Annotated[tuple[Validator, ...], Limit(MAX_VALIDATORS)]
    """Of the block before this hop, whose votes it takes."""
    registry_branch: Annotated[tuple[Bytes32, ...], Length(5)]
    """Proves `registry` in the state of the block before this hop."""
    source: Checkpoint
    epoch: Epoch
    """Of the checkpoint that becomes final; its block is `header`."""
    header: BeaconBlockHeader
    next_root: Root
    """Root of the checkpoint that stands in the next epoch."""
    justifying: Link
    """source → (epoch, header)."""
    finalising: Link
    """(epoch, header) → (epoch + 1, next_root)."""


class Committee(Container):
    """The sync committee of a network with more than MAX_VALIDATORS validators, in the state of a block."""

    validators: uint64
    """How many the registry holds."""
    committee: SyncCommittee
    proof: Annotated[tuple[Bytes32, ...], Length(9)]
    """Helpers of `COMMITTEE_PATHS`."""


class Status(Container):
    """What the newest block's state says of the publication."""

    position: uint64
    """Of the version in the state's list of versions; all other positions are read from proven leaves."""
    version: ModelVersion
    publisher: Publisher
    timestamp: uint64
    entry_count: uint64
    publisher_count: uint64
    version_count: uint64
    proof: Annotated[tuple[Bytes32, ...], Length(97)]
    """Helpers of `status_paths`."""


class Bundle(Container):
    """`model.anchor`."""

    version: uint64
    """BUNDLE_VERSION."""
    publication: SignedEntry
    manifest: Annotated[bytes, Limit(MAX_BUNDLE_BYTES)]
    """The encoding of a Manifest (specs/02 §2), read only after all else holds."""
    trusted: TrustedBlock
    hardcoded_branch: Annotated[tuple[Bytes32, ...], Limit(11)]
    """Proves a hardcoded checkpoint among the trusted state's block roots; empty where none needs it."""
    hops: Annotated[tuple[Hop, ...], Limit(MAX_HOPS)]
    """Empty when the trusted checkpoint is the newest."""
    committee: Annotated[tuple[Committee, ...], Limit(1)]
    """In the last hop's block, or the trusted one; there with `updates`, the first of which it signs."""
    updates: Annotated[tuple[LightClientUpdate, ...], Limit(MAX_HOPS)]
    """Lead on from there (rule 20)."""
    status: Status


LEDGER_SCOPE: Final = Scope(LEDGER, RECORDS)
"""The sizes of every record here, and of a ledger's state."""

TRUSTED_PATHS: Final = (("genesis_validators_root",), ("fork",), ("timestamp",), ("network",))
"""What `TrustedBlock.proof` proves, in the order of the leaves."""

COMMITTEE_PATHS: Final = (("validators", "__len__"), ("current_sync_committee",))
"""What `Committee.proof` proves, in the order of the leaves."""


def status_paths(version: int, publisher: int, entry: int) -> tuple[tuple[str | int, ...], ...]:
    """What `Status.proof` proves, in the order of the leaves, for these positions."""
    return (
        ("timestamp",),
        ("entries", "__len__"),
        ("publishers", "__len__"),
        ("versions", "__len__"),
        ("entries", entry),
        ("publishers", publisher),
        ("versions", version),
    )


def state_index(*path: str | int) -> GeneralizedIndex:
    """The generalized index of a part of a ledger's state. Raises Misuse for a position beyond its limit."""
    return get_generalized_index(LEDGER_SCOPE.schema("BeaconState"), *path)


def registry_root(registry: Sequence[Validator]) -> bytes:
    """The root of a state's list of validators."""
    schema = List(LEDGER_SCOPE.schema(Validator), LEDGER.VALIDATOR_REGISTRY_LIMIT)
    return schema.hash_tree_root(registry)


def encode_bundle(bundle: Bundle) -> bytes:
    """The one encoding of `bundle`."""
    return LEDGER_SCOPE.encode(bundle)


def decode_bundle(data: bytes) -> Bundle:
    """The bundle that `data` encodes. Raises MalformedBundle; bounds are checked before anything is built."""
    if len(data) > MAX_BUNDLE_BYTES:
        raise MalformedBundle(f"A bundle has at most {MAX_BUNDLE_BYTES} bytes, not {len(data)}.")
    version = int.from_bytes(data[:8], "little")
    if len(data) >= 8 and version != BUNDLE_VERSION:
        raise MalformedBundle(
            f"This is no bundle of version {BUNDLE_VERSION}: it starts with {data[:8].hex()}.",
            fix="Check that the file is a bundle, or use a newer release.",
        )
    try:
        bundle: Bundle = LEDGER_SCOPE.schema(Bundle).decode(data)
    except MalformedSSZ as error:
        raise MalformedBundle(f"The bundle cannot be read: {error.what}", fix="Fetch it again.") from None
    return bundle


def root_of(value: Any) -> bytes:
    """The root of a record of a bundle or of a ledger's state."""
    return LEDGER_SCOPE.hash_tree_root(value)
