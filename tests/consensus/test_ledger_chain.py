"""A chain of blocks: it finalises, replays, proves its past, and what validators sign adds up."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.containers.entries import Admission, SignedEntry
from anchor.consensus.duties import (
    Keyring,
    compute_admission,
    compute_attestations,
    compute_block,
    compute_deposit,
    compute_sync_aggregate,
)
from anchor.consensus.presets import LEDGER
from anchor.errors import InvalidEntry, InvalidSignature, InvalidTransition, Misuse
from anchor.merkle.container import get_root
from anchor.merkle.proof import build_proof, verify_merkle_branch
from anchor.merkle.scope import hash_tree_root
from anchor.merkle.ssz import get_generalized_index
from anchor.params import G2_POINT_AT_INFINITY
from tests.consensus.ledgers import (
    ADMINISTRATOR,
    ALICE,
    BLS,
    PUBLICATION,
    ROOT,
    VALIDATORS,
    Chain,
    make_genesis,
    make_keyring,
    make_secret_key,
)

PUBLISHED_IN = 10
"""The slot of Alice's entries."""


@cache
def _grow() -> Chain:
    """Four epochs and a slot, with Alice's entries in one block; not to be changed."""
    chain = Chain()
    for slot in range(1, 34):
        chain.add_block(*(chain.make_alice() if slot == PUBLISHED_IN else []))
    return chain


def _entries() -> tuple[SignedEntry, ...]:
    return _grow().blocks[PUBLISHED_IN - 1].message.body.entries  # type: ignore[attr-defined,no-any-return]


def test_a_chain_finalises() -> None:
    state = _grow().state
    assert state.current_justified_checkpoint.epoch == 3
    assert state.finalized_checkpoint.epoch == 2
    assert state.balances.array.min() > LEDGER.MAX_EFFECTIVE_BALANCE  # everyone did their duties
    assert state.versions[0].manifest_root == PUBLICATION.manifest_root


def test_a_chain_replays_from_its_genesis() -> None:
    chain = _grow()
    ledger = chain.ledger
    state = ledger.initialize_ledger_state(make_genesis())
    for block in chain.blocks:
        before = ledger.scope.encode(state)
        after = ledger.state_transition(state, block)
        assert ledger.scope.encode(state) == before  # what it started from is left as it was
        state = after
    assert ledger.hash_tree_root(state) == ledger.hash_tree_root(chain.state)


def test_states_and_blocks_survive_the_disk() -> None:
    chain = _grow()
    state, block = chain.ledger.scope.schema("BeaconState"), chain.ledger.scope.schema("SignedBeaconBlock")
    again = state.decode(state.encode(chain.state))
    assert again == chain.state
    assert state.hash_tree_root(again) == state.hash_tree_root(chain.state)
    for signed in chain.blocks:
        assert block.decode(block.encode(signed)) == signed


@pytest.mark.parametrize("position", range(4))
def test_a_later_state_proves_every_earlier_entry(position: int) -> None:
    chain = _grow()
    schema = chain.ledger.scope.schema("BeaconState")
    index = get_generalized_index(schema, "entries", position)
    branch = build_proof(schema.tree(chain.state), index)
    leaf = hash_tree_root(_entries()[position])
    verify_merkle_branch(leaf, branch, index, schema.hash_tree_root(chain.state), "the entry")


def test_a_state_proves_a_versions_status() -> None:
    chain = _grow()
    schema = chain.ledger.scope.schema("BeaconState")
    index = get_generalized_index(schema, "versions", 0)
    branch = build_proof(schema.tree(chain.state), index)
    verify_merkle_branch(
        hash_tree_root(chain.state.versions[0]), branch, index, schema.hash_tree_root(chain.state), "it"
    )


def test_a_block_with_a_bad_entry_is_refused_whole() -> None:
    chain = Chain()
    *good, publication = chain.make_alice()
    bad = publication.replace(signatures=(bytes(64),))
    before = chain.ledger.hash_tree_root(chain.state)
    with pytest.raises(InvalidSignature):
        chain.add_block(*good, bad)
    assert chain.ledger.hash_tree_root(chain.state) == before
    with pytest.raises(InvalidEntry, match="no registered publisher"):
        chain.add_block(publication)  # entries take effect in their order
    chain.add_block(*good, publication)


