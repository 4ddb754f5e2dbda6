"""What makes a bundle be refused: each rule, and the attack that it answers."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.bundle.types import Bundle, decode_bundle
from anchor.consensus.containers.entries import Publish, SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.entries import sign_entry
from anchor.errors import (
    AnchorError,
    InvalidEvidence,
    InvalidProof,
    MalformedBundle,
    Misuse,
    RefusedModel,
)
from anchor.merkle.union import Selected
from anchor.ml.manifest import encode_manifest, manifest_root
from anchor.params import FAR_FUTURE_POSITION, MAX_VERSIONS, STAGE_PRODUCTION, STAGE_STAGING
from tests.bundle.chains import Published, make_table
from tests.consensus.ledgers import ALICE, BOB_ROOT, identity

WEEK = 7 * 86400


def replace(record: Any, path: str, value: Any) -> Any:
    """`record` with another value at a dotted path."""
    name, _, rest = path.partition(".")
    return record.replace(**{name: replace(getattr(record, name), rest, value) if rest else value})


def refuse(
    published: Published, bundle: Bundle | bytes, kind: type[AnchorError], why: str | None = None, **how: Any
) -> None:
    with pytest.raises(kind, match=why):
        published.verify(bundle, **how)


# Rule 1: identity


def test_a_trojan_under_another_name_is_refused(published: Published) -> None:
    """The same trusted ledger, all signatures good: but it is evil/tiny."""
    trojan = published.bundle("evil/tiny", "1.0")
    refuse(published, trojan, RefusedModel, "not of acme/tiny", publisher=None)
    refuse(published, trojan, RefusedModel, "you expect ed25519", model=None)
    assert published.verify(trojan, model="evil/tiny", publisher=identity(BOB_ROOT)).signed_by == (1, 2)


def test_the_wrong_key_is_refused(published: Published) -> None:
    refuse(published, published.older, RefusedModel, "you expect ed25519", publisher=identity(BOB_ROOT))


def test_another_version_is_refused(published: Published) -> None:
    refuse(published, published.older, RefusedModel, "not of version 1.1", version="1.1")
    assert published.verify(published.older, version="1.0").version == "1.0"


def test_a_version_needs_a_model(published: Published) -> None:
    refuse(published, published.older, Misuse, "state the model", model=None, version="1.0")


# Rule 2: status


def test_a_revoked_version_is_refused(published: Published) -> None:
    refuse(published, published.bundle("acme/tiny", "0.9"), RefusedModel, "revoked")
    refuse(
        published, published.bundle("acme/tiny", "0.9"), RefusedModel, "revoked", model=None, publisher=None
    )


def test_a_status_from_before_the_trusted_state_is_refused(published: Published) -> None:
    """Who trusts a newer checkpoint can't be shown what an older state said."""
    old = decode_bundle(published.bundle_as_of(3, published.genesis))
    assert published.verify(old).newest.epoch == 3
    newer = decode_bundle(published.newer)
    outdated = newer.replace(status=old.status)
    refuse(published, outdated, InvalidProof, "newest block", trusted=published.newest)
    refuse(published, old, InvalidEvidence, "you trust", trusted=published.newest)


def test_a_stage_cannot_be_claimed(published: Published) -> None:
    refuse(
        published,
        published.forge(status=replace(decode_bundle(published.older).status, "version.stage", 2)),
        InvalidProof,
    )


def test_a_required_stage_is_held_to(published: Published) -> None:
    staging = published.bundle("acme/tiny", "1.1")
    assert published.verify(staging, stage=STAGE_STAGING, max_age=WEEK).stage == STAGE_STAGING
    refuse(
        published,
        staging,
        RefusedModel,
        "stage is staging, and you require production",
        stage=STAGE_PRODUCTION,
        max_age=WEEK,
    )


def test_a_required_stage_needs_a_maximum_age(published: Published) -> None:
    refuse(published, published.older, Misuse, "maximum age", stage=STAGE_STAGING)


def test_an_old_status_is_refused_where_its_age_matters(published: Published) -> None:
    refuse(
        published,
        published.older,
        RefusedModel,
        "7.0 days old, and you accept 7.0 days",
        max_age=WEEK,
        now=published.now + WEEK,
    )


# Rule 5: only names that can be shown are


def test_nothing_that_is_refused_is_shown(published: Published) -> None:
    forged = published.forge(
        status=replace(decode_bundle(published.older).status, "version.model", b"\x1b[2Jacme/tiny")
    )
    with pytest.raises(InvalidProof) as caught:
        published.verify(forged)
    assert "\x1b" not in str(caught.value)


