"""Rule 20: what a sync committee proves of a network that is too large for votes, and what it doesn't."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anchor.bundle import hops, seats, updates
from anchor.bundle.types import LEDGER_SCOPE, MAX_VALIDATORS, Bundle, decode_bundle, root_of
from anchor.bundle.verdict import describe_evidence
from anchor.consensus.containers.altair import LightClientHeader, LightClientUpdate, SyncAggregate
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms
from anchor.consensus.presets import LEDGER, LEDGER_CONFIG
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.errors import AnchorError, InvalidEvidence, InvalidProof, InvalidUpdate
from anchor.merkle.bits import Bits
from anchor.params import DOMAIN_SYNC_COMMITTEE
from tests.bundle.chains import Published, ViewedChain, make_growing, make_large, make_table
from tests.consensus.ledgers import ALICE, ROOT, make_genesis

SHORT = LEDGER.replace(EPOCHS_PER_SYNC_COMMITTEE_PERIOD=6)
PERIOD = 48
"""Slots."""


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Eight validators are too many for votes, and periods are short."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (hops, seats, updates):
            patch.setattr(module, "MAX_VALIDATORS", 7)
        for module in (seats, updates):
            patch.setattr(module, "LEDGER", SHORT)
        yield


@pytest.fixture(scope="module")
def large(published: Published) -> Published:
    """A ledger over three committees, with a publication in the first period."""
    chain = ViewedChain(make_genesis(validators=8))
    chain.ledger = Ledger(SHORT, chain.ledger.config, chain.ledger.signatures)
    chain.enrol(ROOT, ALICE, "acme")
    chain.publish(ROOT, ALICE, "acme/tiny", "1.0", published.manifest)
    chain.add_epochs(15)
    chain.add_block()
    return Published(chain, published.manifest, published.other)


def trust(large: Published, epoch: int) -> Checkpoint:
    return large.chain.get_checkpoint(epoch)


@pytest.mark.parametrize("epoch", [0, 1, 3, 4, 5, 6, 9, 10, 11, 12, 13])
def test_updates_lead_from_any_checkpoint_to_the_newest(large: Published, epoch: int) -> None:
    trusted = trust(large, epoch)
    data = large.bundle("acme/tiny", "1.0", trusted)
    evidence = large.verify(data, trusted)
    assert evidence.newest == large.newest == trust(large, 13)
    assert evidence.tallies == ()
    assert all(0 < found.keys <= 8 and found.signed == found.seats == 32 for found in evidence.seats)
    assert bool(evidence.seats) is (epoch < 13)
    assert len(evidence.seats) <= 4


def test_the_words_count_seats_and_keys(large: Published) -> None:
    found = large.verify(large.older).seats
    words = describe_evidence((), found)
    assert words.startswith(f"signatures of 32 of 32 seats of the sync committee, held by {found[0].keys} ")
    assert words.endswith(f"in the weakest of {len(found)} updates")
    assert "stake" not in words and "thirds" not in words


def with_updates(large: Published, *found: LightClientUpdate) -> Bundle:
    return large.forge(updates=found)


def get_updates(large: Published) -> tuple[LightClientUpdate, ...]:
    """Those of the older bundle: from the genesis on, every one in a period of its own."""
    return decode_bundle(large.older).updates


def sign(large: Published, update: LightClientUpdate, seats_signing: int) -> LightClientUpdate:
    """`update`, signed by the first seats only."""
    chain = large.chain
    state = chain.get_state(root_of(update.attested_header.beacon))
    domain = compute_domain(
        DOMAIN_SYNC_COMMITTEE, chain.ledger.config.GENESIS_FORK_VERSION, state.genesis_validators_root
    )
    message = compute_signing_root(root_of(update.attested_header.beacon), domain)
    pubkeys = state.current_sync_committee.pubkeys[:seats_signing]
    aggregate = SyncAggregate(
        sync_committee_bits=Bits([seat < seats_signing for seat in range(32)]),
        sync_committee_signature=chain.keys.sign(pubkeys, message),
    )
    return update.replace(sync_aggregate=aggregate)


def derive(large: Published, slot: int) -> LightClientUpdate:
    """What any node derives of the block of `slot`, its next committee included."""
    chain = large.chain
    attested, signing = chain.get_blocks_between(slot, slot + 2)
    state = chain.get_state(root_of(attested.message))
    deriver = Deriver(Forms(SHORT, LEDGER_CONFIG), LEDGER_SCOPE)
    final = LightClientHeader(beacon=chain.get_header(state.finalized_checkpoint.root))
    unsigned = deriver.create_unsigned_update(deriver.block_to_light_client_header(attested), state, final)
    update: LightClientUpdate = deriver.create_light_client_update(unsigned, signing)
    return update


def test_two_thirds_of_the_seats_must_sign(large: Published) -> None:
    first, *rest = get_updates(large)
    found = large.verify(with_updates(large, sign(large, first, 22), *rest)).seats
    assert (found[0].signed, found[0].seats) == (22, 32)
    assert describe_evidence((), found).startswith("signatures of 22 of 32 seats")
    with pytest.raises(InvalidEvidence, match="21 of 32 seats signed for epoch 5: less than two thirds"):
        large.verify(with_updates(large, sign(large, first, 21), *rest))


def _drop_finality(large: Published) -> Bundle:
    """An optimistic update: signed, and final for nobody."""
    *rest, last = get_updates(large)
    empty = LEDGER_SCOPE.schema(LightClientUpdate).default()
    bare = last.replace(finalized_header=empty.finalized_header, finality_branch=empty.finality_branch)
    return with_updates(large, *rest, bare)


def _bring_a_committee_too_early(large: Published) -> Bundle:
    """Signed in a period in which nothing is final yet: the block with that committee may never be."""
    first = get_updates(large)[0]
    return with_updates(large, first, derive(large, PERIOD + 9))


def _repeat(large: Published) -> Bundle:
    first, *rest = get_updates(large)
    return with_updates(large, first, first, *rest)


def _go_back(large: Published) -> Bundle:
    return with_updates(large, get_updates(large)[0], derive(large, PERIOD - 5))


def _lone_committee(large: Published) -> Bundle:
    """The first committee again, for a trust that is newer than what its update makes final."""
    trusted = trust(large, 3)
    lone = derive(large, PERIOD - 2)
    assert lone.finalized_header.beacon.slot == 24 == large.chain.get_header(trusted.root).slot
    return decode_bundle(large.bundle("acme/tiny", "1.0", trusted)).replace(updates=(lone,))


def _skip_a_period(large: Published) -> Bundle:
    return with_updates(large, *get_updates(large)[1:])


def _hide_the_committee(large: Published) -> Bundle:
    return large.forge(committee=())


def _change_committee(large: Published, **changes: Any) -> Bundle:
    [committee] = decode_bundle(large.older).committee
    return large.forge(committee=(committee.replace(**changes),))


ATTACKS: dict[str, tuple[Callable[[Published], Bundle], type[AnchorError], str]] = {
    "optimistic": (_drop_finality, InvalidEvidence, "makes nothing final"),
    "early committee": (_bring_a_committee_too_early, InvalidEvidence, "a period without finality"),
    "repeated": (_repeat, InvalidEvidence, "makes nothing new final"),
    "back": (_go_back, InvalidEvidence, "makes nothing new final"),
    "a period skipped": (_skip_a_period, InvalidUpdate, "is signed in period 1"),
    "updates alone": (_hide_the_committee, InvalidEvidence, "come together"),
    "a committee alone": (with_updates, InvalidEvidence, "come together"),
    "more validators than there are": (
        lambda large: _change_committee(large, validators=600),
        InvalidProof,
        "not the one in the state",
    ),
    "another committee": (
        lambda large: _change_committee(large, committee=get_updates(large)[1].next_sync_committee),
        InvalidProof,
        "not the one in the state",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks(large: Published, name: str) -> None:
    forge, kind, message = ATTACKS[name]
    with pytest.raises(kind, match=message):
        large.verify(forge(large))


def test_no_part_is_unused(large: Published) -> None:
    with pytest.raises(InvalidEvidence, match="a committee that nothing needs"):
        large.verify(_lone_committee(large), trust(large, 3))


def test_votes_are_shown_where_they_can_be(large: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few seats are easier to win than two thirds of the stake (rule 19)."""
    monkeypatch.setattr(seats, "MAX_VALIDATORS", 8)
    with pytest.raises(InvalidEvidence, match="stands for 8 validators, whose votes are to be shown"):
        large.verify(large.older)


