"""Several engines in one process: they finalise, part, come back, and agree."""

from __future__ import annotations

from pathlib import Path

from anchor.consensus.containers.entries import KINDS, Entry, RegisterPublisher, SignedEntry
from anchor.consensus.entries import sign_entry
from anchor.merkle.scope import hash_tree_root
from anchor.merkle.union import Selected
from anchor.node.chain import Chain
from anchor.node.network.simulator import Links, Simulation
from anchor.params import GENESIS_EPOCH
from tests.consensus.ledgers import ADMINISTRATOR, identity, make_key
from tests.node.network.tools import Equivocator, make_simulation

EPOCH = 8
"""Slots."""


def _heads(simulation: Simulation) -> set[bytes]:
    return {node.engine.head for node in simulation.running if node.engine}


def _final(simulation: Simulation) -> list[int]:
    return [node.engine.finalized.epoch for node in simulation.running if node.engine]


def make_registration(simulation: Simulation, name: str, sequence: int = 1) -> SignedEntry:
    """An entry that registers a publisher, the administrator's next."""
    state = Chain(simulation.nodes[0].open_store()).get_head().state
    body = RegisterPublisher(root_key=identity(make_key(name)))
    entry = Entry(
        schema_version=1,
        author=identity(ADMINISTRATOR),
        sequence=sequence,
        expiry_epoch=1000,
        body=Selected(KINDS.index(RegisterPublisher), body),
    )
    return sign_entry(entry, [ADMINISTRATOR], state.fork.current_version, state.genesis_validators_root)


def test_four_nodes_finalise(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path, signs=True)
    simulation.run(EPOCH * 6)
    assert len(_heads(simulation)) == 1
    assert _final(simulation) == [3] * 4
    assert not any(node.blamed for node in simulation.nodes)
    progress = simulation.get_engine(0).get_progress()
    assert (progress.slots_since_block, progress.voting) == (0, progress.stake)
    assert progress.is_final and "100.0% of stake votes" in progress.words


def test_a_seed_decides_everything(tmp_path: Path) -> None:
    heads = []
    for number, seed in enumerate((5, 5, 6)):
        (tmp_path / str(number)).mkdir()
        simulation = make_simulation(tmp_path / str(number), seed=seed, links=Links(loss=0.3))
        simulation.run(EPOCH * 3)
        heads.append(_heads(simulation))
    assert heads[0] == heads[1]
    assert heads[0] != heads[2]


def test_a_partition_heals_to_one_chain(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path, signs=True)  # committees differ on the branches
    simulation.run(EPOCH * 4)
    simulation.partition((0, 1), (2, 3))
    simulation.run(EPOCH * 5)
    before = _final(simulation)
    assert len(_heads(simulation)) == 2
    assert not simulation.get_engine(0).get_progress().is_final
    simulation.heal()
    simulation.run(EPOCH * 4)
    assert len(_heads(simulation)) == 1
    assert min(_final(simulation)) > max(before) + 4
    assert not any(node.blamed for node in simulation.nodes)
    stored = [Chain(node.open_store()).get_head() for node in simulation.nodes]
    assert {head.root for head in stored} == _heads(simulation)


def test_finality_stops_with_half_of_the_stake_and_comes_back_with_it(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path)
    simulation.run(EPOCH * 5)
    simulation.kill(1)
    simulation.kill(3)
    simulation.run(EPOCH * 6)
    progress = simulation.get_engine(0).get_progress()
    assert not progress.is_final
    assert (progress.voting * 2, progress.slots_since_block < EPOCH) == (progress.stake, True)
    assert "50.0% of stake votes, and two thirds must" in progress.words
    stopped = max(_final(simulation))
    simulation.restart(1)
    simulation.restart(3)
    simulation.run(EPOCH * 4)
    assert min(_final(simulation)) > stopped + 6
    assert len(_heads(simulation)) == 1


def test_an_equivocator_is_slashed_on_every_node(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path, validators=16, signs=True)
    simulation.run(EPOCH)
    node = simulation.nodes[2]
    node.tamper = Equivocator(node, simulation)
    simulation.run(EPOCH * 4)
    own = set(range(2, 16, 4))
    for number in (0, 1, 3):
        head = Chain(simulation.nodes[number].open_store()).get_head().state
        slashed = set(head.validators.column("slashed").nonzero()[0].tolist())
        assert slashed and slashed <= own
    node.tamper = None
    simulation.run(EPOCH * 4)
    assert min(_final(simulation)) > 4
    assert len(_heads(simulation)) == 1


def test_an_entry_is_final_everywhere(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path)
    simulation.run(EPOCH * 3)
    entries = [make_registration(simulation, name, number) for number, name in enumerate("abc", 1)]
    for number, entry in enumerate(entries):
        simulation.submit(number, entry)
        simulation.run(0.2)
    simulation.run(EPOCH * 4)
    roots = [hash_tree_root(entry) for entry in entries]
    for node in simulation.nodes:
        chain = Chain(node.open_store())
        assert [stored.root for stored, _ in chain.get_entries(0, 10)] == roots
        assert chain.get_status().final_entries == 3
        assert node.store is not None
        assert node.store.get_pending_entries() == []


def test_an_entry_survives_its_node_and_a_partition(tmp_path: Path) -> None:
    """Submitted where nobody hears of it, to a node that is killed at once: it is final in the end."""
    simulation = make_simulation(tmp_path)
    simulation.run(EPOCH * 3)
    simulation.partition((0, 1, 2), (3,))
    entry = make_registration(simulation, "alone")
    simulation.submit(3, entry)
    simulation.kill(3)
    simulation.run(EPOCH)
    simulation.restart(3)
    simulation.run(EPOCH)
    simulation.heal()
    simulation.run(EPOCH * 5)
    for node in simulation.nodes:
        chain = Chain(node.open_store())
        assert chain.find_recorded(hash_tree_root(entry)) is not None
        assert chain.get_status().final_entries == 1


def test_clocks_may_differ_a_little(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path)
    simulation.nodes[1].skew_ms, simulation.nodes[2].skew_ms = 700, -700
    simulation.run(EPOCH * 6)
    assert min(_final(simulation)) >= 3
    assert not any(node.blamed for node in simulation.nodes)


def test_a_node_that_is_far_ahead_of_time_harms_nobody(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path)
    simulation.nodes[3].skew_ms = 6_000
    simulation.run(EPOCH * 8)
    final = _final(simulation)
    assert min(final[:3]) >= GENESIS_EPOCH + 5
    assert not any(node.blamed for node in simulation.nodes[:3])
