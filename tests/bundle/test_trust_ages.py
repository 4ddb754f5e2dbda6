"""Trust older than the publication, equal to its checkpoint, and newer."""

from __future__ import annotations

import pytest

from anchor.bundle.types import decode_bundle
from anchor.consensus.containers.entries import ClaimOrganisation, Publish, SignedEntry
from anchor.errors import InvalidEvidence, StaleTrust
from anchor.params import WALL_CLOCK
from tests.bundle.chains import Published, ViewedChain
from tests.consensus.ledgers import ALICE, ROOT, identity, make_genesis


def test_an_older_trust_is_led_forward_by_votes(published: Published) -> None:
    evidence = published.verify(published.older)
    assert (evidence.model, evidence.version, evidence.publisher) == ("acme/tiny", "1.0", identity(ROOT))
    assert evidence.manifest == published.manifest
    assert evidence.newest == published.newest
    assert [(tally.voters, tally.validators) for tally in evidence.tallies] == [(8, 8), (8, 8)]


def test_a_newer_trust_needs_no_votes(published: Published) -> None:
    evidence = published.verify(published.newer, published.newest)
    assert evidence.tallies == () and evidence.newest == published.newest
    assert decode_bundle(published.newer).hops == ()


@pytest.mark.parametrize("epoch", range(5))
def test_every_final_checkpoint_can_be_trusted(published: Published, epoch: int) -> None:
    trusted = published.chain.get_checkpoint(epoch)
    data = published.bundle("acme/tiny", "1.1", trusted)
    evidence = published.verify(data, trusted)
    assert evidence.manifest == published.other and evidence.newest == published.newest


def test_a_stale_trust_is_refused_unless_allowed(published: Published) -> None:
    network = published.chain.state.network
    later = published.now + network.weak_subjectivity_period * 8 * network.seconds_per_slot
    with pytest.raises(StaleTrust, match="weak-subjectivity"):
        published.verify(published.older, now=later)
    assert published.verify(published.older, now=later, accepts_stale_trust=True).is_stale


def test_the_period_ends_at_a_second(published: Published) -> None:
    network = published.chain.get_state(published.genesis.root).network
    period = network.weak_subjectivity_period * 8 * network.seconds_per_slot
    expiry = published.chain.get_state(published.genesis.root).timestamp + period
    assert not published.verify(published.older, now=expiry - 1).is_stale
    with pytest.raises(StaleTrust):
        published.verify(published.older, now=expiry)


def test_a_wall_clocks_ledger_is_judged_alike(published: Published) -> None:
    genesis = make_genesis(WALL_CLOCK, validators=8)
    chain = ViewedChain(genesis)

    def add(*entries: SignedEntry) -> None:
        time = genesis.genesis_time + (chain.state.slot + 1) * genesis.seconds_per_slot
        chain.add_block(*entries, timestamp=time)

    add(*chain.make_registration(ROOT, ALICE), chain.make_entry(ALICE, ROOT, ClaimOrganisation(name=b"acme")))
    root = chain.add_manifest(published.manifest)
    add(chain.make_entry(ALICE, ROOT, Publish(model=b"acme/tiny", version=b"1.0", manifest_root=root)))
    while chain.state.slot < 40:
        add()
    ledger = Published(chain, published.manifest, published.other)
    evidence = ledger.verify(ledger.older)
    assert evidence.newest_time == genesis.genesis_time + 8 * evidence.newest.epoch * genesis.seconds_per_slot
    with pytest.raises(InvalidEvidence, match="ahead of this machine's clock"):
        ledger.verify(ledger.older, now=evidence.newest_time - 601)
