"""Bundles for any trust, over changes of the validator set, and what cannot be built."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import pytest

from anchor.bundle.build import build_bundle
from anchor.bundle.finality import Place
from anchor.bundle.hops import build_hops
from anchor.bundle.types import decode_bundle
from anchor.consensus.containers.phase0 import Checkpoint, IndexedAttestation
from anchor.errors import Invalid, Misuse, Unavailable
from anchor.ml.manifest import encode_manifest
from anchor.params import DOMAIN_BEACON_ATTESTER
from tests.bundle.chains import FOUNDERS, JOINERS, Published, ViewedChain, make_growing
from tests.consensus.ledgers import BLS, BOB, BOB_ROOT, make_genesis, make_secret_key


@pytest.fixture(scope="module")
def growing(published: Published) -> Published:
    return make_growing(published.manifest, published.other)


def test_hops_cross_a_change_of_the_validator_set(growing: Published) -> None:
    bundle = decode_bundle(growing.older)
    assert [len(hop.registry) for hop in bundle.hops] == [FOUNDERS, FOUNDERS + JOINERS]
    evidence = growing.verify(growing.older)
    assert evidence.newest == growing.newest
    first, _, last, _ = evidence.tallies
    assert first.validators == FOUNDERS and last.validators == FOUNDERS + JOINERS


def test_without_its_hop_the_set_of_before_proves_nothing(growing: Published) -> None:
    bundle = decode_bundle(growing.older)
    with pytest.raises(Invalid):
        growing.verify(bundle.replace(hops=bundle.hops[:1]))
    with pytest.raises(Invalid):
        growing.verify(bundle.replace(hops=bundle.hops[1:]))


def test_trust_between_the_changes_works(growing: Published) -> None:
    for epoch in (3, 9, 12):
        trusted = growing.chain.get_checkpoint(epoch)
        assert growing.verify(growing.bundle("acme/tiny", "1.0", trusted), trusted).newest == growing.newest


def test_the_longest_hop_is_taken(published: Published) -> None:
    start = Place(published.genesis, published.chain.get_header(published.genesis.root))
    assert [hop.epoch for hop in build_hops(published.chain, start, 3)] == [3]


def test_votes_that_are_missing_lead_less_far(published: Published) -> None:
    """The newest checkpoint that votes can show is led to, and nothing beyond."""
    chain = copy(published.chain)
    known = chain.get_attestations
    chain.get_attestations = lambda epoch: [] if epoch > 4 else known(epoch)  # type: ignore[method-assign]
    data = build_bundle(chain, "acme/tiny", "1.0", published.genesis)
    assert published.verify(data).newest.epoch == 3


def test_votes_that_came_in_parts_give_the_same_link(growing: Published) -> None:
    trusted = growing.chain.get_checkpoint(12)
    chain = copy(growing.chain)
    known = chain.get_attestations
    assert max(len(attestation.attesting_indices) for attestation in known(14)) > 1
    chain.get_attestations = lambda epoch: split(known(epoch), chain)  # type: ignore[method-assign]
    assert build_bundle(chain, "acme/tiny", "1.0", trusted) == growing.bundle("acme/tiny", "1.0", trusted)


def split(attestations: Sequence[IndexedAttestation], chain: ViewedChain) -> list[IndexedAttestation]:
    """Each signer's vote by itself."""
    parts = []
    for attestation in attestations:
        domain = chain.ledger.get_domain(chain.state, DOMAIN_BEACON_ATTESTER, attestation.data.target.epoch)
        message = chain.ledger.compute_signing_root(attestation.data, domain)
        parts += [
            attestation.replace(
                attesting_indices=(index,), signature=BLS.sign(make_secret_key(index), message)
            )
            for index in attestation.attesting_indices
        ]
    return parts


@pytest.mark.parametrize(("epoch", "message"), [(1, "which is epoch 0"), (7, "which is epoch 0")])
def test_an_epoch_that_is_not_the_blocks_is_misuse(published: Published, epoch: int, message: str) -> None:
    with pytest.raises(Misuse, match=message):
        published.bundle("acme/tiny", "1.0", Checkpoint(epoch=epoch, root=published.genesis.root))


def test_unknown_and_unfinal_checkpoints_are_unavailable(published: Published) -> None:
    unknown = Checkpoint(epoch=2, root=b"\5" * 32)
    unfinal = published.chain.get_checkpoint(published.newest.epoch + 1)
    for trusted in (unknown, unfinal):
        with pytest.raises(Unavailable):
            published.bundle("acme/tiny", "1.0", trusted)


def test_what_was_not_published_is_unavailable(published: Published) -> None:
    for model, version in (("acme/tiny", "3.0"), ("acme/other", "1.0")):
        with pytest.raises(Unavailable, match="not in the newest state"):
            published.bundle(model, version)


def test_a_bundle_of_64_validators_is_small(published: Published) -> None:
    """Under 20 KB beside the manifest, also with an ML-DSA-65 key and signature."""
    chain = ViewedChain(make_genesis())
    chain.enrol(BOB_ROOT, BOB, "evil")
    chain.publish(BOB_ROOT, BOB, "evil/tiny", "1.0", published.manifest)
    chain.add_epochs(4)
    data = Published(chain, published.manifest, published.other).bundle("evil/tiny", "1.0")
    assert len(decode_bundle(data).hops[0].registry) == 64
    assert len(data) - len(encode_manifest(published.manifest)) < 20_000