def test_no_byte_of_an_update_is_free_but_its_slot(large: Published) -> None:
    """When it was signed is not signed. Another slot of that period says the same (specs/04-bundle §5)."""
    bundle, verdict = decode_bundle(large.older), large.verify(large.older)
    schema = LEDGER_SCOPE.schema(LightClientUpdate)
    first, *rest = bundle.updates
    data = schema.encode(first)
    for position in [*range(0, len(data), 61), *range(len(data) - 9, len(data))]:
        mutated = bytearray(data)
        mutated[position] ^= 1 + position % 7
        try:
            found = large.verify(with_updates(large, schema.decode(bytes(mutated)), *rest))
        except AnchorError:
            continue
        assert position == len(data) - 8 and found == verdict, f"byte {position} is free"


def test_a_ledger_that_grows_is_followed_by_votes_first(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (hops, seats, updates):
        monkeypatch.setattr(module, "MAX_VALIDATORS", 11)
    for module in (seats, updates):
        monkeypatch.setattr(module, "LEDGER", LEDGER)
    growing = make_growing(published.manifest, published.other)  # from four to twelve
    evidence = growing.verify(growing.older)
    assert evidence.tallies and evidence.seats
    assert evidence.newest.root == growing.newest.root or evidence.newest.epoch + 1 == growing.newest.epoch


def test_a_checkpoint_in_the_code_is_passed_through(large: Published) -> None:
    tables = make_table(large.chain.state.genesis_validators_root, trust(large, 4))
    data = large.bundle("acme/tiny", "1.0", tables=tables)
    assert large.verify(data, tables=tables).newest == large.newest
    with pytest.raises(InvalidEvidence, match="passes epoch 4 by"):
        large.verify(large.older, tables=tables)


@pytest.mark.slow
def test_a_network_of_513(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hops, seats, updates):
        monkeypatch.setattr(module, "MAX_VALIDATORS", MAX_VALIDATORS)
    for module in (seats, updates):
        monkeypatch.setattr(module, "LEDGER", LEDGER)
    large = make_large(published.manifest, published.other)
    evidence = large.verify(large.older)
    assert evidence.newest == large.newest
    assert [(found.signed, found.seats) for found in evidence.seats] == [(32, 32)]
    assert evidence.seats[0].keys > 25
