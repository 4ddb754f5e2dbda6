"""What a publisher has to say, as entries: publications with all that they need, promotions, revocations."""

from __future__ import annotations

from dataclasses import dataclass

from anchor.consensus.containers.entries import (
    ClaimOrganisation,
    Promote,
    Publish,
    RegisterPublisher,
    RevokeVersion,
    RotateKeys,
    SignedEntry,
)
from anchor.consensus.containers.ledger import ModelVersion
from anchor.consensus.entries import get_organisation
from anchor.consensus.forks.ledger.accessors import find_owner, find_publisher, find_version
from anchor.consensus.schemes import SigningKey
from anchor.errors import Misuse, Unavailable
from anchor.node.chain import Chain, State
from anchor.node.entries import Pen
from anchor.params import MAX_REASON_BYTES


@dataclass(frozen=True, slots=True)
class Author:
    """A publisher, as far as its keys are at hand."""

    identity: bytes
    """Root public key."""
    signing: tuple[SigningKey, ...]
    root: SigningKey | None = None
    """Of use only where keys are set or withdrawn."""


def needs_root_key(state: State, identity: bytes) -> bool:
    """Whether the publisher must yet set its signing keys on this ledger."""
    index = find_publisher(state, identity)
    return index is None or not state.publishers[index].key_sets


def write_publication(
    chain: Chain, author: Author, administrator: SigningKey, publication: Publish
) -> list[SignedEntry]:
    """The publication; before it, where the ledger lacks them, publisher, signing keys and organisation.

    Raises Misuse when the root key is needed for that, and is not at hand.
    """
    state, pen, entries = chain.get_head().state, _take_pen(chain), []
    if find_publisher(state, author.identity) is None:
        registration = RegisterPublisher(root_key=author.identity)
        entries.append(pen.write(administrator.public.public_key, registration, (administrator,)))
    if needs_root_key(state, author.identity):
        if author.root is None:
            raise Misuse("A publisher's first publication on a ledger needs its root key.")
        keys = RotateKeys(keys=tuple([key.public for key in author.signing]))
        entries.append(pen.write(author.identity, keys, (author.root,)))
    organisation = get_organisation(publication.model)
    if find_owner(state, organisation) is None:
        entries.append(pen.write(author.identity, ClaimOrganisation(name=organisation), author.signing))
    entries.append(pen.write(author.identity, publication, author.signing))
    return entries


def write_promotion(chain: Chain, author: Author, name: str, to_stage: int) -> SignedEntry:
    """The change of a version's stage, from the one that it has now."""
    version = get_version(chain.get_head().state, name)
    promotion = Promote(
        model=version.model,
        version=version.version,
        manifest_root=version.manifest_root,
        from_stage=version.stage,
        to_stage=to_stage,
        sequence=version.sequence,
    )
    return _take_pen(chain).write(author.identity, promotion, author.signing)


def write_revocation(chain: Chain, author: Author, name: str, reason: str) -> SignedEntry:
    """The withdrawal of a version. Raises Misuse for a reason that is too long."""
    said = reason.encode("utf-8", "replace")
    if len(said) > MAX_REASON_BYTES:
        raise Misuse(f"A reason has at most {MAX_REASON_BYTES} bytes.", fix="Shorten it.")
    version = get_version(chain.get_head().state, name)
    revocation = RevokeVersion(
        model=version.model, version=version.version, manifest_root=version.manifest_root, reason=said
    )
    return _take_pen(chain).write(author.identity, revocation, author.signing)


def _take_pen(chain: Chain) -> Pen:
    return Pen(chain.get_head().state, chain.get_next_epoch())


def get_version(state: State, name: str) -> ModelVersion:
    """The version that `name`, organisation/model@version, names. Raises Misuse, Unavailable."""
    model, at, version = name.encode("utf-8", "replace").rpartition(b"@")
    if not at:
        raise Misuse(f"{name!a} names no version.", fix="Write organisation/model@version.")
    index = find_version(state, model, version)
    if index is None:
        raise Unavailable(f"There is no {name!a} on this ledger.", fix="See: anchor log")
    found: ModelVersion = state.versions[index]
    return found


def find_pending(chain: Chain, publication: Publish) -> ModelVersion | None:
    """The version of this name, where it was recorded and the ledger was interrupted before it was final."""
    state = chain.get_head().state
    index = find_version(state, publication.model, publication.version)
    if index is None:
        return None
    version: ModelVersion = state.versions[index]
    return version if version.entry >= chain.get_status().final_entries else None
