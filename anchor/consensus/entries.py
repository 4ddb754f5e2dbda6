"""Entries: names, what is signed, and whose signatures an entry must carry (specs/03-ledger §4).

The ledger checks entries with this before it records them; a verifier checks those it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from anchor.consensus.containers.entries import (
    AdmitValidator,
    Entry,
    Key,
    KeySet,
    RegisterPublisher,
    RevokeKeys,
    RevokePublisher,
    RotateKeys,
    SetPolicy,
    SignedEntry,
)
from anchor.consensus.containers.ledger import Publisher
from anchor.consensus.schemes import SigningKey, require_key, verify_signature
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.errors import InvalidEntry, InvalidSignature
from anchor.merkle.scope import hash_tree_root
from anchor.params import (
    DOMAIN_ENTRY,
    ENTRY_SCHEMA_VERSION,
    MAX_KEYS,
    MAX_MODEL_BYTES,
    MAX_ORGANISATION_BYTES,
    MAX_VERSION_BYTES,
    SCHEME_ED25519,
)
from anchor.types import Root, Version

ADMINISTRATOR_KINDS: Final = (RegisterPublisher, AdmitValidator)
"""Kinds that an administrator signs."""
ROOT_KEY_KINDS: Final = (RotateKeys, RevokeKeys, RevokePublisher, SetPolicy)
"""Kinds that a publisher's root key signs; the current signing keys sign all others."""

_NAME: Final = re.compile(rb"[a-z0-9][a-z0-9._-]*")


# Names


def require_name(name: bytes, limit: int, what: str) -> None:
    """Raises InvalidEntry unless `name` is 1 to `limit` of a-z, 0-9, '.', '_', '-', the first of a-z, 0-9."""
    if len(name) > limit or not _NAME.fullmatch(name):
        raise InvalidEntry(
            f"The {what} {name.decode('latin-1')!a} is not a name: 1 to {limit} of a-z, 0-9, '.', '_', '-', "
            "the first of them a letter or a digit."
        )


def require_organisation(name: bytes) -> None:
    """Raises InvalidEntry unless `name` may be an organisation's."""
    require_name(name, MAX_ORGANISATION_BYTES, "organisation")


def require_model(name: bytes) -> None:
    """Raises InvalidEntry unless `name` is organisation/name."""
    organisation, slash, own = name.partition(b"/")
    if not slash:
        raise InvalidEntry(f"The model {name.decode('latin-1')!a} is not of the form organisation/name.")
    require_organisation(organisation)
    require_name(own, MAX_MODEL_BYTES - len(organisation) - 1, "model")


def require_version(name: bytes) -> None:
    """Raises InvalidEntry unless `name` may be a version's."""
    require_name(name, MAX_VERSION_BYTES, "version")


def get_organisation(model: bytes) -> bytes:
    """The part of a model's name before the slash."""
    return model.partition(b"/")[0]


# Signatures


def compute_entry_signing_root(entry: Entry, fork_version: Version, network_id: Root) -> Root:
    """What each key signs: the entry, bound to its purpose, the fork and the network (rule 13)."""
    domain = compute_domain(DOMAIN_ENTRY, fork_version, network_id)
    return compute_signing_root(hash_tree_root(entry), domain)


def sign_entry(
    entry: Entry, keys: Sequence[SigningKey], fork_version: Version, network_id: Root
) -> SignedEntry:
    """`entry` with the signatures of `keys`, in order."""
    message = compute_entry_signing_root(entry, fork_version, network_id)
    return SignedEntry(entry=entry, signatures=tuple([key.sign(message) for key in keys]))


def verify_entry_signatures(
    signed: SignedEntry, keys: Sequence[Key], fork_version: Version, network_id: Root
) -> None:
    """Raises InvalidSignature unless `signed` carries one signature of each of `keys`, in order (rule 14)."""
    if not keys or len(signed.signatures) != len(keys):
        raise InvalidSignature(
            f"The entry carries {len(signed.signatures)} signatures, and its author has {len(keys)} keys.",
            fix="Sign it with every key that the author has registered, in their order.",
        )
    message = compute_entry_signing_root(signed.entry, fork_version, network_id)
    for key, signature in zip(keys, signed.signatures, strict=True):
        verify_signature(key, message, signature)


def verify_schema_version(entry: Entry) -> None:
    """Raises InvalidEntry unless the entry follows the rules that we know."""
    if entry.schema_version != ENTRY_SCHEMA_VERSION:
        raise InvalidEntry(
            f"The entry has schema version {entry.schema_version}, and ours is {ENTRY_SCHEMA_VERSION}."
        )


# Keys


def get_identity_key(identity: bytes) -> Key:
    """An identity as the Ed25519 key that it is."""
    return Key(scheme=SCHEME_ED25519, public_key=identity)


def get_key_set(publisher: Publisher, position: int) -> KeySet | None:
    """The keys whose signatures count in an entry at `position`; None when none do (rule 15)."""
    if position >= publisher.revoked_from:
        return None
    fitting = [keys for keys in publisher.key_sets if keys.valid_from <= position < keys.valid_until]
    return fitting[0] if fitting else None


def get_publisher_keys(publisher: Publisher, entry: Entry, position: int) -> tuple[Key, ...]:
    """The keys that must sign `entry`, by `publisher`, at `position`. Raises InvalidSignature for none."""
    if isinstance(entry.body.data, ROOT_KEY_KINDS):
        return (get_identity_key(publisher.root_key),)
    keys = get_key_set(publisher, position)
    if keys is None:
        raise InvalidSignature(
            f"Publisher 0x{publisher.root_key.hex()} has no valid signing keys at entry {position}.",
            fix="Its root key can register new ones, unless the publisher is revoked.",
        )
    return keys.keys


def require_key_set(keys: Sequence[Key], root_key: bytes) -> None:
    """Raises InvalidSignature unless `keys` may sign together for the publisher with this root key."""
    if not keys or keys[0].scheme != SCHEME_ED25519:
        raise InvalidSignature(f"A set of signing keys has 1 to {MAX_KEYS} keys, the first of them Ed25519.")
    for key in keys:
        require_key(key)
    if len(set(keys)) != len(keys) or get_identity_key(root_key) in keys:
        raise InvalidSignature("The keys of a set must differ from each other and from the root key.")
