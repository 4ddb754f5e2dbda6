"""Ledger: the records that this fork adds to Altair's (specs/03-ledger §2, §3)."""

from __future__ import annotations

from typing import Annotated, Final

from anchor.consensus.containers import altair, collect_records, entries, phase0
from anchor.consensus.containers.entries import KeySet, Policy, SignedEntry
from anchor.merkle.columns import Column
from anchor.merkle.container import Container
from anchor.params import (
    MAX_ADMINISTRATORS,
    MAX_APPROVERS,
    MAX_ENTRIES,
    MAX_ENTRY_ROOTS,
    MAX_GENESIS_VALIDATORS,
    MAX_KEY_SETS,
    MAX_MODEL_BYTES,
    MAX_MODELS,
    MAX_ORGANISATION_BYTES,
    MAX_ORGANISATIONS,
    MAX_PUBLISHERS,
    MAX_VERSION_BYTES,
    MAX_VERSIONS,
)
from anchor.types import Bytes32, Limit, Root, Version, boolean, uint8, uint64

EntryPosition = uint64
"""A position in the ledger's list of entries: the order in which entries took effect."""
PublisherIndex = uint64
"""A position in the ledger's list of publishers."""


class Genesis(Container):
    """What a network starts from, in one file: its configuration and its first state follow from it."""

    fork_version: Version
    """Random: no other network's signatures hold here."""
    genesis_time: uint64
    """Unix time, seconds."""
    nonce: Bytes32
    """Random: the same people may start a network anew."""
    clock: uint8
    """WALL_CLOCK or LOGICAL_CLOCK."""
    seconds_per_slot: uint64
    administrators: Annotated[tuple[Bytes32, ...], Limit(MAX_ADMINISTRATORS)]
    """Ed25519 public keys."""
    deposits: Annotated[tuple[phase0.DepositData, ...], Limit(MAX_GENESIS_VALIDATORS)]
    """The first validators, each with its proof of possession."""


class NetworkId(Container):
    """What tells one ledger network from every other; its root is the state's `genesis_validators_root`."""

    validators: Root
    """Root of the registry at genesis."""
    administrators: Root
    """Root of the list of administrators at genesis."""
    nonce: Bytes32
    """Random: a registry and its administrators may be the same after a restart."""
    genesis_fork_version: Version
    genesis_time: uint64
    """Unix time, seconds."""
    clock: uint8
    seconds_per_slot: uint64


class Network(Container):
    """The network's parameters that the state carries, for whoever holds no configuration of it."""

    nonce: Bytes32
    clock: uint8
    """WALL_CLOCK: a slot lasts `seconds_per_slot`. LOGICAL_CLOCK: slots pass when blocks are made."""
    seconds_per_slot: uint64
    """With a logical clock, nominal: what a slot counts for when a state's age is judged."""
    weak_subjectivity_period: uint64
    """Epochs; computed anew in every epoch transition."""


class Administrator(Container):
    """Who may register publishers and bring validators' admissions in."""

    key: Bytes32
    """Ed25519 public key: the administrator's identity."""
    sequence: uint64
    """Of the administrator's last entry."""


class Publisher(Container):
    """Who may publish. The root key is the identity; it stays offline and signs changes of keys only."""

    root_key: Bytes32
    """Ed25519 public key: the publisher's identity."""
    key_sets: Annotated[tuple[KeySet, ...], Limit(MAX_KEY_SETS)]
    """Every set of signing keys there was, oldest first; the last is the current one."""
    sequence: uint64
    """Of the last entry that signing keys signed."""
    root_sequence: uint64
    """Of the last entry that the root key signed: a thief of signing keys can't use these numbers up."""
    revoked_from: EntryPosition
    """First position at which the publisher counts as revoked; FAR_FUTURE_POSITION while it does not."""


class Organisation(Container):
    """A name before the slash, and whose it is."""

    name: Annotated[bytes, Limit(MAX_ORGANISATION_BYTES)]
    publisher: PublisherIndex


class Model(Container):
    """A model's name, and what its promotions need."""

    name: Annotated[bytes, Limit(MAX_MODEL_BYTES)]
    """`organisation/name`."""
    publisher: PublisherIndex
    policy: Policy


class Approval(Container):
    """An approver's consent to a change of stage that has not taken place yet."""

    approver: PublisherIndex
    to_stage: uint8
    entry: EntryPosition
    """Where the approval was recorded: its key is judged there."""


class ModelVersion(Container):
    """The status leaf of one published version (rule 2)."""

    model: Annotated[bytes, Limit(MAX_MODEL_BYTES)]
    version: Annotated[bytes, Limit(MAX_VERSION_BYTES)]
    manifest_root: Root
    publisher: PublisherIndex
    entry: EntryPosition
    """Where the publication was recorded: its keys are judged there."""
    stage: uint8
    """STAGE_DEVELOPMENT, STAGE_STAGING, STAGE_PRODUCTION or STAGE_ARCHIVED."""
    revoked: boolean
    """True for good once the publisher has revoked this version."""
    sequence: uint64
    """How often the stage has changed: approvals bind it, so none serves twice."""
    approvals: Annotated[tuple[Approval, ...], Limit(MAX_APPROVERS)]
    """For the next change of stage; emptied by it."""


class BeaconState(altair.BeaconState):
    """Altair's state, and the ledger. `eth1_data` is frozen."""

    entries: Annotated[Column[Root], Limit(MAX_ENTRY_ROOTS)]
    """Roots of all SignedEntry ever included, in order: a later state proves every earlier entry."""
    timestamp: uint64
    """Of the newest block; Unix time, seconds."""
    network: Network
    administrators: Annotated[tuple[Administrator, ...], Limit(MAX_ADMINISTRATORS)]
    publishers: Annotated[tuple[Publisher, ...], Limit(MAX_PUBLISHERS)]
    organisations: Annotated[tuple[Organisation, ...], Limit(MAX_ORGANISATIONS)]
    models: Annotated[tuple[Model, ...], Limit(MAX_MODELS)]
    versions: Annotated[tuple[ModelVersion, ...], Limit(MAX_VERSIONS)]


class BeaconBlockBody(altair.BeaconBlockBody):
    """Altair's body, entries and a time. `deposits` is empty."""

    entries: Annotated[tuple[SignedEntry, ...], Limit(MAX_ENTRIES)]
    timestamp: uint64
    """When the proposer made the block; Unix time, seconds."""


RECORDS: Final = collect_records(globals(), {**altair.RECORDS, **entries.RECORDS})
"""Every record of this fork, by name."""
