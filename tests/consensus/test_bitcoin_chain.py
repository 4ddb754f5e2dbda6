"""The tree of headers: work decides, checkpoints overrule it, memory is bounded, refusals change nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.bitcoin.chain import HeaderChain
from anchor.consensus.bitcoin.header import Tip, get_start
from anchor.consensus.bitcoin.network import MAINNET, Network
from anchor.consensus.bitcoin.run import verify_run
from anchor.errors import InvalidCheckpoint, InvalidHeader, MalformedHeader, Misuse
from tests.consensus.bitcoin_chains import (
    GENESIS,
    grow,
    make_chain,
    make_mainnet_from,
    make_network,
    read_shared,
    read_vector,
    split,
)
from tests.oracles import naive_bitcoin as naive

CHAIN = list(make_chain(56, step=450))
BARE = make_network()


def start(network: Network = BARE, **limits: int) -> HeaderChain:
    return HeaderChain(network, verify_run(network, [GENESIS]).tip, **limits)


def feed(chain: HeaderChain, headers: list[bytes]) -> HeaderChain:
    for raw in headers:
        chain.on_header(raw)
    return chain


def snapshot(chain: HeaderChain) -> tuple[object, ...]:
    children = {key: tuple(hashes) for key, hashes in chain._children.items()}
    return chain.tip, chain.base, dict(chain._nodes), children


def work_of(headers: list[bytes]) -> int:
    return sum([naive.work_of(naive.bits_of(raw)) for raw in headers])


def test_a_chain_grows_as_a_run_does() -> None:
    chain = feed(start(), CHAIN[1:])
    assert chain.tip == verify_run(BARE, [b"".join(CHAIN)]).tip
    assert len(chain) == 56
    assert [found.hash for height in range(56) if (found := chain.get_header_at(height))] == list(
        map(naive.hash_of, CHAIN)
    )
    assert chain.get_header_at(56) is None
    assert chain.get_header_at(-1) is None


def test_more_work_wins_and_the_first_seen_among_equals() -> None:
    other = grow(CHAIN[:20], 5, salt=1)
    chain = feed(start(), [*CHAIN[1:23], *other[20:23]])
    assert chain.tip.hash == naive.hash_of(CHAIN[22])
    feed(chain, other[23:24])
    assert chain.tip.hash == naive.hash_of(other[23])
    feed(chain, CHAIN[23:24])
    assert chain.tip.hash == naive.hash_of(other[23])
    feed(chain, CHAIN[24:26])
    assert chain.tip.hash == naive.hash_of(CHAIN[25])
    assert len(chain) == 26 + 4


def test_a_longer_chain_with_less_work_is_not_followed() -> None:
    hard = grow(CHAIN[:17], 20, step=150)
    easy = grow(CHAIN[:17], 22, step=2400, salt=1)
    assert len(easy) > len(hard)
    assert work_of(easy) < work_of(hard)
    for order in ([*hard[1:], *easy[17:]], [*easy[1:], *hard[17:]]):
        assert feed(start(), order).tip.hash == naive.hash_of(hard[-1])


def test_a_reorganisation_below_a_checkpoint_is_refused_whatever_its_work() -> None:
    network = make_network(CHAIN, [30])
    heavy = grow(CHAIN[:25], 40, step=100, salt=1)
    chain = feed(start(network), CHAIN[1:32])
    assert chain.base.hash == naive.hash_of(CHAIN[30])
    assert work_of(heavy[:30]) + 10 * work_of(CHAIN) > chain.tip.work
    before = snapshot(chain)
    for raw in heavy[25:]:
        with pytest.raises(InvalidHeader, match="nothing is reorganised"):
            chain.on_header(raw)
    assert snapshot(chain) == before
    assert feed(chain, CHAIN[32:]).tip.height == 55


def test_a_branch_that_conflicts_with_a_checkpoint_is_refused_at_its_height() -> None:
    network = make_network(CHAIN, [30])
    heavy = grow(CHAIN[:25], 10, step=100, salt=1)
    chain = feed(start(network), [*CHAIN[1:26], *heavy[25:30]])
    assert chain.tip.hash == naive.hash_of(heavy[29])
    before = snapshot(chain)
    with pytest.raises(InvalidCheckpoint, match="30"):
        chain.on_header(heavy[30])
    assert snapshot(chain) == before
    feed(chain, CHAIN[26:31])
    assert chain.tip.hash == chain.base.hash == naive.hash_of(CHAIN[30])
    assert len(chain) == 1


def test_a_checkpoint_is_adopted_against_a_branch_with_more_work() -> None:
    hard = grow(CHAIN[:17], 30, step=100, salt=1)
    easy = grow(CHAIN[:17], 30, step=2400)
    network = make_network(easy, [40])
    chain = feed(start(network), [*hard[1:40], *easy[17:40]])
    assert chain.tip.hash == naive.hash_of(hard[39])
    assert work_of(easy[:41]) < work_of(hard[:40])
    feed(chain, easy[40:41])
    assert chain.tip.hash == naive.hash_of(easy[40])
    with pytest.raises(InvalidHeader, match="not on record"):
        chain.on_header(hard[40])


def test_after_the_last_checkpoint_work_decides() -> None:
    network = make_network(CHAIN, [30])
    other = grow(CHAIN[:31], 20, step=200, salt=1)
    chain = feed(start(network), [*CHAIN[1:45], *other[31:]])
    assert chain.tip.hash == naive.hash_of(other[-1])
    assert chain.tip.work == work_of(other)


def test_a_deep_reorganisation_is_refused() -> None:
    other = grow(CHAIN[:20], 40, step=100, salt=1)
    shallow = feed(start(reorg_limit=21), [*CHAIN[1:40], *other[20:]])
    assert shallow.tip.hash == naive.hash_of(other[-1])
    deep = feed(start(reorg_limit=19), CHAIN[1:40])
    assert deep.base.height == 20
    with pytest.raises(InvalidHeader, match="below height 20"):
        deep.on_header(other[20])


def test_a_branch_is_forgotten_once_it_forks_off_too_deep() -> None:
    other = grow(CHAIN[:20], 12, salt=1)
    chain = feed(start(reorg_limit=15), [*CHAIN[1:30], *other[20:28]])
    assert naive.hash_of(other[27]) in chain
    feed(chain, CHAIN[30:36])
    assert chain.base.height == 20
    assert naive.hash_of(other[27]) not in chain
    assert len(chain) == 16
    with pytest.raises(InvalidHeader, match="not on record"):
        chain.on_header(other[28])


def test_memory_is_bounded_and_the_weakest_branch_gives_way() -> None:
    chain = feed(start(reorg_limit=12, side_limit=4), CHAIN[1:30])
    strong = grow(CHAIN[:20], 6, salt=1)
    feed(chain, strong[20:24])
    before = len(chain)
    for salt in range(2, 40):
        chain.on_header(grow(CHAIN[:19], 1, salt=salt)[-1])
        assert len(chain) == before == 13 + 4
        assert naive.hash_of(strong[23]) in chain
    chain.on_header(grow(CHAIN[:27], 1, salt=50)[-1])
    assert naive.hash_of(strong[23]) not in chain
    assert naive.hash_of(strong[22]) in chain
    assert chain.tip.hash == naive.hash_of(CHAIN[29])
    assert len(chain) == 17


def test_among_equal_branches_the_first_seen_is_kept() -> None:
    chain = feed(start(side_limit=1), CHAIN[1:30])
    first, second = (grow(CHAIN[:20], 1, salt=salt)[-1] for salt in (1, 2))
    feed(chain, [first, second])
    assert naive.hash_of(first) in chain
    assert naive.hash_of(second) not in chain


def test_known_headers_change_nothing() -> None:
    chain = feed(start(), CHAIN[1:20])
    before = snapshot(chain)
    assert chain.on_header(CHAIN[10]).height == 10
    feed(chain, CHAIN[:20])
    assert snapshot(chain) == before


@pytest.mark.parametrize("position", [0, 4, 36, 68, 72, 76])
def test_a_refused_header_changes_nothing(position: int) -> None:
    chain = feed(start(), CHAIN[1:40])
    before = snapshot(chain)
    for value in range(0, 256, 5):
        raw = CHAIN[40][:position] + bytes([value]) + CHAIN[40][position + 1 :]
        bad = naive.first_bad([*CHAIN[:40], raw], 16, 600, naive.decode(0x207FFFFF)[0]) == 40
        if bad:
            with pytest.raises(InvalidHeader):
                chain.on_header(raw)
    with pytest.raises(MalformedHeader):
        chain.on_header(CHAIN[40][:79])
    with pytest.raises(InvalidHeader, match="two hours"):
        chain.on_header(CHAIN[40], now=naive.time_of(CHAIN[40]) - 7201)
    assert snapshot(chain) == before


def test_verifying_changes_nothing() -> None:
    chain = feed(start(), CHAIN[1:20])
    before = snapshot(chain)
    chain.verify_header(CHAIN[20])
    assert snapshot(chain) == before


def test_a_start_must_be_known() -> None:
    network = make_network(CHAIN, [20, 47])
    unknown = verify_run(network, [b"".join(CHAIN[22:40])], start_height=22).tip
    for base in (get_start(network, 0), get_start(network, 10), get_start(network, 48)):
        with pytest.raises(Misuse, match="cannot start"):
            HeaderChain(network, base)
    assert unknown.window_time is not None
    with pytest.raises(Misuse, match="cannot start"):
        HeaderChain(network, verify_run(network, [b"".join(CHAIN[22:30])], start_height=22).tip)
    for reorg_limit, side_limit in ((0, 1), (1, 0)):
        with pytest.raises(Misuse, match="limits"):
            start(reorg_limit=reorg_limit, side_limit=side_limit)


def test_a_checkpoint_is_a_start() -> None:
    network = make_network(CHAIN, [20])
    chain = feed(HeaderChain(network, get_start(network, 21)), CHAIN[21:])
    assert (chain.tip.height, chain.tip.work) == (55, work_of(CHAIN))


def test_the_real_fork_at_823226() -> None:
    headers, stale = split(read_vector("headers-823215.bin")), read_vector("stale-823226.bin")
    network = make_mainnet_from(headers[0], 823_215)
    base = verify_run(network, [headers[0]], start_height=823_215).tip
    chain = feed(HeaderChain(network, base), [*headers[1:11], stale, headers[11]])
    assert chain.tip.hash == naive.hash_of(stale)
    feed(chain, headers[12:])
    assert (chain.tip.height, chain.tip.hash) == (823_230, naive.hash_of(headers[-1]))


def test_real_stale_headers_among_all_others() -> None:
    headers = split(read_shared("mainnet-822528-826559.bin"))
    rows = read_shared("stale.tsv").decode().splitlines()[1:]
    height, raw = rows[0].split("\t")
    stale, place = bytes.fromhex(raw), int(height) - 822_528
    network = make_mainnet_from(headers[0], 822_528)
    base = verify_run(network, [headers[0]], start_height=822_528).tip
    chain = feed(HeaderChain(network, base), [*headers[1:place], stale, *headers[place:]])
    assert chain.tip.hash == naive.hash_of(headers[-1])
    assert chain.base.height == 826_559 - 2016
    assert len(chain) == 2017
    assert MAINNET.table.network_id == network.table.network_id


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from([60, 600, 3000])), min_size=1, max_size=40))
def test_the_tip_is_the_first_header_with_the_most_work(plan: list[tuple[int, int]]) -> None:
    """Random trees, beside a plain list of every branch ever made."""
    branches: list[list[bytes]] = [[GENESIS]]
    chain, best = start(), [GENESIS]
    for salt, (choice, step) in enumerate(plan):
        parent = branches[choice % len(branches)]
        made = grow(parent, 1, step=step, salt=salt)
        branches.append(made)
        chain.on_header(made[-1])
        if work_of(made) > work_of(best):
            best = made
        assert chain.tip.hash == naive.hash_of(best[-1])
        assert chain.tip.work == work_of(best)
    assert [_hash_at(chain, height) for height in range(len(best))] == list(map(naive.hash_of, best))


def _hash_at(chain: HeaderChain, height: int) -> bytes:
    found = chain.get_header_at(height)
    assert isinstance(found, Tip)
    return found.hash


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([60, 600, 3000])), min_size=20, max_size=60))
def test_records_stay_whole_and_bounded(plan: list[tuple[int, int]]) -> None:
    """Whatever comes, every record but the base has its parent, and the bounds hold."""
    chain = start(reorg_limit=5, side_limit=3)
    known = {chain.base.hash: [GENESIS]}
    for salt, (choice, step) in enumerate(plan):
        kept = [branch for key, branch in known.items() if key in chain]
        made = grow(kept[-1 - choice % len(kept)], 1, step=step, salt=salt)
        known[chain.on_header(made[-1]).hash] = made
        nodes = chain._nodes
        assert all(node.parent in nodes for node in nodes.values() if node is not chain.base)
        assert set(chain._children) == {node.parent for node in nodes.values() if node is not chain.base}
        assert sum(map(len, chain._children.values())) == len(nodes) - 1
        assert chain.tip.work == max([node.work for node in nodes.values()])
        assert len(chain) <= 6 + 3
