"""Versions and their stages: rules 1, 2 and 13."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from anchor.consensus.containers.entries import (
    Approve,
    Policy,
    Promote,
    RevokeKeys,
    RevokeVersion,
    RotateKeys,
    SetPolicy,
    SignedEntry,
)
from anchor.consensus.containers.ledger import ModelVersion
from anchor.consensus.forks.ledger import models
from anchor.consensus.forks.ledger.models import PROMOTIONS, WITHDRAWALS, get_approvals
from anchor.errors import InvalidEntry
from anchor.params import STAGE_ARCHIVED, STAGE_DEVELOPMENT, STAGE_PRODUCTION, STAGE_STAGING
from tests.consensus.ledgers import ALICE, BOB, BOB_ROOT, PUBLICATION, ROOT, Chain, identity, make_key

CAROL_ROOT, CAROL = make_key("root of carol"), (make_key("carol"),)
STAGES = (STAGE_DEVELOPMENT, STAGE_STAGING, STAGE_PRODUCTION, STAGE_ARCHIVED)
OF_VERSION: Any = {"model": b"acme/net", "version": b"1.0", "manifest_root": PUBLICATION.manifest_root}


@pytest.fixture
def chain() -> Chain:
    """Alice has published; Bob and Carol are there to approve."""
    made = Chain()
    made.add_alice()
    made.register(BOB_ROOT, BOB)
    made.register(CAROL_ROOT, CAROL)
    return made


def _set_policy(chain: Chain, threshold: int, *approvers: Any) -> None:
    policy = Policy(approvers=tuple([identity(root) for root in approvers]), threshold=threshold)
    chain.add(chain.make_entry([ROOT], ROOT, SetPolicy(model=b"acme/net", policy=policy)))


def _promote(chain: Chain, from_stage: int, to_stage: int, sequence: int, **changes: Any) -> SignedEntry:
    values = OF_VERSION | {"from_stage": from_stage, "to_stage": to_stage, "sequence": sequence} | changes
    return chain.make_entry(ALICE, ROOT, Promote(**values))


def _approve(
    chain: Chain, keys: Any, root: Any, from_stage: int, to_stage: int, sequence: int, **changes: Any
) -> SignedEntry:
    values = OF_VERSION | {"from_stage": from_stage, "to_stage": to_stage, "sequence": sequence} | changes
    return chain.make_entry(keys, root, Approve(**values))


def _refuse(chain: Chain, signed: SignedEntry, match: str) -> None:
    with pytest.raises(InvalidEntry, match=match):
        chain.ledger.verify_entry(chain.state, signed)


def _version(chain: Chain) -> ModelVersion:
    return chain.state.versions[0]  # type: ignore[no-any-return]


# Publishing


def test_a_publication_is_recorded_where_it_stands(chain: Chain) -> None:
    version = _version(chain)
    assert (version.model, version.version, version.manifest_root) == PUBLICATION.values()
    assert (version.publisher, version.entry, version.stage, version.revoked) == (
        0,
        3,
        STAGE_DEVELOPMENT,
        False,
    )
    assert [model.name for model in chain.state.models] == [b"acme/net"]


@pytest.mark.parametrize("root", [PUBLICATION.manifest_root, b"\x66" * 32])
def test_a_version_is_published_once(chain: Chain, root: bytes) -> None:
    again = chain.make_entry(ALICE, ROOT, PUBLICATION.replace(manifest_root=root))
    _refuse(chain, again, "published already")


@pytest.mark.parametrize(
    "model", [b"acme", b"acme/", b"/net", b"acme/net/x", b"acme/.net", b"acme/Net", b"acme/\xff"]
)
def test_models_have_plain_names(chain: Chain, model: bytes) -> None:
    match = "not a name" if b"/" in model else "of the form organisation/name"
    _refuse(chain, chain.make_entry(ALICE, ROOT, PUBLICATION.replace(model=model)), match)


@pytest.mark.parametrize("version", [b"", b"1/2", b"-1", b"v 1", b"\x1b[0m"])
def test_versions_have_plain_names(chain: Chain, version: bytes) -> None:
    _refuse(chain, chain.make_entry(ALICE, ROOT, PUBLICATION.replace(version=version)), "not a name")


def test_a_message_never_shows_raw_bytes(chain: Chain) -> None:
    entry = chain.make_entry(ALICE, ROOT, PUBLICATION.replace(version=b"\x1b[31m\n"))
    with pytest.raises(InvalidEntry) as caught:
        chain.ledger.verify_entry(chain.state, entry)
    assert str(caught.value).isprintable()


def test_a_revoked_version_stays_revoked(chain: Chain) -> None:
    revoke = RevokeVersion(**OF_VERSION, reason=b"poisoned data")
    chain.add(chain.make_entry(ALICE, ROOT, revoke))
    assert _version(chain).revoked
    _refuse(chain, chain.make_entry(ALICE, ROOT, revoke), "revoked, for good")
    _refuse(chain, _promote(chain, 0, 1, 0), "revoked, for good")
    _refuse(chain, chain.make_entry(ALICE, ROOT, PUBLICATION), "published already")


def test_a_revocation_names_the_manifest(chain: Chain) -> None:
    values = OF_VERSION | {"manifest_root": bytes(32)}
    _refuse(chain, chain.make_entry(ALICE, ROOT, RevokeVersion(**values, reason=b"")), "has manifest 0x1111")


# Stages


@pytest.mark.parametrize("from_stage", STAGES)
@pytest.mark.parametrize("to_stage", [*STAGES, 4, 255])
def test_which_changes_of_stage_there_are(chain: Chain, from_stage: int, to_stage: int) -> None:
    chain.state.versions = (_version(chain).replace(stage=from_stage),)
    entry = _promote(chain, from_stage, to_stage, 0)
    one_up = to_stage == from_stage + 1 and to_stage <= STAGE_PRODUCTION
    one_down = to_stage == from_stage - 1 and from_stage != STAGE_ARCHIVED
    away = to_stage == STAGE_ARCHIVED and from_stage != STAGE_ARCHIVED
    if one_up or one_down or away:
        chain.add(entry)
        assert (_version(chain).stage, _version(chain).sequence) == (to_stage, 1)
    else:
        _refuse(chain, entry, "cannot move")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"manifest_root": b"\x66" * 32}, "has manifest"),
        ({"from_stage": STAGE_STAGING, "to_stage": STAGE_PRODUCTION}, "in development"),
        ({"sequence": 1}, "after 0 changes"),
        ({"version": b"9.9"}, "no version"),
    ],
)
def test_a_promotion_binds_what_it_is_about(chain: Chain, changes: Any, match: str) -> None:
    _refuse(chain, _promote(chain, **({"from_stage": 0, "to_stage": 1, "sequence": 0} | changes)), match)


def test_only_the_owner_promotes(chain: Chain) -> None:
    promotion = _promote(chain, 0, 1, 0).entry.body.data
    _refuse(chain, chain.make_entry(BOB, BOB_ROOT, promotion), "'s, and the entry is by ed25519:")


def test_a_promotion_waits_for_its_approvals(chain: Chain) -> None:
    _set_policy(chain, 2, BOB_ROOT, CAROL_ROOT)
    _refuse(chain, _promote(chain, 0, 1, 0), "0 of the 2 approvals")
    chain.add(_approve(chain, BOB, BOB_ROOT, 0, 1, 0))
    _refuse(chain, _approve(chain, BOB, BOB_ROOT, 0, 1, 0), "has approved")
    _refuse(chain, _promote(chain, 0, 1, 0), "1 of the 2 approvals")
    chain.add(_approve(chain, CAROL, CAROL_ROOT, 0, 1, 0), _promote(chain, 0, 1, 0))
    assert (_version(chain).stage, _version(chain).approvals) == (STAGE_STAGING, ())


def test_only_approvers_approve(chain: Chain) -> None:
    _set_policy(chain, 1, BOB_ROOT)
    for keys, root in ((ALICE, ROOT), (CAROL, CAROL_ROOT)):
        _refuse(chain, _approve(chain, keys, root, 0, 1, 0), "no approver")


def test_an_approval_does_not_serve_twice(chain: Chain) -> None:
    """Withdrawn and promoted again: the second promotion needs an approval of its own."""
    _set_policy(chain, 1, BOB_ROOT)
    chain.add(_approve(chain, BOB, BOB_ROOT, 0, 1, 0), _promote(chain, 0, 1, 0), _promote(chain, 1, 0, 1))
    _refuse(chain, _promote(chain, 0, 1, 2), "0 of the 1 approvals")
    _refuse(chain, _approve(chain, BOB, BOB_ROOT, 0, 1, 0), "after 2 changes")


@pytest.mark.parametrize("change", sorted(WITHDRAWALS))
def test_caution_needs_no_consent(chain: Chain, change: tuple[int, int]) -> None:
    _set_policy(chain, 2, BOB_ROOT, CAROL_ROOT)
    chain.state.versions = (_version(chain).replace(stage=change[0]),)
    _refuse(chain, _approve(chain, BOB, BOB_ROOT, *change, 0), "needs no approval")
    chain.add(_promote(chain, *change, 0))


def test_an_approval_with_stolen_keys_does_not_count(chain: Chain) -> None:
    _set_policy(chain, 1, BOB_ROOT)
    theft = len(chain.state.entries)
    chain.add(_approve(chain, BOB, BOB_ROOT, 0, 1, 0))  # by the thief
    chain.add(chain.make_entry([BOB_ROOT], BOB_ROOT, RevokeKeys(key_set=0, since=theft, reason=b"")))
    _refuse(chain, _promote(chain, 0, 1, 0), "0 of the 1 approvals")
    new = (make_key("bob's next"),)
    chain.add(chain.make_entry([BOB_ROOT], BOB_ROOT, RotateKeys(keys=(new[0].public,))))
    chain.add(_approve(chain, new, BOB_ROOT, 0, 1, 0))
    assert len(_version(chain).approvals) == 1
    chain.add(_promote(chain, 0, 1, 0))


def test_who_is_no_approver_any_more_does_not_count(chain: Chain) -> None:
    _set_policy(chain, 1, BOB_ROOT)
    chain.add(_approve(chain, BOB, BOB_ROOT, 0, 1, 0))
    _set_policy(chain, 1, CAROL_ROOT)
    _refuse(chain, _promote(chain, 0, 1, 0), "0 of the 1 approvals")
    chain.add(_approve(chain, CAROL, CAROL_ROOT, 0, 1, 0), _promote(chain, 0, 1, 0))


def test_a_publication_with_stolen_keys_does_not_rise(chain: Chain) -> None:
    since = _version(chain).entry
    chain.add(chain.make_entry([ROOT], ROOT, RevokeKeys(key_set=0, since=since, reason=b"stolen")))
    new = (make_key("alice's next"),)
    chain.add(chain.make_entry([ROOT], ROOT, RotateKeys(keys=(new[0].public,))))
    values = OF_VERSION | {"from_stage": 0, "sequence": 0}
    _refuse(chain, chain.make_entry(new, ROOT, Promote(**values, to_stage=1)), "keys that are revoked")
    chain.add(chain.make_entry(new, ROOT, Promote(**values, to_stage=STAGE_ARCHIVED)))


# Policies


@pytest.mark.parametrize(
    ("policy", "match"),
    [
        (Policy(approvers=(identity(BOB_ROOT),), threshold=2), "2 approvals cannot"),
        (Policy(approvers=(identity(BOB_ROOT),) * 2, threshold=2), "2 approvals cannot"),
        (Policy(approvers=(identity(make_key("nobody")),), threshold=0), "no publisher"),
    ],
)
def test_a_policy_can_be_met(chain: Chain, policy: Policy, match: str) -> None:
    _refuse(chain, chain.make_entry([ROOT], ROOT, SetPolicy(model=b"acme/net", policy=policy)), match)


def test_a_policy_is_set_by_the_owner_also_before_a_publication(chain: Chain) -> None:
    policy = Policy(approvers=(identity(BOB_ROOT),), threshold=1)
    foreign = chain.make_entry([BOB_ROOT], BOB_ROOT, SetPolicy(model=b"acme/net", policy=policy))
    _refuse(chain, foreign, "'s, and the entry is by")
    chain.add(chain.make_entry([ROOT], ROOT, SetPolicy(model=b"acme/new", policy=policy)))
    chain.add(chain.make_entry(ALICE, ROOT, PUBLICATION.replace(model=b"acme/new")))
    assert [model.policy.threshold for model in chain.state.models] == [0, 1]


def test_a_policy_is_of_a_model_that_there_may_be(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy(approvers=(), threshold=0)
    for model in (b"acme", b"acme/Net"):
        _refuse(chain, chain.make_entry([ROOT], ROOT, SetPolicy(model=model, policy=policy)), "not")
    new = chain.make_entry([ROOT], ROOT, SetPolicy(model=b"acme/new", policy=policy))
    monkeypatch.setattr(models, "MAX_MODELS_PER_PUBLISHER", 1)
    _refuse(chain, new, "1 models of this publisher")


# A law: whatever is said in whatever order, no version rises without consent.


class Stages(RuleBasedStateMachine):
    """Alice promotes, Bob and Carol approve, at random; one consent is needed of two."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = Chain()
        self.chain.add_alice()
        self.chain.register(BOB_ROOT, BOB)
        self.chain.register(CAROL_ROOT, CAROL)
        _set_policy(self.chain, 1, BOB_ROOT, CAROL_ROOT)
        self.consents: set[tuple[int, int, int]] = set()

    def _try(self, signed: SignedEntry) -> bool:
        before = self.chain.ledger.hash_tree_root(self.chain.state)
        try:
            self.chain.add(signed)
        except InvalidEntry:
            assert self.chain.ledger.hash_tree_root(self.chain.state) == before
            return False
        return True

    @rule(change=st.sampled_from(sorted(PROMOTIONS | WITHDRAWALS)), back=st.integers(0, 1))
    def promote(self, change: tuple[int, int], back: int) -> None:
        version = _version(self.chain)
        consented = (*change, version.sequence) in self.consents
        if self._try(_promote(self.chain, *change, max(version.sequence - back, 0))):
            assert change[0] == version.stage
            assert change in WITHDRAWALS or consented
        else:
            assert back or change[0] != version.stage or not consented

    @rule(change=st.sampled_from(sorted(PROMOTIONS | WITHDRAWALS)), bob=st.booleans())
    def approve(self, change: tuple[int, int], bob: bool) -> None:
        keys, root = (BOB, BOB_ROOT) if bob else (CAROL, CAROL_ROOT)
        sequence = _version(self.chain).sequence
        if self._try(_approve(self.chain, keys, root, *change, sequence)):
            self.consents.add((*change, sequence))

    @invariant()
    def approvals_are_distinct(self) -> None:
        version = _version(self.chain)
        approvers = [approval.approver for approval in version.approvals]
        assert len(set(approvers)) == len(approvers)
        assert get_approvals(self.chain.state, version) == version.approvals


TestStages = Stages.TestCase
TestStages.settings = settings(
    max_examples=10, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
