"""What peers without shame send: little of it is kept, and honest traffic goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest

from anchor.consensus.containers.entries import KINDS, Entry, Publish, SignedEntry
from anchor.consensus.containers.phase0 import (
    Attestation,
    AttesterSlashing,
    Checkpoint,
    SignedBeaconBlock,
    SignedVoluntaryExit,
    VoluntaryExit,
)
from anchor.consensus.duties import (
    compute_attestation_data,
    compute_attestation_signing_root,
    get_committee_pubkeys,
)
from anchor.errors import Invalid, MalformedSSZ, Premature, UnknownParent
from anchor.merkle.bits import Bits
from anchor.merkle.union import Selected
from anchor.node.network.engine import Engine
from anchor.node.network.entries import MAX_PENDING_OF_AUTHOR
from anchor.node.network.messages import RECORDS, Kind, Message, SyncContribution, decode_message
from anchor.node.network.simulator import Simulation
from anchor.node.network.waiting import MAX_OF_PEER, MAX_WAITING, MAX_WAITING_BLOCKS
from tests.consensus.ledgers import ADMINISTRATOR, identity, make_key
from tests.node.network.test_simulator import EPOCH, make_registration
from tests.node.network.tools import make_simulation

MALLORY = b"m" * 32
FOREVER = (1 << 64) - 1
GROWN = 5 * EPOCH
"""Slots."""


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores of four nodes that sign, with some final epochs; nobody writes to them."""
    folder = tmp_path_factory.mktemp("grown")
    simulation = make_simulation(folder, signs=True)
    simulation.run(GROWN)
    for node in simulation.nodes:
        node.stop()
    return folder


@pytest.fixture
def simulation(grown: Path, tmp_path: Path) -> Iterator[Simulation]:
    """Those nodes, started again, three slots into an epoch."""
    copytree(grown, tmp_path / "nodes")
    simulation = make_simulation(tmp_path / "nodes", signs=True, at=GROWN)
    simulation.run(3.9)
    yield simulation
    for node in simulation.nodes:
        node.stop()


def measure(engine: Engine) -> dict[str, int]:
    """How much of each kind an engine holds."""
    branches, gossip = engine._branches, engine._gossip
    return {
        "blocks": len(branches.view.blocks),
        "signed": len(branches.signed),
        "states": len(branches.view.block_states),
        "waiting": len(engine._waiting),
        "votes": len(gossip.votes),
        "entries": len(engine._entries),
        "slashings": len(gossip.operations.attester_slashings),
        "exits": len(gossip.operations.exits),
    }


def _send(simulation: Simulation, kind: Kind, value: Any, peer: bytes = MALLORY) -> None:
    simulation.get_engine(0).on_message(Message(kind, value), peer, simulation.time_ms)


def _head_state(simulation: Simulation) -> Any:
    engine = simulation.get_engine(0)
    return engine._branches.get_state_at(engine.head, engine._branches.get_slot())


def _newest_block(simulation: Simulation) -> SignedBeaconBlock:
    engine = simulation.get_engine(0)
    return engine._branches.get_signed(engine.head)


def test_bytes_that_are_nothing_are_refused(simulation: Simulation) -> None:
    random, scope = Random(3), simulation.get_engine(0).ledger.scope
    for kind in [kind for kind in RECORDS if kind in simulation.get_engine(0)._gossip.handlers]:
        for size in (0, 1, 31, 200, 3000):
            with pytest.raises(MalformedSSZ):
                decode_message(scope, bytes([kind]) + bytes(4) + random.randbytes(size))


def test_numbers_may_be_as_large_as_they_get(simulation: Simulation) -> None:
    engine, block = simulation.get_engine(0), _newest_block(simulation)
    before = measure(engine)
    vote = block.message.body.attestations[0]
    huge = Checkpoint(epoch=FOREVER, root=bytes(32))
    data = vote.data
    for kind, value in (
        (Kind.BLOCK, block.replace(message=block.message.replace(slot=FOREVER))),
        (Kind.BLOCK, block.replace(message=block.message.replace(proposer_index=FOREVER))),
        (Kind.ATTESTATION, vote.replace(data=data.replace(slot=FOREVER))),
        (Kind.ATTESTATION, vote.replace(data=data.replace(target=huge))),
        (Kind.ATTESTATION, vote.replace(data=data.replace(source=huge))),
        (Kind.ATTESTATION, vote.replace(data=data.replace(index=FOREVER))),
        (Kind.ATTESTATION, vote.replace(aggregation_bits=Bits([True] * 2048))),
        (Kind.ATTESTATION, vote.replace(aggregation_bits=Bits())),
        (Kind.EXIT, _make_exit(FOREVER, 0)),
        (Kind.EXIT, _make_exit(0, FOREVER)),
        (Kind.ATTESTER_SLASHING, _make_slashing(engine, data, (FOREVER,))),
        (Kind.ATTESTER_SLASHING, _make_slashing(engine, data, ())),
    ):
        with pytest.raises(Invalid):
            _send(simulation, kind, value)
    engine.get_blocks_by_range(FOREVER, FOREVER)
    assert engine.get_blocks_by_root([bytes(32)]) == []
    assert measure(engine) | {"waiting": 0} == before | {"waiting": 0}


