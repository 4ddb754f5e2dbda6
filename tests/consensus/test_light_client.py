"""Light clients: every check stops an attack that nothing else does, and what is refused changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from anchor.consensus.fork_epochs import get_fork_version
from anchor.consensus.light_client import store as module
from anchor.consensus.light_client.store import LightClientStore
from anchor.consensus.vectors.ssz import get_scope
from anchor.errors import InvalidUpdate
from anchor.merkle.proof import build_proof
from anchor.params import FINALIZED_ROOT_GINDEX, FINALIZED_ROOT_GINDEX_ELECTRA
from tests.consensus.light_clients import PERIOD, SEATS, Made, World, make_committee

NOW = 10 * PERIOD
FORGED = 99
"""A committee that nobody elected."""
WORLD = World(capella=0)
FINAL = WORLD.make(PERIOD + 32)
ATTESTED = WORLD.make(PERIOD + 40, FINAL)


def start(world: World = WORLD, slot: int = PERIOD + 8) -> LightClientStore:
    """Trusts the block of `slot`, and has taken one update: knows this period's committee and the next."""
    first = world.make(slot + 16, world.make(slot + 8))
    update = world.update(first, world.make(slot + 8))
    return world.client.process_light_client_update(world.start(world.make(slot)), update, NOW)


def good(**signing: Any) -> Any:
    """An update that the client takes."""
    return WORLD.update(ATTESTED, FINAL, **signing)


def without_branch(update: Any, name: str) -> Any:
    return update.replace(**{name: (bytes(32),) * len(getattr(update, name))})


def with_other_block(update: Any, name: str) -> Any:
    """The header `name` tells of an execution block that its body doesn't commit to."""
    header = getattr(update, name)
    return update.replace(**{name: header.replace(execution=header.execution.replace(block_number=5))})


class Attack(NamedTuple):
    """An update that must be refused."""

    name: str
    make: Callable[[], Any]
    check: str
    """In the message of the one check that stops it."""
    now: int = NOW


def _finalise_the_future() -> Any:
    later = WORLD.make(PERIOD + 48)
    return WORLD.update(WORLD.make(PERIOD + 40, later), later)


def _fake_a_genesis() -> Any:
    """Where nothing is final yet, any block of slot 0 would do."""
    genesis = WORLD.make(0)
    return WORLD.update(WORLD.make(PERIOD + 40, genesis), genesis).replace(finalized_header=genesis.header)


def _claim_a_seat() -> Any:
    update, claimed = good(seats=range(SEATS - 1)), good().sync_aggregate.sync_committee_bits
    return update.replace(sync_aggregate=update.sync_aggregate.replace(sync_committee_bits=claimed))


ATTACKS = [
    Attack("false execution", lambda: with_other_block(good(), "attested_header"), "attested header contra"),
    Attack("future signature", good, "was signed in slot", now=PERIOD + 40),
    Attack("signed before it was there", lambda: good(slot=PERIOD + 40), "was signed in slot"),
    Attack("final before it was there", _finalise_the_future, "was signed in slot"),
    Attack(
        "an old committee that still signs",
        lambda: WORLD.update(WORLD.make(3 * PERIOD + 8), committee=2),
        "is signed in period",
    ),
    Attack("nothing new", lambda: WORLD.update(WORLD.make(PERIOD + 16)), "brings nothing new"),
    Attack(
        "another final header",
        lambda: good().replace(finalized_header=WORLD.make(PERIOD + 33).header),
        "final header is not the one",
    ),
    Attack(
        "a finality branch and no header",
        lambda: good().replace(finalized_header=WORLD.update(ATTESTED).finalized_header),
        "final header is not the one",
    ),
    Attack(
        "a final header and no branch", lambda: without_branch(good(), "finality_branch"), "names a final"
    ),
    Attack("a false genesis", _fake_a_genesis, "slot 0 is not left empty"),
    Attack(
        "false final execution", lambda: with_other_block(good(), "finalized_header"), "final header contra"
    ),
    Attack(
        "a committee and no branch",
        lambda: without_branch(good(), "next_sync_committee_branch"),
        "names a next sync committee",
    ),
    Attack(
        "another committee, of a period to come",
        lambda: WORLD.update(WORLD.make(2 * PERIOD + 8)).replace(next_sync_committee=make_committee(FORGED)),
        "committee is not the one in the attested",
    ),
    Attack(
        "a second election in one period",
        lambda: WORLD.update(WORLD.make(PERIOD + 40, next_sync_committee=make_committee(FORGED))),
        "has another next sync committee",
    ),
    Attack("forged keys", lambda: good(committee=FORGED), "is not signed by"),
    Attack("the committee of the next period", lambda: good(committee=2), "is not signed by"),
    Attack("replayed from another network", lambda: good(network=b"\x08" * 32), "is not signed by"),
    Attack("a seat that did not sign", _claim_a_seat, "is not signed by"),
]


