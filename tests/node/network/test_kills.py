"""A node is killed between each call and the next of all that it keeps; it goes on, and never signs twice."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from anchor.consensus.slasher import Slasher
from anchor.node.chain import Chain
from anchor.node.network.engine import Engine
from anchor.node.network.messages import Kind, Message
from anchor.node.network.outbox import Send
from anchor.node.network.simulator import SimulatedNode, Simulation
from anchor.params import TIMELY_TARGET_FLAG_INDEX
from tests.node.network.faults import Reaper, Records, Saboteur
from tests.node.network.test_simulator import EPOCH, make_registration
from tests.node.network.tools import make_simulation

KINDS = ("allow block", "allow votes", "extend", "extend, final", "pending", "settled", "beside", "replace")


class Witness:
    """Sees all that a node says, and what of it contradicts itself."""

    def __init__(self, simulation: Simulation, node: SimulatedNode) -> None:
        self._peers = [peer.number for peer in simulation.nodes if peer is not node]
        self._slasher = Slasher()
        self.blocks: dict[int, set[bytes]] = {}
        self.offences = 0

    def __call__(self, engine: Engine, send: Send) -> list[tuple[int, Message]]:
        message = send.message
        if send.but is None and message.kind == Kind.BLOCK:
            block = message.value.message
            self.blocks.setdefault(block.slot, set()).add(engine.ledger.hash_tree_root(block))
        if send.but is None and message.kind == Kind.ATTESTATION:
            branches = engine._branches
            indexed = branches.choice.get_indexed_vote(branches.view, message.value)
            self.offences += len(self._slasher.observe(indexed))
        return [(peer, message) for peer in self._peers if send.but != peer.to_bytes(32, "big")]


def _get_final_entries(simulation: Simulation) -> list[set[bytes]]:
    """For each node that runs: roots of the entries that are final there."""
    found = []
    for node in simulation.running:
        chain = Chain(node.open_store())
        found.append({stored.root for stored, _ in chain.get_entries(0, chain.get_status().final_entries)})
    return found


@pytest.mark.slow
def test_a_node_survives_every_kill(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path, validators=16)
    node = simulation.nodes[0]
    saboteur = Saboteur(times=2)
    saboteur.corrupt(node)
    witness = node.tamper = Witness(simulation, node)
    simulation.kill(0)
    sequence, final = 0, set[bytes]()
    for slot in range(14 * EPOCH):
        # Partitions bring branches beside the chain, and replacements of its end.
        if slot % 16 == 8:
            simulation.partition((0, 1), (2, 3))
        elif slot % 16 == 12:
            simulation.heal()
        if node.engine is None:
            simulation.restart(0)
        if slot % 4 == 0:
            sequence += 1
            simulation.submit(1, make_registration(simulation, f"{sequence}", sequence))
        if slot % EPOCH == 0:
            final |= set.union(*_get_final_entries(simulation))
        simulation.run(1)
    saboteur.retire()
    if node.engine is None:
        simulation.restart(0)
    simulation.run(5 * EPOCH)
    for kind in KINDS:
        assert saboteur.kills[kind, False] and saboteur.kills[kind, True], kind
    assert witness.offences == 0
    assert all(len(roots) == 1 for roots in witness.blocks.values())
    assert not any(peer.blamed[0] for peer in simulation.nodes)
    finals = {node.engine.finalized.epoch for node in simulation.running if node.engine}
    assert min(finals) >= 15
    recorded = set.intersection(*_get_final_entries(simulation))
    assert final <= recorded
    # In a partition one entry may come on one side, and its author's next on the other, which rules it out.
    assert sequence - 5 <= len(recorded) <= sequence


@pytest.mark.slow
@pytest.mark.parametrize("seed", (1, 2))
def test_the_record_on_disk_survives_every_kill(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No validator ever contradicts itself, and none is held back once the kills are over."""
    simulation = make_simulation(tmp_path, validators=16, seed=seed)
    network_id = Chain(simulation.nodes[0].open_store()).get_head().state.genesis_validators_root
    for node in simulation.nodes:
        Records(node, tmp_path / f"keys-{node.number}", network_id)
        simulation.kill(node.number)
        simulation.restart(node.number)
    victim = simulation.nodes[0]
    witness = victim.tamper = Witness(simulation, victim)
    shares = {"0": 0.02, "keys-0": 0.1}
    reapers = [Reaper(tmp_path / name, Random(seed), share) for name, share in shares.items()]
    for reaper in reapers:
        reaper.haunt(monkeypatch)
    for moment in range(20 * EPOCH):
        if moment % 32 == 16:
            simulation.partition((0, 1), (2, 3))
        elif moment % 32 == 24:
            simulation.heal()
        simulation.run(0.5)
        if victim.engine is None:
            simulation.restart(0)
    for reaper in reapers:
        reaper.share = 0
    if victim.engine is None:
        simulation.restart(0)
    simulation.run(5 * EPOCH)
    store, record = [reaper.kills for reaper in reapers]
    assert record.keys() == {"before", "in the midst", "whole, not durable", "durable"}
    assert store.total() >= 10
    assert witness.offences == 0
    assert all(len(roots) == 1 for roots in witness.blocks.values())
    assert not any(peer.blamed[0] for peer in simulation.nodes)
    engines = [simulation.get_engine(node.number) for node in simulation.nodes]
    assert min(engine.finalized.epoch for engine in engines) >= 12
    state = engines[1].get_state_at(engines[1].head, 15 * EPOCH)
    flags = state.previous_epoch_participation
    assert all(flags[index] & 1 << TIMELY_TARGET_FLAG_INDEX for index in range(0, 16, 4))
