"""Rules 19 and 23: what votes prove, and what they don't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.bundle.finality import Chain, Place, count_votes, verify_hops
from anchor.bundle.types import Hop, Vote, decode_bundle, root_of
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import InvalidEvidence, InvalidProof, InvalidSignature
from anchor.merkle.bits import Bits
from anchor.params import G2_POINT_AT_INFINITY
from tests.bundle.chains import Published
from tests.bundle.forging import STAKE, make_validator, make_vote, sign_link

SLOT = 24
"""First slot of epoch 3, whose votes are counted here."""


def votes_of(*groups: Sequence[int], validators: int) -> list[Vote]:
    return [make_vote(SLOT + i, group, validators) for i, group in enumerate(groups)]


def test_distinct_validators_count_once() -> None:
    registry = [make_validator(i) for i in range(6)]
    tally = count_votes(votes_of([0, 1, 2], [2, 3], validators=6), 3, registry)
    assert (tally.voters, tally.validators) == (4, 6)
    assert (tally.stake, tally.total_stake) == (4 * STAKE, 6 * STAKE)
    with pytest.raises(InvalidEvidence, match="3 of 6"):
        count_votes(votes_of([0, 1, 2], validators=6), 3, registry)


def test_a_validator_who_votes_again_adds_nothing() -> None:
    registry = [make_validator(i) for i in range(3)]
    with pytest.raises(InvalidEvidence, match="adds no validator"):
        count_votes(votes_of([0, 1], [0, 1], validators=3), 3, registry)


@pytest.mark.parametrize(
    "change",
    [{"slashed": True}, {"exit_epoch": 3}, {"activation_epoch": 4}],
    ids=["slashed", "exited", "not yet active"],
)
def test_only_active_unslashed_validators_count(change: dict[str, Any]) -> None:
    registry = [make_validator(i) for i in range(3)] + [make_validator(3, **change)]
    tally = count_votes(votes_of([0, 1, 2, 3], validators=4), 3, registry)
    assert tally.voters == 3
    with pytest.raises(InvalidEvidence, match="adds no validator"):
        count_votes(votes_of([0, 1, 2], [3], validators=4), 3, registry)
    with pytest.raises(InvalidEvidence, match="less than two thirds"):
        count_votes(votes_of([0, 3], validators=4), 3, registry)


def test_a_slashed_validators_stake_is_still_in_the_total() -> None:
    registry = [make_validator(i) for i in range(2)] + [make_validator(2, slashed=True)]
    assert count_votes(votes_of([0, 1], validators=3), 3, registry).total_stake == 3 * STAKE


def test_two_thirds_of_stake_not_of_heads() -> None:
    registry = [make_validator(i) for i in range(3)] + [make_validator(3, effective_balance=10 * STAKE)]
    with pytest.raises(InvalidEvidence, match="less than two thirds"):
        count_votes(votes_of([0, 1, 2], validators=4), 3, registry)
    assert count_votes(votes_of([3], validators=4), 3, registry).voters == 1


@pytest.mark.parametrize(
    ("votes", "why"),
    [
        ([], "less than two thirds"),
        ([make_vote(SLOT - 1, [0, 1, 2], 3)], "does not belong to epoch 3"),
        ([make_vote(SLOT + 8, [0, 1, 2], 3)], "does not belong to epoch 3"),
        ([make_vote(SLOT, [0, 1, 2], 4)], "has 4 bits"),
        ([make_vote(SLOT, [0, 1], 2)], "has 2 bits"),
        ([make_vote(SLOT, [], 3)], "adds no validator"),
        ([make_vote(SLOT + 1, [0, 1], 3), make_vote(SLOT, [2], 3)], "ascending"),
        ([make_vote(SLOT, [0, 1], 3), make_vote(SLOT, [2], 3)], "ascending"),
        ([make_vote(SLOT, [0, 1], 3, head=2), make_vote(SLOT, [2], 3, head=1)], "ascending"),
        ([make_vote(SLOT, [0, 1], 3, index=1), make_vote(SLOT, [2], 3)], "ascending"),
    ],
)
def test_there_is_one_way_to_list_votes(votes: list[Vote], why: str) -> None:
    with pytest.raises(InvalidEvidence, match=why):
        count_votes(votes, 3, [make_validator(i) for i in range(3)])


def test_nobody_has_no_two_thirds() -> None:
    registry = [make_validator(0, exit_epoch=1)]
    with pytest.raises(InvalidEvidence):
        count_votes([], 3, registry)
    with pytest.raises(InvalidEvidence):
        count_votes([], 3, [])
    with pytest.raises(InvalidEvidence):
        count_votes(votes_of([0], validators=1), 3, [make_validator(0, effective_balance=0)])


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 6), st.integers(0, 4)),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=8),
)
def test_counting_agrees_with_sets(people: list[tuple[bool, int, int, int]], groups: list[set[int]]) -> None:
    registry = [
        make_validator(0).replace(
            slashed=slashed, activation_epoch=start, exit_epoch=end, effective_balance=stake
        )
        for slashed, start, end, stake in people
    ]
    groups = [{i for i in group if i < len(registry)} for group in groups]
    active = {i for i, v in enumerate(registry) if v.activation_epoch <= 3 < v.exit_epoch}
    able = {i for i in active if not registry[i].slashed}
    voters: set[int] = set()
    adds = []
    for group in groups:
        adds.append(bool(group & able - voters))
        voters |= group & able
    total = sum(registry[i].effective_balance for i in active)
    stake = sum(registry[i].effective_balance for i in voters)
    votes = votes_of(*[sorted(group) for group in groups], validators=len(registry))
    if all(adds) and stake and 3 * stake >= 2 * total:
        tally = count_votes(votes, 3, registry)
        assert (tally.voters, tally.stake, tally.total_stake) == (len(voters), stake, total)
    else:
        with pytest.raises(InvalidEvidence):
            count_votes(votes, 3, registry)


# Whole hops, from the genesis of the published chain, signed by whoever takes part


class Forger:
    """Makes hops that a group of the validators signed."""

    def __init__(self, published: Published) -> None:
        bundle = decode_bundle(published.older)
        self.start = Place(published.genesis, bundle.trusted.header)
        self.chain = Chain(bundle.trusted.genesis_validators_root, bundle.trusted.fork)
        self.hop: Hop = bundle.hops[0]
        self.count = len(self.hop.registry)

    def link(self, source: Checkpoint, target: Checkpoint, voters: Sequence[int]) -> Any:
        vote = make_vote(8 * target.epoch, voters, self.count)
        return sign_link(
            [vote],
            source,
            target,
            fork_version=self.chain.fork.current_version,
            network_id=self.chain.network_id,
        )

    def make(self, voters: Sequence[int], **changes: Any) -> Hop:
        """The real hop, with `changes`, and both links signed anew."""
        hop = self.hop.replace(**changes)
        middle = Checkpoint(epoch=hop.epoch, root=root_of(hop.header))
        after = Checkpoint(epoch=hop.epoch + 1, root=hop.next_root)
        return hop.replace(
            justifying=self.link(hop.source, middle, voters), finalising=self.link(middle, after, voters)
        )

    def follow(self, *hops: Hop) -> Any:
        return verify_hops(self.start, hops, self.chain)


@pytest.fixture(scope="module")
def forger(published: Published) -> Forger:
    return Forger(published)


def test_two_links_by_two_thirds_make_a_hop(forger: Forger) -> None:
    way, tallies = forger.follow(forger.make(range(6)))
    assert way[-1].checkpoint.epoch == forger.hop.epoch
    assert [(tally.epoch, tally.voters) for tally in tallies] == [
        (forger.hop.epoch, 6),
        (forger.hop.epoch + 1, 6),
    ]


def test_less_than_two_thirds_finalise_nothing(forger: Forger) -> None:
    with pytest.raises(InvalidEvidence, match="5 of 8"):
        forger.follow(forger.make(range(5)))


def test_both_links_need_two_thirds(forger: Forger) -> None:
    many, few = forger.make(range(6)), forger.make(range(5))
    for mixed in (many.replace(justifying=few.justifying), many.replace(finalising=few.finalising)):
        with pytest.raises(InvalidEvidence, match="5 of 8"):
            forger.follow(mixed)


def test_claimed_voters_must_have_signed(forger: Forger) -> None:
    few, many = forger.make(range(5)), forger.make(range(6))
    for name in ("justifying", "finalising"):
        link = getattr(few, name)
        votes = (link.votes[0].replace(participants=Bits([True] * 8)),)
        with pytest.raises(InvalidSignature):
            forger.follow(many.replace(**{name: link.replace(votes=votes)}))


def test_links_must_be_successive(forger: Forger) -> None:
    """Votes from A to A + 2 do not finalise A, though their signatures are good."""
    hop = forger.make(range(8))
    middle = Checkpoint(epoch=hop.epoch, root=root_of(hop.header))
    far = Checkpoint(epoch=hop.epoch + 2, root=hop.next_root)
    with pytest.raises(InvalidEvidence, match="does not belong"):
        forger.follow(hop.replace(finalising=forger.link(middle, far, range(8))))


def test_votes_for_another_link_do_not_count(forger: Forger) -> None:
    hop = forger.make(range(8))
    other = Checkpoint(epoch=hop.epoch, root=b"\5" * 32)
    after = Checkpoint(epoch=hop.epoch + 1, root=hop.next_root)
    with pytest.raises(InvalidSignature):
        forger.follow(hop.replace(finalising=forger.link(other, after, range(8))))


def test_votes_of_another_network_do_not_count(forger: Forger) -> None:
    hop = forger.make(range(8))
    for chain in (
        forger.chain._replace(network_id=b"\7" * 32),
        forger.chain._replace(fork=forger.chain.fork.replace(current_version=b"\7\7\7\7")),
    ):
        with pytest.raises(InvalidSignature):
            verify_hops(forger.start, [hop], chain)


def test_a_registry_of_ones_own_is_refused(forger: Forger) -> None:
    registry = tuple([make_validator(i) for i in range(8)])
    with pytest.raises(InvalidProof, match="registry"):
        forger.follow(forger.make(range(8), registry=registry[:4]))
    richer = forger.hop.registry[0].replace(effective_balance=100 * STAKE)
    with pytest.raises(InvalidProof, match="registry"):
        forger.follow(forger.make(range(8), registry=(richer, *forger.hop.registry[1:])))


def test_a_source_that_conflicts_with_the_trusted_checkpoint_is_refused(forger: Forger) -> None:
    for source in (Checkpoint(epoch=0, root=b"\5" * 32), Checkpoint(epoch=forger.hop.epoch, root=b"\5" * 32)):
        with pytest.raises(InvalidEvidence, match="does not follow"):
            forger.follow(forger.make(range(8), source=source))
    genesis = Checkpoint(epoch=0, root=bytes(32))  # what the chain's first votes say
    forger.follow(forger.make(range(8), source=genesis))
    forger.follow(forger.make(range(8), source=forger.start.checkpoint))


def test_a_hop_must_lead_on(forger: Forger) -> None:
    start = Place(Checkpoint(epoch=5, root=forger.start.checkpoint.root), forger.start.header)
    with pytest.raises(InvalidEvidence, match="A hop leads"):
        verify_hops(start, [forger.make(range(8))], forger.chain)
    later = forger.start.header.replace(slot=forger.hop.header.slot)
    with pytest.raises(InvalidEvidence, match="A hop leads"):
        verify_hops(Place(forger.start.checkpoint, later), [forger.make(range(8))], forger.chain)
    with pytest.raises(InvalidEvidence, match="A hop leads"):  # the block is not of that epoch yet
        forger.follow(forger.make(range(8), epoch=forger.hop.epoch - 1))


def test_nobody_and_infinity_sign_nothing(forger: Forger) -> None:
    """Rule 23: the sum of no signatures is infinity, which some libraries verify for nobody's keys."""
    hop = forger.make(range(8))
    for votes in ((), (make_vote(8 * hop.epoch, [], 8),)):
        empty = hop.justifying.replace(votes=votes, signature=G2_POINT_AT_INFINITY)
        with pytest.raises(InvalidEvidence):
            forger.follow(hop.replace(justifying=empty))
    with pytest.raises(InvalidSignature):
        forger.follow(hop.replace(justifying=hop.justifying.replace(signature=G2_POINT_AT_INFINITY)))


@pytest.mark.parametrize("signature", [bytes(96), b"\xff" * 96, b"\xc0" + b"\1" * 95])
def test_what_is_no_signature_verifies_nothing(forger: Forger, signature: bytes) -> None:
    hop = forger.make(range(8))
    with pytest.raises(InvalidSignature):
        forger.follow(hop.replace(justifying=hop.justifying.replace(signature=signature)))
