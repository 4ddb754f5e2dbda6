"""Entries in blocks: each is verified against the state, then applied to it (specs/03-ledger §4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from anchor.consensus.containers.entries import (
    AdmitValidator,
    Approve,
    ClaimOrganisation,
    Entry,
    Key,
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
from anchor.consensus.entries import (
    ADMINISTRATOR_KINDS,
    ROOT_KEY_KINDS,
    get_identity_key,
    get_publisher_keys,
    verify_entry_signatures,
    verify_schema_version,
)
from anchor.consensus.forks.altair import Altair
from anchor.consensus.forks.ledger import admission, models, publishers
from anchor.consensus.forks.ledger.accessors import (
    Context,
    State,
    find_administrator,
    find_publisher,
    replace_at,
)
from anchor.errors import InvalidEntry
from anchor.merkle.scope import hash_tree_root
from anchor.params import MAX_ENTRIES_PER_AUTHOR, MAX_SEQUENCE_STEP

Rule = Callable[[Context, Any], None]

RULES: Final[dict[type, tuple[Rule, Rule]]] = {
    RegisterPublisher: (publishers.verify_register_publisher, publishers.apply_register_publisher),
    RotateKeys: (publishers.verify_rotate_keys, publishers.apply_rotate_keys),
    RevokeKeys: (publishers.verify_revoke_keys, publishers.apply_revoke_keys),
    RevokePublisher: (publishers.verify_revoke_publisher, publishers.apply_revoke_publisher),
    ClaimOrganisation: (publishers.verify_claim_organisation, publishers.apply_claim_organisation),
    Publish: (models.verify_publish, models.apply_publish),
    Approve: (models.verify_approve, models.apply_approve),
    Promote: (models.verify_promote, models.apply_promote),
    RevokeVersion: (models.verify_revoke_version, models.apply_revoke_version),
    SetPolicy: (models.verify_set_policy, models.apply_set_policy),
    AdmitValidator: (admission.verify_admit_validator, admission.apply_admit_validator),
}
"""By kind: what refuses it, and what it does."""


class EntryProcessing(Altair):
    """`process_entries` and its parts."""

    def process_entries(self, state: State, body: Any) -> None:
        """Applies a block's entries in order. Raises InvalidEntry or InvalidSignature at a bad one."""
        counts = Counter(signed.entry.author for signed in body.entries)
        for author, count in counts.items():
            if count > MAX_ENTRIES_PER_AUTHOR:
                raise InvalidEntry(
                    f"A block holds at most {MAX_ENTRIES_PER_AUTHOR} entries by one author, and this one "
                    f"has {count} by 0x{author.hex()}."
                )
        for signed in body.entries:
            self.process_entry(state, signed)

    def process_entry(self, state: State, signed: SignedEntry) -> None:
        """Applies an entry if it may be the next. Raises InvalidEntry or InvalidSignature."""
        self.verify_entry(state, signed)
        self.apply_entry(state, signed)

    def verify_entry(self, state: State, signed: SignedEntry) -> None:
        """Raises InvalidEntry or InvalidSignature unless `signed` may be the next entry. Changes nothing."""
        entry = signed.entry
        verify_schema_version(entry)
        epoch = self.get_current_epoch(state)
        if entry.expiry_epoch < epoch:
            raise InvalidEntry(
                f"The entry expired in epoch {entry.expiry_epoch}, and now is epoch {epoch}.",
                fix="Sign it again, with a later expiry.",
            )
        context = self.get_entry_context(state, entry)
        _verify_sequence(entry, get_sequence(context, entry))
        keys = _get_required_keys(context, entry)
        verify_entry_signatures(signed, keys, state.fork.current_version, state.genesis_validators_root)
        verify, _ = RULES[type(entry.body.data)]
        verify(context, entry.body.data)

    def apply_entry(self, state: State, signed: SignedEntry) -> None:
        """Records an entry, which was verified, and lets it take effect."""
        entry = signed.entry
        context = self.get_entry_context(state, entry)
        _set_sequence(context, entry)
        _, apply = RULES[type(entry.body.data)]
        apply(context, entry.body.data)
        state.entries.append(hash_tree_root(signed))

    def get_entry_context(self, state: State, entry: Entry) -> Context:
        """Where `entry` stands if it comes next. Raises InvalidEntry when its author is unknown here."""
        administers = isinstance(entry.body.data, ADMINISTRATOR_KINDS)
        author = (find_administrator if administers else find_publisher)(state, entry.author)
        if author is None:
            role = "administrator" if administers else "registered publisher"
            raise InvalidEntry(f"The author 0x{entry.author.hex()} is no {role} of this ledger.")
        return Context(self, state, author, len(state.entries))


def get_sequence(context: Context, entry: Entry) -> int:
    """The number of the author's last entry, among those that the same keys sign."""
    kind = type(entry.body.data)
    if kind in ADMINISTRATOR_KINDS:
        return context.state.administrators[context.author].sequence  # type: ignore[no-any-return]
    return context.publisher.root_sequence if kind in ROOT_KEY_KINDS else context.publisher.sequence


def _set_sequence(context: Context, entry: Entry) -> None:
    state, index, kind = context.state, context.author, type(entry.body.data)
    if kind in ADMINISTRATOR_KINDS:
        administrator = state.administrators[index].replace(sequence=entry.sequence)
        state.administrators = replace_at(state.administrators, index, administrator)
        return
    field = "root_sequence" if kind in ROOT_KEY_KINDS else "sequence"
    publisher = context.publisher.replace(**{field: entry.sequence})
    state.publishers = replace_at(state.publishers, index, publisher)


def _verify_sequence(entry: Entry, last: int) -> None:
    if not last < entry.sequence <= last + MAX_SEQUENCE_STEP:
        raise InvalidEntry(
            f"The author's last entry has sequence {last}, and this one {entry.sequence}: it must be "
            f"greater, by at most {MAX_SEQUENCE_STEP}."
        )


def _get_required_keys(context: Context, entry: Entry) -> tuple[Key, ...]:
    kind = type(entry.body.data)
    if kind in ADMINISTRATOR_KINDS:
        return (get_identity_key(entry.author),)
    publisher = context.publisher
    if context.position >= publisher.revoked_from and kind is not RevokePublisher:
        raise InvalidEntry(
            f"Publisher 0x{publisher.root_key.hex()} is revoked from entry {publisher.revoked_from} on."
        )
    return get_publisher_keys(publisher, entry, context.position)
