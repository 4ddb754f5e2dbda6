"""Who may say what, and under whose signatures: an attack per rule 13, 14 and 15."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.consensus.containers.entries import (
    KINDS,
    Approve,
    ClaimOrganisation,
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
from anchor.consensus.entries import ADMINISTRATOR_KINDS, ROOT_KEY_KINDS, get_key_set, sign_entry
from anchor.consensus.forks.ledger import models, publishers
from anchor.consensus.forks.ledger.entries import RULES
from anchor.consensus.forks.ledger.models import OPEN_POLICY
from anchor.consensus.schemes import SigningKey
from anchor.errors import InvalidEntry, InvalidSignature
from anchor.merkle.scope import hash_tree_root
from anchor.merkle.union import Selected
from anchor.params import FAR_FUTURE_POSITION, MAX_ENTRIES_PER_AUTHOR, MAX_ORGANISATIONS_PER_PUBLISHER
from tests.consensus.ledgers import (
    ADMINISTRATOR,
    ALICE,
    BOB,
    BOB_ROOT,
    PUBLICATION,
    ROOT,
    Chain,
    identity,
    make_genesis,
    make_key,
)

MALLORY = make_key("mallory")
NEXT = PUBLICATION.replace(version=b"1.1")


@pytest.fixture
def chain() -> Chain:
    made = Chain()
    made.add_alice()
    return made


def _refuse(chain: Chain, signed: SignedEntry, error: type[Exception], match: str) -> None:
    """The entry is refused, and verifying it has changed nothing."""
    before = chain.ledger.hash_tree_root(chain.state)
    with pytest.raises(error, match=match):
        chain.ledger.verify_entry(chain.state, signed)
    assert chain.ledger.hash_tree_root(chain.state) == before


def _sign(chain: Chain, signed: SignedEntry, keys: tuple[SigningKey, ...], **changes: Any) -> SignedEntry:
    entry = signed.entry.replace(**changes)
    return sign_entry(entry, keys, chain.state.fork.current_version, chain.state.genesis_validators_root)


def test_every_kind_has_a_signer_and_a_rule() -> None:
    assert set(RULES) == set(KINDS)
    assert not set(ADMINISTRATOR_KINDS) & set(ROOT_KEY_KINDS)


# Rule 13


def test_an_entry_holds_on_one_network_only(chain: Chain) -> None:
    """The same registry, administrators and fork version, started anew: only the nonce differs."""
    other = Chain(make_genesis(nonce=8))
    other.add_alice()
    entry = chain.make_entry(ALICE, ROOT, NEXT)
    chain.ledger.verify_entry(chain.state, entry)
    _refuse(other, entry, InvalidSignature, "not by key")


def test_an_entry_holds_under_one_fork_version_only(chain: Chain) -> None:
    entry = chain.make_entry(ALICE, ROOT, NEXT).entry
    network = chain.state.genesis_validators_root
    _refuse(chain, sign_entry(entry, ALICE, b"\x01\x02\x03\x04", network), InvalidSignature, "not by key")


def test_an_entry_is_not_repeated(chain: Chain) -> None:
    claim = chain.make_entry(ALICE, ROOT, ClaimOrganisation(name=b"second"))
    chain.add(claim)
    _refuse(chain, claim, InvalidEntry, "sequence")


def test_an_older_entry_does_not_come_after_a_newer_one(chain: Chain) -> None:
    older, newer = [chain.make_entry(ALICE, ROOT, PUBLICATION.replace(version=v)) for v in (b"2", b"3")]
    chain.add(newer)
    _refuse(chain, older, InvalidEntry, "sequence")


@pytest.mark.parametrize("jump", [2**16 + 1, 2**64 - 4])
def test_a_thief_cannot_use_up_the_sequence(chain: Chain, jump: int) -> None:
    entry = chain.make_entry(ALICE, ROOT, NEXT)
    last = chain.state.publishers[0].sequence
    _refuse(chain, _sign(chain, entry, ALICE, sequence=last + jump), InvalidEntry, "by at most")
    chain.add(_sign(chain, entry, ALICE, sequence=last + 2**16))


def test_the_root_key_has_a_sequence_of_its_own(chain: Chain) -> None:
    entry = chain.make_entry(ALICE, ROOT, NEXT)
    chain.add(_sign(chain, entry, ALICE, sequence=chain.state.publishers[0].sequence + 2**16))
    chain.add(chain.make_entry([ROOT], ROOT, RotateKeys(keys=(make_key("new").public,))))


def test_an_expired_entry_is_refused(chain: Chain) -> None:
    entry = chain.make_entry(ALICE, ROOT, NEXT, expiry_epoch=0)
    chain.ledger.verify_entry(chain.state, entry)
    chain.ledger.process_slots(chain.state, 8)
    _refuse(chain, entry, InvalidEntry, "expired in epoch 0")


def test_an_unknown_schema_version_is_refused(chain: Chain) -> None:
    _refuse(chain, chain.make_entry(ALICE, ROOT, NEXT, schema_version=2), InvalidEntry, "schema version 2")


@pytest.mark.parametrize(
    "changes",
    [
        {"author": identity(MALLORY)},
        {"sequence": 77},
        {"expiry_epoch": 2000},
        {"body": Selected(KINDS.index(Publish), NEXT.replace(manifest_root=b"\x66" * 32))},
        {"body": Selected(KINDS.index(ClaimOrganisation), ClaimOrganisation(name=b"other"))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_signature_covers_every_field(chain: Chain, changes: dict[str, Any]) -> None:
    chain.register(MALLORY, (make_key("mallory's own"),))
    signed = chain.make_entry(ALICE, ROOT, NEXT)
    changed = signed.replace(entry=signed.entry.replace(**changes))
    _refuse(chain, changed, InvalidSignature, "not by key")


def test_an_approval_is_no_promotion() -> None:
    """Two kinds with the same fields: the selector is part of what is signed."""
    values = Approve(
        model=b"a/b", version=b"1", manifest_root=bytes(32), from_stage=0, to_stage=1, sequence=0
    ).values()
    signed = Chain().make_entry([ROOT], ROOT, Approve.from_values(values))
    promotion = Selected(KINDS.index(Promote), Promote.from_values(values))
    assert hash_tree_root(signed.entry) != hash_tree_root(signed.entry.replace(body=promotion))


def test_the_ledger_keeps_the_root_with_the_signatures(chain: Chain) -> None:
    signed = chain.make_entry(ALICE, ROOT, NEXT)
    chain.add(signed)
    assert chain.state.entries[len(chain.state.entries) - 1] == hash_tree_root(signed)
    assert hash_tree_root(signed) != hash_tree_root(signed.replace(signatures=(bytes(64),)))


# Rule 14


def test_no_signature_can_be_stripped_added_or_swapped() -> None:
    chain = Chain()
    chain.register(BOB_ROOT, BOB)
    signed = chain.make_entry(BOB, BOB_ROOT, ClaimOrganisation(name=b"bobs"))
    classic, lasting = signed.signatures
    for signatures in ((classic,), (lasting,), (), (classic, lasting, classic)):
        _refuse(chain, signed.replace(signatures=signatures), InvalidSignature, "carries")
    _refuse(chain, signed.replace(signatures=(lasting, classic)), InvalidSignature, "bytes")
    _refuse(chain, signed.replace(signatures=(classic, classic)), InvalidSignature, "bytes")
    chain.add(signed)


def test_another_key_does_not_sign(chain: Chain) -> None:
    _refuse(chain, chain.make_entry([MALLORY], ROOT, NEXT), InvalidSignature, "not by key")


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ((), "1 to 4 keys"),
        ((BOB[1].public,), "first of them Ed25519"),
        ((ALICE[0].public, ALICE[0].public), "differ"),
        ((ROOT.public,), "differ"),
        ((ALICE[0].public.replace(public_key=b"\1" + bytes(31)),), "small order"),
        ((ALICE[0].public, ALICE[0].public.replace(scheme=9)), "scheme 9"),
    ],
)
def test_keys_that_are_unsafe_are_not_registered(chain: Chain, keys: Any, match: str) -> None:
    rotation = chain.make_entry([ROOT], ROOT, RotateKeys(keys=keys))
    _refuse(chain, rotation, InvalidSignature, match)


# Rule 15


def test_only_administrators_register_publishers(chain: Chain) -> None:
    body = RegisterPublisher(root_key=identity(MALLORY))
    _refuse(chain, chain.make_entry([MALLORY], MALLORY, body), InvalidEntry, "no administrator")
    _refuse(chain, chain.make_entry([MALLORY], ADMINISTRATOR, body), InvalidSignature, "not by key")
    _refuse(chain, chain.make_entry(ALICE, ROOT, body), InvalidEntry, "no administrator")


def test_only_publishers_publish(chain: Chain) -> None:
    _refuse(chain, chain.make_entry([MALLORY], MALLORY, NEXT), InvalidEntry, "no registered publisher")


def test_registering_gives_an_administrator_no_say_over_keys() -> None:
    """Registering somebody's root key with one's own signing keys would be publishing in their name."""
    chain = Chain()
    chain.add(chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, RegisterPublisher(root_key=identity(ROOT))))
    claim = ClaimOrganisation(name=b"acme")
    _refuse(chain, chain.make_entry([ADMINISTRATOR], ROOT, claim), InvalidSignature, "no valid signing keys")
    rotation = RotateKeys(keys=(MALLORY.public,))
    _refuse(chain, chain.make_entry([ADMINISTRATOR], ROOT, rotation), InvalidSignature, "not by key")


def test_a_root_key_is_registered_once_and_is_safe(chain: Chain) -> None:
    body = RegisterPublisher(root_key=identity(ROOT))
    _refuse(chain, chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, body), InvalidEntry, "already")
    weak = RegisterPublisher(root_key=b"\1" + bytes(31))
    _refuse(chain, chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, weak), InvalidSignature, "small order")


@pytest.mark.parametrize(
    "body",
    [
        RotateKeys(keys=(MALLORY.public,)),
        RevokeKeys(key_set=0, since=2, reason=b""),
        RevokePublisher(since=2, reason=b""),
        SetPolicy(model=b"acme/net", policy=OPEN_POLICY),
    ],
    ids=lambda body: type(body).__name__,
)
def test_stolen_signing_keys_change_no_keys(chain: Chain, body: Any) -> None:
    _refuse(chain, chain.make_entry(ALICE, ROOT, body), InvalidSignature, "not by key")


def test_an_organisation_does_not_change_hands(chain: Chain) -> None:
    chain.register(BOB_ROOT, BOB)
    claim = ClaimOrganisation(name=b"acme")
    _refuse(chain, chain.make_entry(BOB, BOB_ROOT, claim), InvalidEntry, "ed25519:[0-9a-f]{64}'s already")
    _refuse(chain, chain.make_entry(BOB, BOB_ROOT, NEXT), InvalidEntry, "'s, and the entry is by ed25519:")
    revoke = RevokeVersion(**dict(zip(PUBLICATION.fields, PUBLICATION.values(), strict=True)), reason=b"")
    _refuse(chain, chain.make_entry(BOB, BOB_ROOT, revoke), InvalidEntry, "'s, and the entry is by ed25519:")
    unclaimed = NEXT.replace(model=b"free/net")
    _refuse(chain, chain.make_entry(BOB, BOB_ROOT, unclaimed), InvalidEntry, "Nobody has claimed")


@pytest.mark.parametrize(
    "name", [b"", b"Acme", b"a/b", b"..", b"-rf", b".git", b"a b", b"\xd0\xb0cme", b"a\n", b"a" * 65]
)
def test_organisations_have_plain_names(chain: Chain, name: bytes) -> None:
    if len(name) <= 64:
        _refuse(
            chain, chain.make_entry(ALICE, ROOT, ClaimOrganisation(name=name)), InvalidEntry, "not a name"
        )
    else:
        with pytest.raises(Exception, match="at most 64"):
            chain.make_entry(ALICE, ROOT, ClaimOrganisation(name=name))


def test_rotated_keys_sign_no_more_and_what_they_signed_stands(chain: Chain) -> None:
    new = (make_key("alice's next"),)
    chain.add(chain.make_entry([ROOT], ROOT, RotateKeys(keys=(new[0].public,))))
    _refuse(chain, chain.make_entry(ALICE, ROOT, NEXT), InvalidSignature, "not by key")
    chain.add(chain.make_entry(new, ROOT, NEXT))
    publisher, (old, later) = chain.state.publishers[0], chain.state.versions
    assert get_key_set(publisher, old.entry).keys == (ALICE[0].public,)  # type: ignore[union-attr]
    assert get_key_set(publisher, later.entry).keys == (new[0].public,)  # type: ignore[union-attr]


def test_no_replay_under_keys_that_return(chain: Chain) -> None:
    entry = chain.make_entry(ALICE, ROOT, ClaimOrganisation(name=b"second"))
    chain.add(entry)
    for key in (make_key("meanwhile"), ALICE[0]):
        chain.add(chain.make_entry([ROOT], ROOT, RotateKeys(keys=(key.public,))))
    _refuse(chain, entry, InvalidEntry, "sequence")


def test_stolen_keys_are_revoked_from_the_theft_on(chain: Chain) -> None:
    good, theft = chain.state.versions[0].entry, len(chain.state.entries)
    chain.add(chain.make_entry(ALICE, ROOT, NEXT))  # by the thief
    chain.add(chain.make_entry([ROOT], ROOT, RevokeKeys(key_set=0, since=theft, reason=b"stolen")))
    publisher = chain.state.publishers[0]
    assert get_key_set(publisher, good) is not None
    assert get_key_set(publisher, theft) is None
    more = NEXT.replace(version=b"1.2")
    _refuse(chain, chain.make_entry(ALICE, ROOT, more), InvalidSignature, "no valid signing keys")
    new = (make_key("alice's next"),)
    chain.add(chain.make_entry([ROOT], ROOT, RotateKeys(keys=(new[0].public,))))
    chain.add(chain.make_entry(new, ROOT, more))
    assert get_key_set(chain.state.publishers[0], theft) is None


@pytest.mark.parametrize(("key_set", "since"), [(1, 2), (0, 1), (0, 10**6), (0, FAR_FUTURE_POSITION)])
def test_revocations_stay_within_a_sets_life(chain: Chain, key_set: int, since: int) -> None:
    body = RevokeKeys(key_set=key_set, since=since, reason=b"")
    _refuse(chain, chain.make_entry([ROOT], ROOT, body), InvalidEntry, "key set|Key set")


def test_a_revoked_publisher_says_nothing_more(chain: Chain) -> None:
    position = len(chain.state.entries)
    chain.add(chain.make_entry([ROOT], ROOT, RevokePublisher(since=position, reason=b"closed")))
    for keys, body in (([ROOT], RotateKeys(keys=(MALLORY.public,))), (ALICE, NEXT)):
        _refuse(chain, chain.make_entry(keys, ROOT, body), InvalidEntry, "is revoked from entry 4 on")
    assert get_key_set(chain.state.publishers[0], chain.state.versions[0].entry) is not None
    chain.add(chain.make_entry([ROOT], ROOT, RevokePublisher(since=0, reason=b"stolen before")))
    assert get_key_set(chain.state.publishers[0], chain.state.versions[0].entry) is None
    for since in (0, 10**6):
        again = chain.make_entry([ROOT], ROOT, RevokePublisher(since=since, reason=b""))
        _refuse(chain, again, InvalidEntry, "cannot be revoked")


def test_an_author_does_not_fill_a_block(chain: Chain) -> None:
    bodies = [NEXT.replace(version=b"2.%d" % i) for i in range(MAX_ENTRIES_PER_AUTHOR + 1)]
    entries = [chain.make_entry(ALICE, ROOT, body) for body in bodies]
    with pytest.raises(InvalidEntry, match="at most 8 entries by one author"):
        chain.add_block(*entries)
    chain.add_block(*entries[:-1])


def test_a_publisher_claims_so_many_organisations(chain: Chain) -> None:
    for i in range(1, MAX_ORGANISATIONS_PER_PUBLISHER):
        chain.add(chain.make_entry(ALICE, ROOT, ClaimOrganisation(name=b"org%d" % i)))
    claim = chain.make_entry(ALICE, ROOT, ClaimOrganisation(name=b"one-more"))
    _refuse(chain, claim, InvalidEntry, "16 organisations of this publisher")


def test_a_publisher_has_so_many_models(chain: Chain) -> None:
    model = chain.state.models[0]
    chain.state.models = tuple([model.replace(name=b"acme/net%d" % i) for i in range(1024)])
    entry = chain.make_entry(ALICE, ROOT, NEXT.replace(model=b"acme/one-more"))
    _refuse(chain, entry, InvalidEntry, "1024 models of this publisher")
    chain.add(chain.make_entry(ALICE, ROOT, NEXT.replace(model=b"acme/net7")))


@pytest.mark.parametrize(
    ("module", "cap", "body"),
    [
        (publishers, "MAX_PUBLISHERS", RegisterPublisher(root_key=identity(MALLORY))),
        (publishers, "MAX_KEY_SETS", RotateKeys(keys=(MALLORY.public,))),
        (publishers, "MAX_ORGANISATIONS", ClaimOrganisation(name=b"second")),
        (models, "MAX_VERSIONS", NEXT),
        (models, "MAX_MODELS", NEXT.replace(model=b"acme/second")),
    ],
)
def test_every_list_has_an_end(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, module: Any, cap: str, body: Any
) -> None:
    keys, by = (ALICE, ROOT)
    if isinstance(body, ADMINISTRATOR_KINDS):
        keys, by = (ADMINISTRATOR,), ADMINISTRATOR
    elif isinstance(body, ROOT_KEY_KINDS):
        keys = (ROOT,)
    entry = chain.make_entry(keys, by, body)
    chain.ledger.verify_entry(chain.state, entry)
    monkeypatch.setattr(module, cap, 1)
    _refuse(chain, entry, InvalidEntry, "no more than 1")