def _make_exit(index: int, epoch: int) -> SignedVoluntaryExit:
    return SignedVoluntaryExit(
        message=VoluntaryExit(epoch=epoch, validator_index=index), signature=b"\xc0" + bytes(95)
    )


def _make_slashing(engine: Engine, data: Any, indices: tuple[int, ...]) -> AttesterSlashing:
    record = engine.ledger.records["IndexedAttestation"]
    votes = [
        record.from_values((indices, data.replace(beacon_block_root=bytes([n]) * 32), bytes(96)))
        for n in (1, 2)
    ]
    return AttesterSlashing(attestation_1=votes[0], attestation_2=votes[1])


def test_forged_signatures_are_refused(simulation: Simulation) -> None:
    engine, block = simulation.get_engine(0), _newest_block(simulation)
    engine._gossip.syncs.prune(FOREVER)
    before = measure(engine)
    signature = block.signature
    state, slot = _head_state(simulation), simulation.get_engine(0)._branches.get_slot()
    data = compute_attestation_data(engine.ledger, state, 0)
    other = data.replace(beacon_block_root=data.target.root)
    size = len(get_committee_pubkeys(engine.ledger, state, 0))
    for kind, value in (
        (Kind.BLOCK, block.replace(message=block.message.replace(state_root=bytes(32)))),
        (Kind.BLOCK, block.replace(message=block.message.replace(parent_root=bytes(32)))),
        (Kind.ATTESTATION, Attestation(aggregation_bits=Bits([1] * size), data=other, signature=signature)),
        (
            Kind.CONTRIBUTION,
            SyncContribution(
                slot=slot,
                beacon_block_root=data.target.root,
                sync_committee_bits=Bits([True] * 32),
                signature=signature,
            ),
        ),
    ):
        with pytest.raises(Invalid) as caught:
            _send(simulation, kind, value)
        assert not isinstance(caught.value, Premature)
    assert measure(engine) == before


def test_the_future_is_not_kept(simulation: Simulation) -> None:
    """A proposer signs blocks of all the slots to come."""
    engine, block = simulation.get_engine(0), _newest_block(simulation)
    for ahead in range(1, 200):
        message = block.message.replace(slot=block.message.slot + ahead, parent_root=engine.head)
        with pytest.raises(Invalid):
            _send(simulation, Kind.BLOCK, _sign(simulation, message))
    assert len(engine._waiting) <= 9
    simulation.run(EPOCH * 3)
    assert len(engine._waiting) == 0
    assert engine.get_progress().is_final


def _sign(simulation: Simulation, message: Any) -> SignedBeaconBlock:
    """A block, signed by who it says: Mallory has everybody's keys."""
    ledger, state = simulation.get_engine(0).ledger, _head_state(simulation)
    pubkey = state.validators[message.proposer_index].pubkey
    [keys] = [n.validators.keyring for n in simulation.nodes if pubkey in n.validators.keyring.secret_keys]  # type: ignore[union-attr]
    domain = ledger.get_domain(state, bytes(4), ledger.compute_epoch_at_slot(message.slot))
    return SignedBeaconBlock(
        message=message, signature=keys.sign([pubkey], ledger.compute_signing_root(message, domain))
    )


def test_what_was_said_before_costs_nothing(simulation: Simulation) -> None:
    engine, block = simulation.get_engine(0), _newest_block(simulation)
    entry = make_registration(simulation, "a")
    _send(simulation, Kind.ENTRY, entry)
    before = measure(engine)
    for _ in range(200):
        for kind, value in (
            (Kind.BLOCK, block),
            (Kind.ATTESTATION, block.message.body.attestations[0]),
            (Kind.ENTRY, entry),
        ):
            assert engine.on_message(Message(kind, value), MALLORY, simulation.time_ms) == []
    assert measure(engine) == before


