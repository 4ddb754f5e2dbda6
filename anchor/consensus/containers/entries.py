"""Entries: what people sign and the ledger records (specs/03-ledger §4). No size depends on a preset."""

from __future__ import annotations

from typing import Annotated, Final

from anchor.consensus.containers import collect_records
from anchor.consensus.containers.phase0 import DepositData
from anchor.merkle.bits import Bits
from anchor.merkle.container import Container
from anchor.merkle.union import OneOf, Selected
from anchor.params import (
    MAX_APPROVERS,
    MAX_KEYS,
    MAX_MODEL_BYTES,
    MAX_ORGANISATION_BYTES,
    MAX_PUBLIC_KEY_BYTES,
    MAX_REASON_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_VERSION_BYTES,
)
from anchor.types import BLSSignature, Bytes32, Epoch, Limit, Root, uint8, uint16, uint64


class Key(Container):
    """A signing key's public half."""

    scheme: uint8
    """SCHEME_ED25519 or SCHEME_ML_DSA_65."""
    public_key: Annotated[bytes, Limit(MAX_PUBLIC_KEY_BYTES)]


class KeySet(Container):
    """Keys that sign together: an entry carries one signature of each, in this order."""

    keys: Annotated[tuple[Key, ...], Limit(MAX_KEYS)]
    valid_from: uint64
    """Position of the first entry that these keys may sign."""
    valid_until: uint64
    """First position at which they no longer count; FAR_FUTURE_POSITION while they do."""


class Policy(Container):
    """Who must consent before a version of a model moves to a higher stage."""

    approvers: Annotated[tuple[Bytes32, ...], Limit(MAX_APPROVERS)]
    """Identities (root keys) of publishers."""
    threshold: uint64
    """How many of them."""


class RegisterPublisher(Container):
    """By an administrator: the owner of `root_key` may set keys and publish."""

    root_key: Bytes32


class RotateKeys(Container):
    """By the root key: from the next entry on, exactly these keys sign."""

    keys: Annotated[tuple[Key, ...], Limit(MAX_KEYS)]


class RevokeKeys(Container):
    """By the root key: what a set of keys signed at `since` or later does not count."""

    key_set: uint64
    """Position in the publisher's `key_sets`."""
    since: uint64
    """Entry position; not before the set became valid, not after this entry."""
    reason: Annotated[bytes, Limit(MAX_REASON_BYTES)]


class RevokePublisher(Container):
    """By the root key: what this publisher recorded at `since` or later does not count, nor anything new."""

    since: uint64
    """Entry position, not after this entry."""
    reason: Annotated[bytes, Limit(MAX_REASON_BYTES)]


class ClaimOrganisation(Container):
    """By a publisher: models named `organisation/…` are its own. The first claim holds."""

    name: Annotated[bytes, Limit(MAX_ORGANISATION_BYTES)]


class Publish(Container):
    """By a publisher: this is the manifest of a new version."""

    model: Annotated[bytes, Limit(MAX_MODEL_BYTES)]
    """`organisation/name`."""
    version: Annotated[bytes, Limit(MAX_VERSION_BYTES)]
    manifest_root: Root


class Approve(Container):
    """By an approver of the model's policy: consent to one change of stage of one version."""

    model: Annotated[bytes, Limit(MAX_MODEL_BYTES)]
    version: Annotated[bytes, Limit(MAX_VERSION_BYTES)]
    manifest_root: Root
    from_stage: uint8
    to_stage: uint8
    sequence: uint64
    """The version's own: how often its stage has changed before."""


class Promote(Container):
    """By the model's publisher: changes a version's stage, up, down or into the archive."""

    model: Annotated[bytes, Limit(MAX_MODEL_BYTES)]
    version: Annotated[bytes, Limit(MAX_VERSION_BYTES)]
    manifest_root: Root
    from_stage: uint8
    to_stage: uint8
    sequence: uint64
    """The version's own: how often its stage has changed before."""


class RevokeVersion(Container):
    """By the model's publisher: nobody should use this version any more. There is no way back."""

    model: Annotated[bytes, Limit(MAX_MODEL_BYTES)]
    version: Annotated[bytes, Limit(MAX_VERSION_BYTES)]
    manifest_root: Root
    reason: Annotated[bytes, Limit(MAX_REASON_BYTES)]


class SetPolicy(Container):
    """By the root key of the model's publisher: a thief of signing keys can't do without approvals."""

    model: Annotated[bytes, Limit(MAX_MODEL_BYTES)]
    policy: Policy


class Admission(Container):
    """What validators sign to admit another: its deposit data, and until when their consent holds."""

    deposit: DepositData
    """Key, withdrawal credentials, stake, and the key's signature over them: proof of possession."""
    expiry_epoch: Epoch


class AdmitValidator(Container):
    """By an administrator: a validator that two thirds of the stake want."""

    admission: Admission
    participants: Annotated[Bits, Limit(2**40)]
    """A bit for each validator of the registry when it was signed."""
    signature: BLSSignature
    """Aggregate of the participants' signatures over `admission`."""


KINDS: Final = (
    RegisterPublisher,
    RotateKeys,
    RevokeKeys,
    RevokePublisher,
    ClaimOrganisation,
    Publish,
    Approve,
    Promote,
    RevokeVersion,
    SetPolicy,
    AdmitValidator,
)
"""Every kind of entry; its place here is its selector."""


class Entry(Container):
    """One thing that one author has to say."""

    schema_version: uint16
    """ENTRY_SCHEMA_VERSION."""
    author: Bytes32
    """Identity: an administrator's key, or a publisher's root key."""
    sequence: uint64
    """Greater than that of the author's last entry."""
    expiry_epoch: Epoch
    """The last epoch in which the entry may be included."""
    body: Annotated[Selected, OneOf(KINDS)]
    """Its kind, and what that kind says."""


class SignedEntry(Container):
    """An entry with the signatures that its author's keys demand. Its root is what the ledger keeps."""

    entry: Entry
    signatures: Annotated[tuple[Annotated[bytes, Limit(MAX_SIGNATURE_BYTES)], ...], Limit(MAX_KEYS)]


RECORDS: Final = collect_records(globals())
"""Every record of an entry, by name."""
