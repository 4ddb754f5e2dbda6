"""What a publisher has to say, as entries, which others record: publications with all that they need,
approvals, promotions, revocations, policies, and which keys sign from now on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from anchor.consensus.containers.entries import (
    AdmitValidator,
    Approve,
    ClaimOrganisation,
    Key,
    Policy,
    Promote,
    Publish,
    RegisterPublisher,
    RevokeKeys,
    RevokePublisher,
    RevokeVersion,
    RotateKeys,
    SetPolicy,
    SignedEntry,
)
from anchor.consensus.containers.ledger import ModelVersion, Publisher
from anchor.consensus.entries import get_key_set, get_organisation
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.accessors import find_owner, find_publisher, find_version
from anchor.consensus.schemes import SigningKey
from anchor.consensus.text import encode_name, format_identity
from anchor.errors import InvalidEntry, InvalidSignature, Misuse, Unavailable
from anchor.merkle.container import Container
from anchor.node.chain import Head, State
from anchor.node.entries import Pen
from anchor.params import MAX_REASON_BYTES


class Standing(Protocol):
    """How a ledger stands: what entries are written against."""

    @property
    def ledger(self) -> Ledger:
        """The rules."""

    def get_head(self) -> Head:
        """The newest block, and the state that it leads to."""
        ...

    def get_next_epoch(self) -> int:
        """An epoch in which an entry that is written now may be recorded."""
        ...

    def get_final_count(self) -> int:
        """How many entries are final."""
        ...

    def verify_entries(self, entries: Sequence[SignedEntry]) -> None:
        """Judges whether the ledger would take these entries next. Raises Invalid for one that it refuses."""


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


# Publications


def write_publication(
    chain: Standing, author: Author, administrator: SigningKey | None, publication: Publish
) -> list[SignedEntry]:
    """The publication; before it, where the ledger lacks them, publisher, signing keys and organisation.

    Raises Misuse when the root key is needed for that, and is not at hand; InvalidEntry and InvalidSignature
    for signing keys that are not the publisher's.
    """
    state, pen = chain.get_head().state, _take_pen(chain)
    entries = _register(state, pen, author, administrator)
    if not entries:
        require_current_keys(state, author)
    organisation = get_organisation(publication.model)
    if find_owner(state, organisation) is None:
        entries.append(pen.write(author.identity, ClaimOrganisation(name=organisation), author.signing))
    return [*entries, pen.write(author.identity, publication, author.signing)]


def write_revocation(chain: Standing, author: Author, name: str, reason: str) -> SignedEntry:
    """The withdrawal of a version. Raises Misuse for a reason that is too long."""
    version, said = get_version(chain.get_head().state, name), _encode_reason(reason)
    revocation = RevokeVersion(
        model=version.model, version=version.version, manifest_root=version.manifest_root, reason=said
    )
    return _sign(chain, author, revocation)


# Stages


def write_promotion(chain: Standing, author: Author, name: str, to_stage: int) -> SignedEntry:
    """The change of a version's stage, from the one that it has now."""
    return _sign(chain, author, _change_stage(Promote, chain, name, to_stage))


def write_approval(chain: Standing, author: Author, name: str, to_stage: int) -> SignedEntry:
    """An approver's consent to the change of a version's stage from the one that it has now."""
    return _sign(chain, author, _change_stage(Approve, chain, name, to_stage))


def _change_stage(
    kind: type[Approve | Promote], chain: Standing, name: str, to_stage: int
) -> Approve | Promote:
    version = get_version(chain.get_head().state, name)
    return kind(
        model=version.model,
        version=version.version,
        manifest_root=version.manifest_root,
        from_stage=version.stage,
        to_stage=to_stage,
        sequence=version.sequence,
    )


def write_policy(chain: Standing, author: Author, model: str, policy: Policy) -> SignedEntry:
    """What promotions of a model's versions need from now on, by the root key."""
    return _sign_as_root(chain, author, SetPolicy(model=encode_name(model), policy=policy))


# Keys


def write_registration(
    chain: Standing, author: Author, administrator: SigningKey | None
) -> list[SignedEntry]:
    """The publisher and its first signing keys. Raises InvalidEntry when the ledger has them."""
    state = chain.get_head().state
    entries = _register(state, _take_pen(chain), author, administrator)
    if not entries:
        raise InvalidEntry(
            f"Publisher {format_identity(author.identity)} is registered, and has signing keys.",
            fix="Set other ones with: anchor keys rotate",
        )
    return entries


def write_registrations(
    chain: Standing, identities: Sequence[bytes], administrator: SigningKey
) -> list[SignedEntry]:
    """Publishers whom an administrator vouches for. They have yet to set signing keys of their own."""
    pen, author = _take_pen(chain), administrator.public.public_key
    return [pen.write(author, RegisterPublisher(root_key=key), (administrator,)) for key in identities]


def write_admissions(
    chain: Standing, admissions: Sequence[AdmitValidator], administrator: SigningKey
) -> list[SignedEntry]:
    """New validators, to whom two thirds of the stake consent."""
    pen, author = _take_pen(chain), administrator.public.public_key
    return [pen.write(author, admission, (administrator,)) for admission in admissions]


def write_rotation(chain: Standing, author: Author) -> SignedEntry:
    """The author's signing keys sign from the next entry on. Raises InvalidEntry for ones that it has had."""
    publisher, keys = _get_publisher(chain.get_head().state, author), _get_public(author)
    for known in publisher.key_sets:
        if known.keys == keys:
            raise InvalidEntry(
                f"This signing key is the publisher's already, since entry {known.valid_from}.",
                fix="Make a new one with: anchor keygen FILE --root-key FILE",
            )
    return _sign_as_root(chain, author, RotateKeys(keys=keys))