def test_blocks_and_votes_for_blocks_that_do_not_exist(simulation: Simulation) -> None:
    """Nobody can say that they are wrong: a bounded number of them waits, and not for long."""
    engine, block, random = simulation.get_engine(0), _newest_block(simulation), Random(4)
    vote = block.message.body.attestations[0]
    for number in range(1200):
        peer = bytes([number % 6]) * 32
        data = vote.data.replace(beacon_block_root=random.randbytes(32))
        with pytest.raises(UnknownParent) as caught:
            _send(simulation, Kind.ATTESTATION, vote.replace(data=data), peer)
        assert caught.value.root == data.beacon_block_root
    assert len(engine._waiting) <= min(MAX_WAITING, 6 * MAX_OF_PEER)
    for _ in range(MAX_WAITING_BLOCKS + 8):
        message = block.message.replace(parent_root=random.randbytes(32))
        with pytest.raises(UnknownParent):
            _send(simulation, Kind.BLOCK, _sign(simulation, message), b"7" * 32)
    assert engine._waiting._blocks <= MAX_WAITING_BLOCKS
    simulation.run(EPOCH * 3)
    assert len(engine._waiting) == 0
    assert engine.get_progress().is_final


def test_a_voter_who_signs_everything_is_slashed_and_then_ignored(simulation: Simulation) -> None:
    engine = simulation.get_engine(0)
    state, ledger = _head_state(simulation), engine.ledger
    committee = get_committee_pubkeys(ledger, state, 0)
    [keys] = [
        n.validators.keyring
        for n in simulation.nodes
        if n.validators and committee[0] in n.validators.keyring.secret_keys  # type: ignore[attr-defined]
    ]
    data = compute_attestation_data(ledger, state, 0)
    roots = [root for root in engine._branches.view.blocks if root != data.beacon_block_root]
    before, taken = measure(engine), 0
    for root in roots:
        other = data.replace(beacon_block_root=root)
        message = compute_attestation_signing_root(ledger, state, other)
        vote = Attestation(
            aggregation_bits=Bits([True] + [False] * (len(committee) - 1)),
            data=other,
            signature=keys.sign(committee[:1], message),
        )
        try:
            taken += bool(engine.on_message(Message(Kind.ATTESTATION, vote), MALLORY, simulation.time_ms))
        except Invalid:
            continue  # for a block that does not follow the target
    after = measure(engine)
    assert after["slashings"] == before["slashings"] + 1
    assert after["votes"] <= before["votes"] + 1
    assert taken <= 2


def test_a_proposer_who_makes_many_blocks_is_heard_twice(simulation: Simulation) -> None:
    engine = simulation.get_engine(0)
    newest = _newest_block(simulation)
    state = engine._branches.get_state_at(newest.message.parent_root, newest.message.slot)
    for number in range(6):
        body = newest.message.body.replace(graffiti=bytes([number + 1]) * 32)
        message, post = newest.message.replace(body=body), state.copy()
        engine._branches.trusting_ledger.process_block(post, message)
        message = message.replace(state_root=engine.ledger.hash_tree_root(post))
        sends = engine.on_message(
            Message(Kind.BLOCK, _sign(simulation, message)), MALLORY, simulation.time_ms
        )
        kinds = [send.message.kind for send in sends]
        assert kinds == ([Kind.PROPOSER_SLASHING] if number == 0 else [])
    assert len(engine._branches.view.roots_at_slot[newest.message.slot]) == 2


def test_a_branch_from_before_finality_is_refused(simulation: Simulation) -> None:
    engine = simulation.get_engine(0)
    assert engine.final_slot
    newest, genesis = _newest_block(simulation), engine._journal.get_genesis_root()
    with pytest.raises(Invalid, match="leaves the chain before its final block"):
        _send(simulation, Kind.BLOCK, _sign(simulation, newest.message.replace(parent_root=genesis)))
    old = newest.message.replace(slot=1, parent_root=genesis)
    _send(simulation, Kind.BLOCK, _sign(simulation, old))  # too old to be looked at


def test_entries_of_strangers_are_refused_and_of_friends_bounded(simulation: Simulation) -> None:
    engine = simulation.get_engine(0)
    body = Publish(model=b"a/b", version=b"1", manifest_root=bytes(32))
    entry = Entry(
        schema_version=1,
        author=identity(make_key("nobody")),
        sequence=1,
        expiry_epoch=1000,
        body=Selected(KINDS.index(Publish), body),
    )
    with pytest.raises(Premature):
        _send(simulation, Kind.ENTRY, SignedEntry(entry=entry, signatures=(bytes(64),)))
    forged = make_registration(simulation, "x").replace(signatures=(b"\1" * 64,))
    with pytest.raises(Invalid) as caught:
        _send(simulation, Kind.ENTRY, forged)
    assert not isinstance(caught.value, Premature)
    for number in range(1, MAX_PENDING_OF_AUTHOR + 20):
        _send(simulation, Kind.ENTRY, make_registration(simulation, f"{number}", number))
    assert len(engine._entries) == MAX_PENDING_OF_AUTHOR
    assert identity(ADMINISTRATOR) in {signed.entry.author for signed in engine._entries._entries.values()}
