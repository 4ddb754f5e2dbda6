"""What a full node collects: it follows the head, forgets in time, and light clients can live on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.bls import NoSignatures
from anchor.consensus.containers.altair import SyncAggregate
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.forks.schedule import ForkSchedule
from anchor.consensus.light_client import collect
from anchor.consensus.light_client.collect import Collector
from anchor.consensus.light_client.store import LightClient, get_finalized, is_better_update
from anchor.consensus.presets import LEDGER, MINIMAL
from anchor.errors import Misuse
from anchor.merkle.bits import Bits
from anchor.params import G2_POINT_AT_INFINITY
from tests.consensus.ledgers import BLS, Chain, make_genesis
from tests.consensus.light_clients import EVERYONE, PERIOD, SEATS, Made, World
from tests.oracles.naive_light_client import is_better

WORLD = World(deneb=10, electra=20)
SCHEDULE = ForkSchedule(MINIMAL, WORLD.config, NoSignatures())


def _collector() -> Collector:
    return Collector(MINIMAL, WORLD.config, SCHEDULE.get_fork_at_slot)


def _aggregate(seats: int) -> SyncAggregate:
    return SyncAggregate(
        sync_committee_bits=Bits([seat < seats for seat in EVERYONE]),
        sync_committee_signature=G2_POINT_AT_INFINITY,
    )


class Tree:
    """Blocks that a collector is told of."""

    def __init__(self) -> None:
        self.collector = _collector()
        self.genesis = WORLD.make(0)
        self.parents: dict[bytes, Made] = {}
        self.finals: dict[bytes, Made] = {self.genesis.root: self.genesis}
        self.collector.on_block(self.genesis.block, self.genesis.state)

    def add(self, parent: Made, gap: int, seats: int, final: Made | None = None) -> Made:
        """A child, `gap` slots on, in whose state `final` is final: by default what is in its parent's."""
        final = final or self.finals[parent.root]
        made = WORLD.make(parent.slot + gap, final, parent=parent, aggregate=_aggregate(seats))
        self.parents[made.root], self.finals[made.root] = parent, final
        self.collector.on_block(made.block, made.state)
        return made

    def get_branch(self, head: Made) -> list[Made]:
        """From the genesis on."""
        branch = [head]
        while branch[-1].root in self.parents:
            branch.append(self.parents[branch[-1].root])
        return branch[::-1]

    def derive(self, head: Made) -> tuple[dict[int, Any], Any]:
        """The oracle: the best update of each period, and the latest, out of all blocks of a branch."""
        best: dict[int, Any] = {}
        latest, branch = None, self.get_branch(head)
        for parent, block in pairwise(branch):
            if not block.block.message.body.sync_aggregate.sync_committee_bits.count_set():
                continue
            unsigned = WORLD.prepare(parent, self.finals[parent.root])
            latest = parent.deriver.create_light_client_update(unsigned, block.block)
            period = WORLD.get_period(parent.slot)
            if period != WORLD.get_period(block.slot):
                continue
            if period not in best or is_better(WORLD.forms, latest, best[period]):
                best[period] = latest
        return best, latest

    def get_updates(self, head: Made) -> dict[int, Any]:
        found = {
            number: self.collector.get_light_client_update(number)
            for number in range(WORLD.get_period(head.slot) + 3)
        }
        return {number: update for number, update in found.items() if update is not None}


Step = tuple[int, int, int, bool]
STEPS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 2 * PERIOD), st.integers(0, SEATS), st.booleans()),
    min_size=1,
    max_size=12,
)
"""The parent, counted back from the newest block; slots to it; seats that sign; whether it is the head."""


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_what_is_collected_is_the_heads(steps: Sequence[Step]) -> None:
    tree = Tree()
    blocks = [tree.genesis]
    for back, gap, seats, is_head in steps:
        blocks.append(tree.add(blocks[-1 - back % len(blocks)], gap, seats))
        if not is_head:
            continue
        tree.collector.on_head(blocks[-1].root)
        best, latest = tree.derive(blocks[-1])
        assert tree.get_updates(blocks[-1]) == best
        for got, cut in (
            (tree.collector.get_light_client_finality_update(), "finality"),
            (tree.collector.get_light_client_optimistic_update(), "optimistic"),
        ):
            if latest is None:
                assert got is None
            else:
                at = WORLD.make(latest.attested_header.beacon.slot).deriver
                assert got == getattr(at, f"create_light_client_{cut}_update")(latest)