def write_key_revocation(chain: Standing, author: Author, since: int, reason: str) -> SignedEntry:
    """What was signed in entry `since` or later, by the keys that were valid there, does not count.

    Raises InvalidEntry when none were.
    """
    publisher, said = _get_publisher(chain.get_head().state, author), _encode_reason(reason)
    _require_past(chain, since)
    for number, keys in enumerate(publisher.key_sets):
        if keys.valid_from <= since < keys.valid_until:
            return _sign_as_root(chain, author, RevokeKeys(key_set=number, since=since, reason=said))
    raise InvalidEntry(
        f"Publisher {format_identity(author.identity)} has no signing keys that are valid in entry {since}.",
        fix="See: anchor keys list",
    )


def write_publisher_revocation(chain: Standing, author: Author, since: int, reason: str) -> SignedEntry:
    """Nothing that the publisher recorded at `since` or later counts, and nothing new will."""
    publisher = _get_publisher(chain.get_head().state, author)
    _require_past(chain, since)
    if since >= publisher.revoked_from:
        raise InvalidEntry(
            f"Publisher {format_identity(author.identity)} is revoked from entry {publisher.revoked_from} on "
            "already.",
            fix="Only an earlier entry can follow.",
        )
    return _sign_as_root(chain, author, RevokePublisher(since=since, reason=_encode_reason(reason)))


def require_current_keys(state: State, author: Author) -> None:
    """Raises InvalidEntry or InvalidSignature unless the author's signing keys may sign the next entry."""
    publisher, position = _get_publisher(state, author), len(state.entries)
    if position >= publisher.revoked_from:
        name = format_identity(author.identity)
        raise InvalidEntry(f"Publisher {name} is revoked from entry {publisher.revoked_from} on.")
    keys = get_key_set(publisher, position)
    if keys is None:
        raise InvalidSignature(
            f"Publisher {format_identity(author.identity)} has no signing keys that count now.",
            fix="Set new ones, with its root key: anchor keys rotate",
        )
    if keys.keys != _get_public(author):
        raise InvalidSignature(
            f"The signing key is not the publisher's: another one was set, valid from entry "
            f"{keys.valid_from} on.",
            fix="Sign with that one, or set a new one with: anchor keys rotate",
        )


def _register(state: State, pen: Pen, author: Author, administrator: SigningKey | None) -> list[SignedEntry]:
    """What makes the ledger know the publisher and its first signing keys, as far as it does not."""
    entries = []
    if find_publisher(state, author.identity) is None:
        if administrator is None:
            name = format_identity(author.identity)
            raise InvalidEntry(
                f"This ledger knows no publisher {name}.",
                fix=f"Let an administrator register it: anchor network register {name} "
                "(or, where one operator keeps the ledger, that operator).",
            )
        registration = RegisterPublisher(root_key=author.identity)
        entries.append(pen.write(administrator.public.public_key, registration, (administrator,)))
    if needs_root_key(state, author.identity):
        if author.root is None:
            raise Misuse("A publisher's first publication on a ledger needs its root key.")
        keys = RotateKeys(keys=_get_public(author))
        entries.append(pen.write(author.identity, keys, (author.root,)))
    return entries


def _get_publisher(state: State, author: Author) -> Publisher:
    """The author as the ledger knows it. Raises InvalidEntry when it does not."""
    index = find_publisher(state, author.identity)
    if index is None:
        raise InvalidEntry(
            f"This ledger knows no publisher {format_identity(author.identity)}.",
            fix="Register it with: anchor keys register",
        )
    publisher: Publisher = state.publishers[index]
    return publisher


def _get_public(author: Author) -> tuple[Key, ...]:
    return tuple([key.public for key in author.signing])


# Writing


def _sign(chain: Standing, author: Author, body: Container) -> SignedEntry:
    """The author's next entry, by its signing keys."""
    require_current_keys(chain.get_head().state, author)
    return _take_pen(chain).write(author.identity, body, author.signing)


def _sign_as_root(chain: Standing, author: Author, body: Container) -> SignedEntry:
    """The author's next entry, by its root key."""
    if author.root is None:
        raise Misuse("That needs the publisher's root key.", fix="Name it with --root-key.")
    return _take_pen(chain).write(author.identity, body, (author.root,))


def _require_past(chain: Standing, since: int) -> None:
    """Raises InvalidEntry for an entry that is not even the next one."""
    count = len(chain.get_head().state.entries)
    if since > count:
        raise InvalidEntry(f"There is no entry {since}: the next one is {count}.", fix="See: anchor log")


def _encode_reason(reason: str) -> bytes:
    """The bytes of a reason. Raises Misuse for one that is too long."""
    said = reason.encode("utf-8", "replace")
    if len(said) > MAX_REASON_BYTES:
        raise Misuse(f"A reason has at most {MAX_REASON_BYTES} bytes.", fix="Shorten it.")
    return said


def _take_pen(chain: Standing) -> Pen:
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


def find_pending(chain: Standing, publication: Publish) -> ModelVersion | None:
    """The version of this name, where it was recorded and the ledger was interrupted before it was final."""
    state = chain.get_head().state
    index = find_version(state, publication.model, publication.version)
    if index is None:
        return None
    version: ModelVersion = state.versions[index]
    return version if version.entry >= chain.get_final_count() else None