def test_a_proposer_cannot_swap_entries_in_a_signed_block() -> None:
    chain = _grow()
    state = chain.ledger.initialize_ledger_state(make_genesis())
    for block in chain.blocks[: PUBLISHED_IN - 1]:
        state = chain.ledger.state_transition(state, block)
    signed = chain.blocks[PUBLISHED_IN - 1]
    body = signed.message.body.replace(entries=_entries()[:-1])
    forged = signed.replace(message=signed.message.replace(body=body))
    with pytest.raises(InvalidTransition, match="signature of the block"):
        chain.ledger.state_transition(state, forged)


def test_an_admitted_validator_comes_to_vote() -> None:
    chain = Chain()
    secret = make_secret_key(VALIDATORS)
    deposit = compute_deposit(
        secret, chain.ledger.config.GENESIS_FORK_VERSION, LEDGER.MAX_EFFECTIVE_BALANCE, BLS
    )
    admission = Admission(deposit=deposit, expiry_epoch=1)
    body = compute_admission(chain.ledger, chain.state, chain.keys, admission)
    chain.add_block(chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, body))
    chain.keys = Keyring(BLS, {**chain.keys.secret_keys, deposit.pubkey: secret})
    while not chain.ledger.is_active_validator(
        chain.state.validators[VALIDATORS], chain.ledger.get_current_epoch(chain.state)
    ):
        assert chain.state.slot < 100
        chain.add_block()
    for _ in range(16):
        chain.add_block()
    assert chain.state.previous_epoch_participation[VALIDATORS] == 0b111


# Duties


@settings(max_examples=15, deadline=None)
@given(held=st.sets(st.integers(0, VALIDATORS - 1), min_size=1))
def test_the_summed_key_signs_for_all(held: set[int]) -> None:
    """One signature with the sum is the aggregate of everyone's own; only who is there is counted."""
    chain = _grow()
    secrets = {BLS.sk_to_pk(make_secret_key(i)): make_secret_key(i) for i in held}
    keys = Keyring(BLS, secrets)
    for vote in compute_attestations(chain.ledger, chain.state, keys):
        indexed = chain.ledger.get_indexed_attestation(chain.state, vote)
        assert set(indexed.attesting_indices) <= held
        chain.ledger.verify_indexed_attestation(chain.state, indexed)
        each = [
            compute_attestations(chain.ledger, chain.state, Keyring(BLS, {pk: sk}))
            for pk, sk in secrets.items()
        ]
        own = [v.signature for votes in each for v in votes if v.data == vote.data]
        assert BLS.aggregate(own) == vote.signature
    aggregate = compute_sync_aggregate(chain.ledger, chain.at_next_slot(), keys)
    chain.ledger.verify_sync_aggregate(chain.at_next_slot(), aggregate)


def test_a_committee_without_our_keys_gets_no_vote() -> None:
    chain = Chain()
    nobody = Keyring(BLS, {})
    assert compute_attestations(chain.ledger, chain.state, nobody) == ()
    aggregate = compute_sync_aggregate(chain.ledger, chain.at_next_slot(), nobody)
    assert aggregate.sync_committee_signature == G2_POINT_AT_INFINITY
    assert aggregate.sync_committee_bits.count_set() == 0


def test_only_the_proposer_proposes() -> None:
    chain = Chain()
    state = chain.at_next_slot()
    proposer = state.validators[chain.ledger.get_beacon_proposer_index(state)].pubkey
    others = {key: secret for key, secret in chain.keys.secret_keys.items() if key != proposer}
    with pytest.raises(Misuse, match="whose key is not here"):
        compute_block(chain.ledger, state, Keyring(BLS, others), state.timestamp)


def test_the_same_duties_give_the_same_block() -> None:
    chain = Chain()
    blocks = [compute_block(chain.ledger, chain.at_next_slot(), chain.keys, 2**31)[0] for _ in range(2)]
    assert blocks[0] == blocks[1]


def test_a_keyring_shows_no_secrets() -> None:
    assert repr(make_keyring()) == "Keyring of 64 keys"


def test_a_publication_hashes_one_version_anew() -> None:
    chain = Chain()
    chain.add_alice()
    version = chain.state.versions[0]
    chain.state.versions = tuple([version.replace(version=b"0.%d" % i) for i in range(100)])
    chain.ledger.hash_tree_root(chain.state)
    chain.add(chain.make_entry(ALICE, ROOT, PUBLICATION.replace(version=b"2.0")))
    assert [get_root(version) is None for version in chain.state.versions] == [False] * 100 + [True]
