"""The network: who validates, what tells it apart, what time it is. An attack per rule 16, 17 and 18."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.consensus.containers.altair import BeaconState as AltairState
from anchor.consensus.containers.entries import Admission, AdmitValidator
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import Deposit, SignedVoluntaryExit, VoluntaryExit
from anchor.consensus.duties import (
    Keyring,
    compute_admission,
    compute_block,
    compute_deposit,
    verify_timestamp,
)
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config, is_known_fork_version
from anchor.consensus.presets import LEDGER
from anchor.errors import Invalid, InvalidEntry, InvalidSignature, InvalidTransition
from anchor.merkle.bits import Bits
from anchor.merkle.scope import Scope
from anchor.merkle.ssz import get_generalized_index
from anchor.params import (
    CURRENT_SYNC_COMMITTEE_GINDEX,
    DOMAIN_BEACON_ATTESTER,
    DOMAIN_VOLUNTARY_EXIT,
    FAR_FUTURE_EPOCH,
    FINALIZED_ROOT_GINDEX,
    NEXT_SYNC_COMMITTEE_GINDEX,
    WALL_CLOCK,
)
from tests.consensus.ledgers import (
    ADMINISTRATOR,
    ALICE,
    BLS,
    GENESIS_TIME,
    ROOT,
    VALIDATORS,
    Chain,
    identity,
    make_genesis,
    make_keyring,
    make_secret_key,
)

STAKE = LEDGER.MAX_EFFECTIVE_BALANCE


def _process(chain: Chain, **changes: Any) -> Any:
    """The state after the next block, in whose body some fields are changed."""
    state = chain.at_next_slot()
    block, _ = compute_block(chain.ledger, state, chain.keys, state.timestamp)
    message = block.message.replace(body=block.message.body.replace(**changes))
    chain.ledger.process_block(state, message)
    return state


# Rule 16


def test_nobody_votes_on_eth1_data() -> None:
    """Inherited, five such blocks of eight would let their proposers mint validators."""
    chain = Chain()
    vote = chain.state.eth1_data.replace(deposit_root=b"\x66" * 32, deposit_count=1000)
    with pytest.raises(InvalidTransition, match="frozen"):
        _process(chain, eth1_data=vote)
    assert _process(chain).eth1_data_votes == ()


def test_there_are_no_deposits() -> None:
    chain = Chain()
    data = compute_deposit(make_secret_key(VALIDATORS), make_genesis().fork_version, STAKE, BLS)
    with pytest.raises(InvalidTransition, match="no deposits"):
        _process(chain, deposits=(Deposit(proof=(bytes(32),) * 33, data=data),))


def _make_admission(chain: Chain, keys: Keyring, **changes: Any) -> AdmitValidator:
    deposit = compute_deposit(
        make_secret_key(VALIDATORS), chain.ledger.config.GENESIS_FORK_VERSION, STAKE, BLS
    )
    admission = Admission(deposit=deposit.replace(**changes), expiry_epoch=10)
    return compute_admission(chain.ledger, chain.state, keys, admission)


def _admit(chain: Chain, body: AdmitValidator) -> None:
    chain.add(chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, body))


def test_two_thirds_of_the_stake_admit_a_validator() -> None:
    chain = Chain()
    with pytest.raises(InvalidEntry, match="two thirds"):
        _admit(chain, _make_admission(chain, make_keyring(42)))
    _admit(chain, _make_admission(chain, make_keyring(43)))
    assert len(chain.state.validators) == len(chain.state.balances) == VALIDATORS + 1
    assert chain.state.validators[VALIDATORS].activation_epoch == FAR_FUTURE_EPOCH
    with pytest.raises(InvalidEntry, match="in the registry already"):
        _admit(chain, _make_admission(chain, make_keyring()))


def test_stake_is_counted_and_not_heads() -> None:
    chain = Chain()
    chain.state.validators.write("effective_balance", slice(0, 43), 16 * 10**9)
    with pytest.raises(InvalidEntry, match="two thirds"):
        _admit(chain, _make_admission(chain, make_keyring(43)))


def test_a_slashed_validator_admits_nobody() -> None:
    chain = Chain()
    body = _make_admission(chain, make_keyring(43))
    chain.state.validators.write("slashed", 5, True)
    with pytest.raises(InvalidEntry, match="slashed"):
        _admit(chain, body)


@pytest.mark.parametrize("count", [VALIDATORS + 1, 10_000])
def test_nobody_beyond_the_registry_admits(count: int) -> None:
    chain = Chain()
    body = _make_admission(chain, make_keyring())
    with pytest.raises(InvalidEntry, match="not active"):
        _admit(chain, body.replace(participants=Bits([True] * count)))


def test_an_admission_is_signed_by_those_it_names() -> None:
    chain = Chain()
    body = _make_admission(chain, make_keyring(43))
    with pytest.raises(InvalidSignature, match="aggregate signature"):
        _admit(chain, body.replace(participants=Bits([True] * VALIDATORS)))
    other = body.admission.replace(expiry_epoch=11)
    with pytest.raises(InvalidSignature, match="aggregate signature"):
        _admit(chain, body.replace(admission=other))


def test_a_new_key_must_be_possessed() -> None:
    """Without: the key "mine minus everyone else's" would sign for all of them in one aggregate."""
    chain = Chain()
    stolen = compute_deposit(
        make_secret_key(0), chain.ledger.config.GENESIS_FORK_VERSION, STAKE, BLS
    ).signature
    with pytest.raises(InvalidSignature, match="Possession"):
        _admit(chain, _make_admission(chain, make_keyring(), signature=stolen))
    with pytest.raises(InvalidSignature, match="Possession"):
        _admit(chain, _make_admission(chain, make_keyring(), withdrawal_credentials=bytes(32)))
    with pytest.raises(InvalidEntry, match="stake of 32000000000"):
        _admit(chain, _make_admission(chain, make_keyring(), amount=64 * 10**9))


def test_an_admission_expires() -> None:
    chain = Chain()
    body = _make_admission(chain, make_keyring())
    chain.ledger.process_slots(chain.state, 8 * 11)
    with pytest.raises(InvalidEntry, match="expired in epoch 10"):
        _admit(chain, body)


def test_only_an_administrator_brings_an_admission_in() -> None:
    chain = Chain()
    chain.add_alice()
    body = _make_admission(chain, make_keyring())
    with pytest.raises(InvalidEntry, match="no administrator"):
        chain.add(chain.make_entry(ALICE, ROOT, body))


def test_a_validator_leaves_by_an_exit() -> None:
    chain = Chain()
    chain.ledger.process_slots(chain.state, 8 * chain.ledger.config.SHARD_COMMITTEE_PERIOD)
    wish = VoluntaryExit(epoch=0, validator_index=7)
    domain = chain.ledger.get_domain(chain.state, DOMAIN_VOLUNTARY_EXIT, 0)
    signature = BLS.sign(make_secret_key(7), chain.ledger.compute_signing_root(wish, domain))
    state = _process(chain, voluntary_exits=(SignedVoluntaryExit(message=wish, signature=signature),))
    assert state.validators[7].exit_epoch < FAR_FUTURE_EPOCH


# Rule 17


@pytest.mark.parametrize(
    "version",
    [
        *("00000000", "05000000", "00000001", "06000001", "90000069", "90000073", "01017000"),
        *("05017000", "10000910", "60000910", "00001020", "00000064", "0000006f", "ffffffff"),
    ],
)
def test_a_known_networks_version_is_refused(version: str) -> None:
    assert is_known_fork_version(bytes.fromhex(version))
    genesis = make_genesis().replace(fork_version=bytes.fromhex(version))
    with pytest.raises(InvalidEntry, match="another network's"):
        _start(genesis)


def _start(genesis: Genesis) -> Any:
    return Ledger(LEDGER, compute_config(genesis), BLS).initialize_ledger_state(genesis)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"nonce": bytes(32)}, "nonce is zero"),
        ({"clock": 2}, "no clock 2"),
        ({"seconds_per_slot": 0}, "slots of 0 seconds"),
        ({"administrators": ()}, "at least one administrator"),
        ({"administrators": make_genesis().administrators * 2}, "each only once"),
        ({"administrators": (b"\1" + bytes(31),)}, "small order"),
        ({"deposits": ()}, "at least one validator"),
        ({"deposits": make_genesis().deposits[:1] * 2}, "each only once"),
        ({"deposits": (make_genesis().deposits[0].replace(amount=10**9),)}, "stake of 32000000000"),
        (
            {
                "deposits": (
                    make_genesis().deposits[0].replace(signature=make_genesis().deposits[1].signature),
                )
            },
            "Possession",
        ),
    ],
)
def test_a_bad_genesis_starts_nothing(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(Invalid, match=match):
        _start(make_genesis().replace(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": b"\x08" * 32},
        {"genesis_time": GENESIS_TIME + 1},
        {"clock": WALL_CLOCK},
        {"seconds_per_slot": 12},
        {"administrators": (identity(ROOT),)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_everything_about_a_network_is_in_its_id(changes: dict[str, Any]) -> None:
    small = make_genesis(validators=4)
    own, other = _start(small), _start(small.replace(**changes))
    assert own.genesis_validators_root != other.genesis_validators_root


def test_a_vote_counts_on_one_network_only() -> None:
    """Both have the same validators and the same fork version: only the nonce differs."""
    chain, other = Chain(), Chain(make_genesis(nonce=8))
    chain.add_block()
    with pytest.raises(InvalidTransition, match="signature"):
        chain.ledger.verify_block_signature(other.at_next_slot(), chain.blocks[0])
    domains = {c.ledger.get_domain(c.state, DOMAIN_BEACON_ATTESTER) for c in (chain, other)}
    assert len(domains) == 2


# Rule 18


def test_altairs_generalized_indices_hold() -> None:
    schema = Chain().ledger.scope.schema("BeaconState")
    body = Chain().ledger.scope.schema("BeaconBlockBody")
    assert len(schema.schemas) == 32
    assert len(body.schemas) <= 16
    assert get_generalized_index(schema, "finalized_checkpoint", "root") == FINALIZED_ROOT_GINDEX
    assert get_generalized_index(schema, "current_sync_committee") == CURRENT_SYNC_COMMITTEE_GINDEX
    assert get_generalized_index(schema, "next_sync_committee") == NEXT_SYNC_COMMITTEE_GINDEX
    altair = list(Scope(LEDGER).schema(AltairState).schemas)
    assert list(schema.schemas)[: len(altair)] == altair


def test_the_preset_is_small() -> None:
    assert (LEDGER.SLOTS_PER_EPOCH, LEDGER.SYNC_COMMITTEE_SIZE) == (8, 32)
    assert LEDGER.EPOCHS_PER_SYNC_COMMITTEE_PERIOD == 256
    assert LEDGER.UPDATE_TIMEOUT == LEDGER.SLOTS_PER_EPOCH * LEDGER.EPOCHS_PER_SYNC_COMMITTEE_PERIOD
    chain = Chain()
    chain.add_alice()
    assert len(chain.ledger.scope.encode(chain.state)) < 20_480


def test_time_does_not_go_back() -> None:
    chain = Chain()
    chain.add_block(timestamp=GENESIS_TIME + 100)
    assert _process(chain, timestamp=GENESIS_TIME + 100).timestamp == GENESIS_TIME + 100
    with pytest.raises(InvalidTransition, match="before its parent's"):
        _process(chain, timestamp=GENESIS_TIME + 99)


def test_by_a_wall_clock_a_blocks_time_is_its_slots() -> None:
    chain = Chain(make_genesis(clock=WALL_CLOCK))
    chain.add_block(timestamp=GENESIS_TIME + 3600)
    for wrong in (GENESIS_TIME + 3600, GENESIS_TIME + 7199, GENESIS_TIME + 10**6):
        with pytest.raises(InvalidTransition, match="starts at"):
            chain.add_block(timestamp=wrong)
    chain.add_block(timestamp=GENESIS_TIME + 7200)


def test_signers_refuse_a_skewed_time() -> None:
    verify_timestamp(GENESIS_TIME + 60, GENESIS_TIME)
    for time in (GENESIS_TIME + 61, GENESIS_TIME - 61, 2**63):
        with pytest.raises(InvalidTransition, match="differ by more than"):
            verify_timestamp(time, GENESIS_TIME)


def test_the_period_is_computed_in_every_epoch() -> None:
    chain = Chain()
    assert chain.state.network.weak_subjectivity_period == 256
    chain.state.network = chain.state.network.replace(weak_subjectivity_period=1)
    chain.ledger.process_slots(chain.state, 7)
    assert chain.state.network.weak_subjectivity_period == 1
    chain.ledger.process_slots(chain.state, 8)
    assert chain.state.network.weak_subjectivity_period == 256