def _grow(tree: Tree, made: Made, count: int, gap: int = 4) -> list[Made]:
    """A branch of blocks that all seats sign, the last one the head."""
    branch = [made]
    for _ in range(count):
        branch.append(tree.add(branch[-1], gap, SEATS))
    tree.collector.on_head(branch[-1].root)
    return branch


def test_finality_keeps_checkpoints_and_forgets_the_rest() -> None:
    tree = Tree()
    branch = _grow(tree, tree.genesis, 12)
    fork = tree.add(branch[2], 3, SEATS)
    before = tree.get_updates(branch[-1])
    final = branch[8]  # slot 32
    tree.collector.on_finalized(final.root)
    for made in branch:
        bootstrap = tree.collector.get_light_client_bootstrap(made.root)
        assert (bootstrap is not None) is (made.slot <= 32 and made.slot % MINIMAL.SLOTS_PER_EPOCH == 0)
        if bootstrap is not None:
            assert bootstrap == made.deriver.create_light_client_bootstrap(made.header, made.state)
    assert set(tree.collector._known) == {made.root for made in branch[8:]}
    tree.collector.on_head(fork.root)  # conflicts with what is final, and is forgotten
    assert tree.get_updates(branch[-1]) == before
    tree.finals[branch[-1].root] = final
    longer = _grow(tree, branch[-1], 8)
    assert tree.get_updates(longer[-1])[0] == before[0]
    assert get_finalized(tree.get_updates(longer[-1])[1]) is not None


def test_a_block_before_empty_slots_is_the_checkpoint_of_several_epochs() -> None:
    tree = Tree()
    first = tree.add(tree.genesis, 7, SEATS)
    second = tree.add(first, 3, SEATS)  # slot 10
    third = tree.add(second, 30, SEATS)
    tree.collector.on_finalized(third.root)
    found = [tree.collector.get_light_client_bootstrap(made.root) for made in (first, second, third)]
    assert [bootstrap is not None for bootstrap in found] == [True, True, True]
    assert tree.collector.get_light_client_bootstrap(tree.add(third, 1, 0).root) is None


def test_a_signature_for_what_is_older_than_final_tells_nothing() -> None:
    tree = Tree()
    final = tree.add(tree.add(tree.genesis, 4, SEATS), 4, SEATS)
    tree.collector.on_head(final.root)
    assert tree.collector.get_light_client_optimistic_update() is not None
    tree.collector.on_finalized(final.root)
    tree.collector.on_head(tree.add(final, 1, 0).root)
    assert tree.collector.get_light_client_optimistic_update() is None
    assert tree.collector.get_light_client_finality_update() is None


