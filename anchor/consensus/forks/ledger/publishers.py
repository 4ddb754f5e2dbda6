"""Who may say what: publishers, their keys, their organisations (specs/03-ledger §5, rules 14 and 15)."""

from __future__ import annotations

from anchor.consensus.containers.entries import (
    ClaimOrganisation,
    KeySet,
    RegisterPublisher,
    RevokeKeys,
    RevokePublisher,
    RotateKeys,
)
from anchor.consensus.containers.ledger import Organisation, Publisher
from anchor.consensus.entries import require_key_set, require_organisation
from anchor.consensus.forks.ledger.accessors import (
    Context,
    find_owner,
    find_publisher,
    replace_at,
    require_room,
)
from anchor.consensus.schemes import require_point
from anchor.consensus.text import format_identity
from anchor.errors import InvalidEntry
from anchor.params import (
    FAR_FUTURE_POSITION,
    MAX_KEY_SETS,
    MAX_ORGANISATIONS,
    MAX_ORGANISATIONS_PER_PUBLISHER,
    MAX_PUBLISHERS,
)


def verify_register_publisher(context: Context, body: RegisterPublisher) -> None:
    """Raises InvalidEntry, or InvalidSignature for an unsafe key, unless this root key is new here."""
    require_point(body.root_key, "root key")
    if find_publisher(context.state, body.root_key) is not None:
        raise InvalidEntry(f"Publisher {format_identity(body.root_key)} is registered already.")
    require_room(len(context.state.publishers), MAX_PUBLISHERS, "publishers")


def apply_register_publisher(context: Context, body: RegisterPublisher) -> None:
    """Adds a publisher. It has no signing keys until its root key sets some."""
    publisher = Publisher(
        root_key=body.root_key,
        key_sets=(),
        sequence=0,
        root_sequence=0,
        revoked_from=FAR_FUTURE_POSITION,
    )
    context.state.publishers = (*context.state.publishers, publisher)


def verify_rotate_keys(context: Context, body: RotateKeys) -> None:
    """Raises InvalidSignature unless the keys may sign together, InvalidEntry after too many sets."""
    require_key_set(body.keys, context.publisher.root_key)
    require_room(len(context.publisher.key_sets), MAX_KEY_SETS, "key sets of this publisher")


def apply_rotate_keys(context: Context, body: RotateKeys) -> None:
    """Ends the current set, and starts another at the next entry."""
    publisher, start = context.publisher, context.position + 1
    past = tuple([keys.replace(valid_until=min(keys.valid_until, start)) for keys in publisher.key_sets])
    new = KeySet(keys=body.keys, valid_from=start, valid_until=FAR_FUTURE_POSITION)
    _set_publisher(context, publisher.replace(key_sets=(*past, new)))


def verify_revoke_keys(context: Context, body: RevokeKeys) -> None:
    """Raises InvalidEntry unless the set exists, was valid at `since`, and `since` is not in the future."""
    sets = context.publisher.key_sets
    if body.key_set >= len(sets):
        raise InvalidEntry(f"There is no key set {body.key_set}: this publisher has had {len(sets)}.")
    keys, last = sets[body.key_set], context.position
    if not (keys.valid_from <= body.since < keys.valid_until and body.since <= last + 1):
        raise InvalidEntry(
            f"Key set {body.key_set}, valid from entry {keys.valid_from} until {keys.valid_until}, cannot be "
            f"revoked from entry {body.since} on in entry {last}."
        )


def apply_revoke_keys(context: Context, body: RevokeKeys) -> None:
    """Ends a set's validity, also in the past."""
    publisher = context.publisher
    keys = publisher.key_sets[body.key_set].replace(valid_until=body.since)
    _set_publisher(context, publisher.replace(key_sets=replace_at(publisher.key_sets, body.key_set, keys)))


def verify_revoke_publisher(context: Context, body: RevokePublisher) -> None:
    """Raises InvalidEntry unless this revokes more than is revoked, and nothing in the future."""
    if not (body.since < context.publisher.revoked_from and body.since <= context.position + 1):
        raise InvalidEntry(
            f"A publisher that is revoked from entry {context.publisher.revoked_from} on cannot be revoked "
            f"from entry {body.since} on in entry {context.position}."
        )


def apply_revoke_publisher(context: Context, body: RevokePublisher) -> None:
    """Ends what the publisher's entries count for."""
    _set_publisher(context, context.publisher.replace(revoked_from=body.since))


def verify_claim_organisation(context: Context, body: ClaimOrganisation) -> None:
    """Raises InvalidEntry unless the name is one, and nobody has claimed it."""
    require_organisation(body.name)
    organisations = context.state.organisations
    owner = find_owner(context.state, body.name)
    if owner is not None:
        key = format_identity(context.state.publishers[owner].root_key)
        raise InvalidEntry(f"The organisation {body.name.decode()!r} is {key}'s already.")
    require_room(len(organisations), MAX_ORGANISATIONS, "organisations")
    own = sum([known.publisher == context.author for known in organisations])
    require_room(own, MAX_ORGANISATIONS_PER_PUBLISHER, "organisations of this publisher")


def apply_claim_organisation(context: Context, body: ClaimOrganisation) -> None:
    """Gives the name to its claimant."""
    claim = Organisation(name=body.name, publisher=context.author)
    context.state.organisations = (*context.state.organisations, claim)


def _set_publisher(context: Context, publisher: Publisher) -> None:
    context.state.publishers = replace_at(context.state.publishers, context.author, publisher)
