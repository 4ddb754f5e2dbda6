"""Trust older than the publication, equal to its checkpoint, and newer."""

from __future__ import annotations

import pytest

from anchor.bundle.types import decode_bundle
from anchor.errors import StaleTrust
from tests.bundle.chains import Published
from tests.consensus.ledgers import ROOT, identity


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