# Rule 8: positions


@pytest.mark.parametrize("path", ["position", "version.entry", "version.publisher"])
@pytest.mark.parametrize("position", [0, 1, 2**19, MAX_VERSIONS, FAR_FUTURE_POSITION])
def test_positions_are_held_to_proven_lengths(published: Published, path: str, position: int) -> None:
    status = decode_bundle(published.older).status
    for count in (status.entry_count, FAR_FUTURE_POSITION):
        longer = status.replace(entry_count=count, publisher_count=count, version_count=count)
        forged = replace(longer, path, position)
        if forged != status:
            refuse(published, published.forge(status=forged), InvalidProof)


@pytest.mark.parametrize("count", ["entry_count", "publisher_count", "version_count"])
def test_lengths_cannot_be_claimed(published: Published, count: str) -> None:
    status = decode_bundle(published.older).status
    refuse(
        published, published.forge(status=replace(status, count, getattr(status, count) + 1)), InvalidProof
    )


def test_branches_have_exactly_the_right_length(published: Published) -> None:
    bundle = decode_bundle(published.older)
    for change in (
        {"trusted": bundle.trusted.replace(proof=bundle.trusted.proof[:-1])},
        {"status": bundle.status.replace(proof=(*bundle.status.proof, bytes(32)))},
    ):
        with pytest.raises(AnchorError):
            published.verify(bundle.replace(**change))


# Entries: rules 13 to 15


def resign(published: Published, **changes: Any) -> SignedEntry:
    """The publication with changes to its entry, signed anew by its publisher."""
    entry = decode_bundle(published.older).publication.entry.replace(**changes)
    state = published.chain.state
    return sign_entry(entry, ALICE, state.fork.current_version, state.genesis_validators_root)


def test_a_publication_that_the_ledger_does_not_hold_is_refused(published: Published) -> None:
    other = Publish(model=b"acme/tiny", version=b"1.0", manifest_root=manifest_root(published.other))
    for changes in ({"body": Selected(5, other)}, {"sequence": 99}, {"expiry_epoch": 5}):
        refuse(published, published.forge(publication=resign(published, **changes)), InvalidProof)


def test_stripped_or_swapped_signatures_are_refused(published: Published) -> None:
    bundle = decode_bundle(published.bundle("evil/tiny", "1.0"))
    one, two = bundle.publication.signatures
    for signatures in ((one,), (two,), (two, one), (one, two, two), ()):
        forged = bundle.replace(publication=bundle.publication.replace(signatures=signatures))
        refuse(published, forged, InvalidProof, model="evil/tiny", publisher=identity(BOB_ROOT))


def test_keys_that_were_revoked_from_the_publication_on_do_not_count(published: Published) -> None:
    refuse(
        published,
        published.bundle("lost/tiny", "1.0"),
        RefusedModel,
        "has revoked the keys that signed it",
        model=None,
        publisher=None,
    )


@pytest.mark.parametrize(
    ("field", "value"), [("entry", 0), ("entry", 8), ("publisher", 1), ("manifest_root", None)]
)
def test_a_status_that_contradicts_its_publication_is_refused(
    published: Published, field: str, value: int | None
) -> None:
    """Every leaf is proven, on a ledger that did not keep its rules."""

    def change(state: Any) -> None:
        other = manifest_root(published.other) if value is None else value
        state.versions = (state.versions[0].replace(**{field: other}), *state.versions[1:])

    data, trusted = published.break_rules(change)
    refuse(published, data, InvalidEvidence, "is not the publication", trusted=trusted, publisher=None)


# Rule 17: networks


def test_another_network_is_refused(published: Published) -> None:
    refuse(published, published.older, InvalidEvidence, "you expect 0x0707", network_id=b"\7" * 32)
    own = published.chain.state.genesis_validators_root
    assert published.verify(published.older, network_id=own).network_id == own


@pytest.mark.parametrize(
    "path",
    [
        "genesis_validators_root",
        "timestamp",
        "fork.current_version",
        "network.weak_subjectivity_period",
        "network.nonce",
    ],
)
def test_parameters_are_proven_and_not_claimed(published: Published, path: str) -> None:
    value = {
        "genesis_validators_root": b"\7" * 32,
        "fork.current_version": b"\7\7\7\7",
        "network.nonce": b"\5" * 32,
    }
    trusted = replace(decode_bundle(published.older).trusted, path, value.get(path, 10**12))
    refuse(published, published.forge(trusted=trusted), InvalidProof, "trusted block")