def test_what_is_honest_is_taken() -> None:
    store = WORLD.client.process_light_client_update(start(), good(), NOW)
    assert store.finalized_header == FINAL.header
    assert store.optimistic_header == ATTESTED.header
    assert store.next_sync_committee == make_committee(2)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attacks(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by one check; without that one, it would be taken."""
    store, update = start(), attack.make()
    before = replace(store)
    with pytest.raises(InvalidUpdate, match=attack.check):
        WORLD.client.process_light_client_update(store, update, attack.now)
    assert store == before

    def require_all_else(condition: bool, what: str) -> None:
        if not condition and not re.search(attack.check, what):
            raise InvalidUpdate(what)

    monkeypatch.setattr(module, "_require", require_all_else)
    assert WORLD.client.process_light_client_update(store, update, attack.now) != before


def test_nobody_cannot_sign() -> None:
    with pytest.raises(InvalidUpdate, match="Nobody has signed"):
        WORLD.client.verify_light_client_update(start(), good(seats=()), NOW)


def test_one_signer_finalises_nothing() -> None:
    store = start()
    after = WORLD.client.process_light_client_update(store, good(seats=[3]), NOW)
    assert after.finalized_header == store.finalized_header
    assert after.optimistic_header == store.optimistic_header  # half of those seen before must sign
    assert after.best_valid_update == good(seats=[3])


@pytest.mark.parametrize(("seats", "is_final"), [(21, False), (22, True)])
def test_two_thirds_finalise(seats: int, is_final: bool) -> None:
    store = WORLD.client.process_light_client_update(start(), good(seats=range(seats)), NOW)
    assert (store.finalized_header == FINAL.header) is is_final
    assert store.optimistic_header == ATTESTED.header


def test_an_unknown_committee_cannot_sign() -> None:
    """A store that hasn't seen the next committee takes nothing from the next period."""
    world, fresh = WORLD, WORLD.start(WORLD.make(PERIOD + 8))
    with pytest.raises(InvalidUpdate, match="is signed in period 2"):
        world.client.verify_light_client_update(fresh, world.update(world.make(2 * PERIOD + 8)), NOW)


def test_a_forced_update_waits_for_a_period() -> None:
    store = WORLD.client.process_light_client_update(start(), good(seats=range(21)), NOW)
    due = store.finalized_header.beacon.slot + PERIOD
    force = WORLD.client.process_light_client_store_force_update
    assert force(store, due) is store
    assert force(store, due + 1).finalized_header == FINAL.header
    assert force(start(), due + 1) == start()  # without an update there is nothing to force


def test_a_committee_comes_from_its_own_period() -> None:
    """Finality that reaches into a later period cannot bring the committee that was skipped."""
    fresh = WORLD.start(WORLD.make(PERIOD + 8))
    final = WORLD.make(2 * PERIOD + 8)
    update = WORLD.update(WORLD.make(2 * PERIOD + 16, final), final)
    with pytest.raises(InvalidUpdate, match="cannot bring this period's"):
        WORLD.client.apply_light_client_update(fresh, update)


def test_bootstraps() -> None:
    made = WORLD.make(PERIOD + 8)
    bootstrap = made.deriver.create_light_client_bootstrap(made.header, made.state)
    initialize = WORLD.client.initialize_light_client_store
    forged = bootstrap.replace(current_sync_committee=make_committee(FORGED))
    for message, root, changed in [
        ("not of the trusted", FINAL.root, bootstrap),
        ("is not in the trusted", made.root, forged),
        ("contradicts its block", made.root, with_other_block(bootstrap, "header")),
        ("is not in the trusted", made.root, without_branch(bootstrap, "current_sync_committee_branch")),
    ]:
        with pytest.raises(InvalidUpdate, match=message):
            initialize(root, changed)


# Forks

BOUNDARY = PERIOD + 40
"""The first slot of the fork in the tests below."""


def _make_fork(name: str) -> World:
    return World(**{name: BOUNDARY // 8})


@pytest.mark.parametrize("fork", ["capella", "deneb", "electra", "fulu", "gloas"])
def test_the_domain_is_that_of_the_slot_before(fork: str) -> None:
    """What is signed in a fork's first slot is signed under the fork before it."""
    world = _make_fork(fork)
    store, made = start(world), world.make(BOUNDARY - 1)
    new = get_fork_version(world.config, fork)
    world.client.verify_light_client_update(store, world.update(made, slot=BOUNDARY), NOW)
    world.client.verify_light_client_update(store, world.update(made, slot=BOUNDARY + 1, version=new), NOW)
    for wrong in (
        world.update(made, slot=BOUNDARY, version=new),
        world.update(made, slot=BOUNDARY + 1, version=get_fork_version(world.config, "altair")),
    ):
        with pytest.raises(InvalidUpdate, match="is not signed by"):
            world.client.verify_light_client_update(store, wrong, NOW)


@pytest.mark.parametrize("fork", ["capella", "deneb", "electra", "fulu", "gloas"])
def test_finality_crosses_a_fork(fork: str) -> None:
    """The final header is of the fork before, in the form of the attested one."""
    world = _make_fork(fork)
    final = world.make(BOUNDARY - 8)
    attested = world.make(BOUNDARY + 8, final)
    store = world.client.process_light_client_update(start(world), world.update(attested, final), NOW)
    assert store.finalized_header.beacon == final.header.beacon
    root = world.forms.get_lc_execution_root
    assert root(store.finalized_header) == root(final.header)


def _prove_final(world: World, attested: Made, final: Made, index: int, form: str) -> Any:
    """An update of `form`, signed, whose finality branch is that of `index`, lengthened by zero nodes."""
    empty = get_scope("minimal", form).schema("LightClientUpdate").default()
    branch = build_proof(world.get_scope(attested.slot).schema("BeaconState").tree(attested.state), index)
    update = empty.replace(
        attested_header=attested.header,
        finalized_header=final.header,
        finality_branch=(bytes(32),) * (len(empty.finality_branch) - len(branch)) + branch,
    )
    return world.sign(update)


@pytest.mark.parametrize(
    ("fork", "index"), [("electra", FINALIZED_ROOT_GINDEX), ("gloas", FINALIZED_ROOT_GINDEX_ELECTRA)]
)
def test_a_branch_of_the_fork_before_proves_nothing_after_it(fork: str, index: int) -> None:
    """There the index leads to a node of another field, which who makes the state may choose."""
    world = _make_fork(fork)
    attested, final = world.make(BOUNDARY + 8), world.make(BOUNDARY - 16)
    update = _prove_final(world, attested, final, index, fork)
    update = update.replace(finalized_header=attested.deriver.upgrade_header(final.header))
    with pytest.raises(InvalidUpdate, match="final header is not the one"):
        world.client.verify_light_client_update(start(world), update, NOW)


def test_a_lengthened_branch_starts_with_zeros() -> None:
    """Deneb's header in electra's form: its branch is one node longer, and that node is zero."""
    world = _make_fork("electra")
    final = world.make(BOUNDARY - 16)
    attested = world.make(BOUNDARY - 8, final)
    update = _prove_final(world, attested, final, FINALIZED_ROOT_GINDEX, "electra")
    world.client.verify_light_client_update(start(world), update, NOW)
    tampered = update.replace(finality_branch=(b"\x01" + bytes(31), *update.finality_branch[1:]))
    with pytest.raises(InvalidUpdate, match="final header is not the one"):
        world.client.verify_light_client_update(start(world), tampered, NOW)


@pytest.mark.parametrize(("fork", "before"), [("capella", "altair"), ("deneb", "capella"), ("gloas", "fulu")])
def test_a_header_of_the_fork_before_is_none_after_it(fork: str, before: str) -> None:
    """Its form has no place for what the fork commits to: an altair header names no execution block."""
    world = _make_fork(fork)
    old = World(**{before: 0}).make(BOUNDARY + 8)
    update = world.sign(old.deriver.create_unsigned_update(old.header, old.state, None))
    with pytest.raises(InvalidUpdate, match="attested header contradicts"):
        world.client.verify_light_client_update(start(world), update, NOW)
