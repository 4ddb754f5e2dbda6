"""What a node says is final stays final, and can be shown, whatever becomes of its newest blocks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from anchor.bundle.finality import Place
from anchor.bundle.hops import build_hops
from anchor.node.chain import Chain
from anchor.node.network.simulator import Links, SimulatedNode
from anchor.node.reading import Reader
from tests.node.network.tools import Unsigned, make_simulation


def _open(node: SimulatedNode) -> Chain:
    assert node.store is not None
    return Chain(node.store)


def _get_final(node: SimulatedNode, chain: Chain) -> tuple[int, int]:
    """Epochs: what a reader of the node's store is told is final, and up to where votes show it."""
    assert node.store is not None
    with node.store.one_view():
        final, genesis = Reader(chain).status.finalized, chain.get_checkpoint(0)
        assert chain.get_root_before(chain.ledger.compute_start_slot_at_epoch(final.epoch)) == final.root
        hops = build_hops(chain, Place(genesis, chain.get_header(genesis.root)), final.epoch)
        return int(final.epoch), int(max([hop.epoch for hop in hops], default=0))


@pytest.mark.parametrize("seed", (0, 8, 10))
def test_what_is_final_stays_and_can_be_shown_while_blocks_are_late_and_lost(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anchor.bundle.hops.signatures", Unsigned)
    links = Links(latency_ms=(5, 3500), loss=0.15)
    simulation = make_simulation(tmp_path, 3, 12, seed=seed, links=links)
    told: dict[int, list[tuple[int, int]]] = {node.number: [] for node in simulation.nodes}
    chains = [_open(node) for node in simulation.nodes]
    for _ in range(8 * 8):
        simulation.run(1)
        for node, chain in zip(simulation.nodes, chains, strict=True):
            told[node.number].append(_get_final(node, chain))
    for stands in told.values():
        for before, after in pairwise(stands):
            assert before[0] <= after[0]
            assert before[1] <= after[1]
        # What two epochs at once have made final is shown by the next that one has (specs/04-bundle §6).
        assert max([final - shown for final, shown in stands]) <= 1
        assert stands[-1][1] >= 3


def test_a_reader_is_made_anew_when_only_finality_has_moved(tmp_path: Path) -> None:
    simulation = make_simulation(tmp_path, 2, 8)
    reader, alone = Reader(_open(simulation.nodes[0])), 0
    for _ in range(8 * 6 * 6):
        simulation.run(1 / 6)
        new = reader.refresh()
        alone += new.status.head == reader.status.head and new.status.finalized != reader.status.finalized
        reader = new
        assert reader.status.finalized.epoch == simulation.get_engine(0).finalized.epoch
    assert reader.status.finalized.epoch >= 3
    assert alone