def test_a_start_in_the_middle_knows_no_finality_until_there_is_some() -> None:
    tree = Tree()
    start = WORLD.make(PERIOD + 8, WORLD.make(PERIOD - 8))
    tree.collector.on_block(start.block, start.state)
    tree.finals[start.root] = WORLD.make(PERIOD - 8)
    branch = _grow(tree, start, 3)
    assert tree.collector.get_light_client_finality_update() is None
    assert tree.collector.get_light_client_optimistic_update() is not None
    newer = tree.add(branch[-1], 4, SEATS, final=start)
    tree.collector.on_head(tree.add(newer, 1, 1).root)
    assert tree.collector.get_light_client_finality_update().finalized_header.beacon == start.header.beacon


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "MAX_BLOCKS", 20)
    tree = Tree()
    branch = _grow(tree, tree.genesis, 30)
    assert len(tree.collector._known) == 20
    assert tree.get_updates(branch[-1]) == tree.derive(branch[-1])[0]
    kept = MINIMAL.SLOTS_PER_EPOCH * (256 + WORLD.config.CHURN_LIMIT_QUOTIENT // 2)
    tree.collector.on_finalized(branch[24].root)
    assert len(tree.collector._bootstraps) == 7
    later = _grow(tree, branch[-1], 2, gap=kept)
    tree.collector.on_finalized(later[-1].root)
    assert set(tree.collector._bootstraps) == {later[-2].root, later[-1].root}
    assert set(tree.collector._best_updates) == set()


def test_another_state_and_unknown_roots() -> None:
    tree = Tree()
    made = WORLD.make(8, tree.genesis, parent=tree.genesis)
    with pytest.raises(Misuse, match="is not the one that the block of slot 8 leads to"):
        tree.collector.on_block(made.block, tree.genesis.state)
    tree.collector.on_head(made.root)
    tree.collector.on_finalized(made.root)
    assert tree.collector.get_light_client_bootstrap(made.root) is None


def test_nothing_is_collected_before_altair() -> None:
    config = WORLD.config.replace(ALTAIR_FORK_EPOCH=2)
    collector = Collector(MINIMAL, config, ForkSchedule(MINIMAL, config, NoSignatures()).get_fork_at_slot)
    made = WORLD.make(8)
    collector.on_block(made.block, made.state)
    assert collector._known == {}


# Ranking


@st.composite
def updates(draw: st.DrawFn) -> Any:
    """Updates that differ in all that the ranking looks at."""
    attested = draw(st.integers(PERIOD, 2 * PERIOD - 1))
    final = draw(st.sampled_from([None, PERIOD - 8, PERIOD + 8]))
    update = _unsigned().replace(
        signature_slot=attested + draw(st.integers(1, PERIOD)),
        sync_aggregate=_aggregate(draw(st.integers(1, SEATS))),
    )
    header = update.attested_header
    update = update.replace(attested_header=header.replace(beacon=header.beacon.replace(slot=attested)))
    if draw(st.booleans()):
        update = update.replace(
            next_sync_committee_branch=(b"\x01" * 32,) * len(update.next_sync_committee_branch)
        )
    if final is None:
        return update
    header = update.finalized_header
    return update.replace(
        finalized_header=header.replace(beacon=header.beacon.replace(slot=final)),
        finality_branch=(b"\x01" * 32,) * len(update.finality_branch),
    )


@cache
def _unsigned() -> Any:
    update = WORLD.prepare(WORLD.make(PERIOD))
    return update.replace(next_sync_committee_branch=(bytes(32),) * len(update.next_sync_committee_branch))


@settings(max_examples=100, deadline=None)
@given(updates(), updates(), updates())
def test_the_ranking_is_a_strict_order(one: Any, two: Any, three: Any) -> None:
    def better(new: Any, old: Any) -> bool:
        return is_better_update(WORLD.forms, new, old)

    assert not better(one, one)
    assert not (better(one, two) and better(two, one))
    assert better(one, three) or not (better(one, two) and better(two, three))
    assert better(one, two) == is_better(WORLD.forms, one, two)  # as the specification tells it


# From a chain to a client


class Grown(NamedTuple):
    chain: Chain
    collector: Collector
    preset: Any
    roots: list[bytes]


@cache
def _grow_ledger() -> Grown:
    """Ten epochs of a ledger whose periods have three; everyone signs."""
    preset = LEDGER.replace(EPOCHS_PER_SYNC_COMMITTEE_PERIOD=3)
    chain, config = Chain(), compute_config(make_genesis())
    chain.ledger = Ledger(preset, config, BLS)
    chain.state = chain.ledger.initialize_ledger_state(make_genesis())
    collector = Collector(preset, config, lambda slot: chain.ledger)
    block = chain.ledger.scope.schema("SignedBeaconBlock").default()
    message = block.message.replace(state_root=chain.ledger.hash_tree_root(chain.state))
    roots = [chain.ledger.hash_tree_root(message)]
    collector.on_block(block.replace(message=message), chain.state)
    collector.on_finalized(roots[0])
    for _ in range(81):
        chain.add_block()
        roots.append(chain.ledger.hash_tree_root(chain.blocks[-1].message))
        collector.on_block(chain.blocks[-1], chain.state)
        collector.on_head(roots[-1])
        collector.on_finalized(chain.state.finalized_checkpoint.root)
    return Grown(chain, collector, preset, roots)


@pytest.mark.parametrize("slot", [0, 8, 40, 64])
def test_a_client_follows_what_is_collected(slot: int) -> None:
    """From any final checkpoint to the newest, over three committees, with real signatures."""
    chain, collector, preset, roots = _grow_ledger()
    client = LightClient(preset, chain.ledger.config, chain.state.genesis_validators_root, BLS)
    store = client.initialize_light_client_store(
        roots[slot], collector.get_light_client_bootstrap(roots[slot])
    )
    for period in range(slot // 24, 4):
        update = collector.get_light_client_update(period)
        if update is not None and period < 3:
            store = client.process_light_client_update(store, update, chain.state.slot)
    newest = collector.get_light_client_finality_update()
    store = client.process_light_client_update(store, newest, chain.state.slot)
    assert store.finalized_header.beacon.slot == 64
    assert store.optimistic_header.beacon.slot == 80
    assert store.finalized_header.beacon.state_root == chain.blocks[63].message.state_root


def test_only_checkpoints_that_are_final_have_a_bootstrap() -> None:
    _, collector, _, roots = _grow_ledger()
    found = [slot for slot in range(82) if collector.get_light_client_bootstrap(roots[slot])]
    assert found == list(range(0, 65, 8))
    assert len(collector._known) == 82 - 64