# Rule 21: age


def test_another_checkpoint_is_not_the_trusted_one(published: Published) -> None:
    refuse(published, published.older, InvalidEvidence, "you trust", trusted=published.newest)


@pytest.mark.parametrize("epoch", [1, 5, 2**64 - 1])
def test_an_old_root_with_a_recent_epoch_is_refused(published: Published, epoch: int) -> None:
    claimed = Checkpoint(epoch=epoch, root=published.genesis.root)
    refuse(published, published.older, InvalidEvidence, "its epoch is 0", trusted=claimed)


def test_evidence_from_the_future_is_refused(published: Published) -> None:
    refuse(
        published,
        published.newer,
        InvalidEvidence,
        "ahead of this machine's clock",
        trusted=published.newest,
        now=published.now - 3 * 3600,
    )
    between = published.chain.get_state(published.genesis.root).timestamp + 100
    refuse(published, published.older, InvalidEvidence, "ahead of this machine's clock", now=between)


# Rule 22: checkpoints in the code


def test_evidence_passes_by_no_hardcoded_checkpoint(published: Published) -> None:
    network = published.chain.state.genesis_validators_root
    conflicting = Checkpoint(epoch=2, root=b"\5" * 32)
    refuse(
        published,
        published.older,
        InvalidEvidence,
        "passes epoch 2 by",
        tables=make_table(network, conflicting),
    )
    real = published.chain.get_checkpoint(2)
    refuse(published, published.older, InvalidEvidence, "passes epoch 2 by", tables=make_table(network, real))
    assert published.verify(published.older, tables=make_table(b"\1" * 32, conflicting))
    late = Checkpoint(epoch=99, root=b"\5" * 32)
    assert published.verify(published.older, tables=make_table(network, late))


@pytest.mark.parametrize("epoch", [0, 2, 4])
def test_bundles_are_built_to_pass_hardcoded_checkpoints(published: Published, epoch: int) -> None:
    network = published.chain.state.genesis_validators_root
    table = make_table(network, published.chain.get_checkpoint(epoch))
    for trusted in (published.genesis, published.chain.get_checkpoint(2), published.newest):
        data = published.bundle("acme/tiny", "1.0", trusted, tables=table)
        assert published.verify(data, trusted, tables=table).newest == published.newest


def test_the_networks_identity_stands_for_a_hardcoded_genesis(published: Published) -> None:
    network = published.chain.state.genesis_validators_root
    other = make_table(network, Checkpoint(epoch=0, root=b"\5" * 32))
    assert published.verify(published.newer, published.newest, tables=other)
    refuse(published, published.older, InvalidEvidence, "passes epoch 0 by", tables=other)


def test_a_hardcoded_checkpoint_is_proven_among_the_trusted_states_block_roots(published: Published) -> None:
    network, newest = published.chain.state.genesis_validators_root, published.newest
    real = make_table(network, published.chain.get_checkpoint(2))
    data = decode_bundle(published.bundle("acme/tiny", "1.0", newest, tables=real))
    assert data.hardcoded_branch and data.hops == ()
    forged = make_table(network, Checkpoint(epoch=2, root=b"\5" * 32))
    refuse(published, data, InvalidProof, "hardcoded checkpoint of epoch 2", trusted=newest, tables=forged)
    missing = data.replace(hardcoded_branch=())
    refuse(published, missing, InvalidProof, "must have 11", trusted=newest, tables=real)
    refuse(published, data, InvalidEvidence, "not needed", trusted=newest)  # rule 27: no unused part


# Rule 27: one valid encoding, nothing unused


def test_hops_that_lead_nowhere_are_refused(published: Published) -> None:
    bundle = decode_bundle(published.older)
    refuse(published, bundle.replace(hops=bundle.hops * 2), InvalidProof)
    newer = decode_bundle(published.newer)
    refuse(published, newer.replace(hops=bundle.hops), InvalidProof, "registry", trusted=published.newest)
    refuse(published, bundle.replace(hops=()), InvalidProof, "newest block")


# Another version's manifest


def test_another_versions_manifest_is_refused(published: Published) -> None:
    other = published.forge(manifest=encode_manifest(published.other))
    refuse(published, other, InvalidEvidence, "manifest has root")
    refuse(published, published.forge(manifest=b""), MalformedBundle)
