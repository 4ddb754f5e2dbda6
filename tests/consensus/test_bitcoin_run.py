"""Runs of headers: real ones, synthetic ones, and every fault that a file can have."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.bitcoin import run as module
from anchor.consensus.bitcoin.header import format_hash, get_start, verify_header
from anchor.consensus.bitcoin.network import MAINNET, Network
from anchor.consensus.bitcoin.run import Run, verify_run
from anchor.errors import AnchorError, InvalidCheckpoint, InvalidHeader, MalformedHeader, Misuse
from tests.consensus.bitcoin_chains import (
    GENESIS,
    INTERVAL,
    LIMIT,
    LIMIT_BITS,
    SPACING,
    START,
    compute_mainnet_work,
    grow,
    make_chain,
    make_mainnet_from,
    make_network,
    mine,
    next_bits,
    read_shared,
    read_vector,
    remine,
)
from tests.oracles import naive_bitcoin as naive

CHAIN = make_chain(56, step=450)
"""Three retargets and a half, each to a harder target."""
CHECKPOINTS = (20, 32, 47)
NETWORK = make_network(CHAIN, CHECKPOINTS)
BARE = make_network()


def verify(chain: list[bytes] | tuple[bytes, ...], network: Network = BARE, **options: int) -> Run:
    """The run, whose end must be the same header by header."""
    run = verify_run(network, [b"".join(chain)], **options)
    tip = get_start(network, options.get("start_height", 0))
    for raw in chain:
        tip = verify_header(network, tip, raw, options.get("now"))
    assert run.tip == tip
    return run


# Real headers


def test_real_headers_from_genesis() -> None:
    run = verify_run(MAINNET, [read_vector("headers-0.bin")])
    assert (run.count, run.tip.height, run.anchor, run.agreed) == (64, 63, 0, (0,))
    assert (run.unknown_medians, run.unknown_bits) == (0, 0)
    assert run.tip.work == 64 * 0x100010001
    assert format_hash(get_start(MAINNET, 11112).hash) == MAINNET.table.entries[11111].hex()


def test_real_headers_across_a_retarget() -> None:
    raw = read_vector("headers-824530.bin")
    network = make_mainnet_from(raw[:80], 824_530)
    run = verify_run(network, [raw], start_height=824_530)
    assert (run.anchor, run.unknown_medians, run.unknown_bits) == (824_530, 10, 0)
    assert run.tip.work == compute_mainnet_work(824_561)
    after = raw[14 * 80 :]
    assert naive.bits_of(after) != naive.bits_of(raw)


def test_a_wrong_window_start_gives_another_retarget() -> None:
    raw = read_vector("headers-824530.bin")
    network = make_mainnet_from(raw[:80], 824_530)
    context = network.contexts[824_530]
    context = dataclasses.replace(context, window_time=context.window_time - 600)
    shifted = dataclasses.replace(network, contexts={**network.contexts, 824_530: context})
    with pytest.raises(InvalidHeader, match="height 824544"):
        verify_run(shifted, [raw], start_height=824_530)


@pytest.mark.parametrize(
    ("name", "start"), [("mainnet-0-4031.bin", 0), ("mainnet-822528-826559.bin", 822_528)]
)
def test_all_real_headers(name: str, start: int) -> None:
    data = read_shared(name)
    run = verify_run(MAINNET, [data], start_height=start)
    assert run.count == 4032
    assert (run.anchor, run.unknown_medians, run.unknown_bits) == ((0, 0, 0) if start == 0 else (None, 11, 1))
    work = compute_mainnet_work(run.tip.height) - (compute_mainnet_work(start - 1) if start else 0)
    assert run.tip.work == work


def test_real_headers_at_any_other_height_are_refused() -> None:
    data = read_shared("mainnet-822528-826559.bin")
    for start in (822_527, 822_529, 822_528 + 1008):
        with pytest.raises(InvalidHeader):
            verify_run(MAINNET, [data], start_height=start)
    with pytest.raises(InvalidHeader, match="height 0"):
        verify_run(MAINNET, [data])
    whole_window = verify_run(MAINNET, [data], start_height=824_544)
    assert (
        whole_window.anchor is None
    )  # headers don't say their height: until a checkpoint it is the caller's word


# Synthetic chains: what a run says


def test_a_run_from_genesis_through_checkpoints() -> None:
    run = verify(CHAIN, NETWORK)
    assert (run.count, run.start_height, run.anchor, run.agreed) == (56, 0, 47, (0, *CHECKPOINTS))
    assert run.tip.hash == naive.hash_of(CHAIN[-1])
    assert run.tip.work == sum([naive.work_of(naive.bits_of(raw)) for raw in CHAIN])
    assert naive.bits_of(CHAIN[-1]) != LIMIT_BITS


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_run_from_any_checkpoint_ends_like_the_whole(checkpoint: int) -> None:
    whole = verify(CHAIN, NETWORK)
    for start in (checkpoint, checkpoint + 1):
        run = verify(CHAIN[start:], make_network(CHAIN, [checkpoint]), start_height=start)
        assert run.anchor == checkpoint
        assert run.tip.work == whole.tip.work
        assert run.unknown_medians == sum([height - start < 11 for height in range(checkpoint + 1, 56)])


def test_a_run_after_a_window_s_last_header_cannot_know_the_bits() -> None:
    run = verify(CHAIN[48:], NETWORK, start_height=48)
    assert (run.anchor, run.unknown_bits) == (47, 1)


def test_a_run_that_nothing_ties_says_so() -> None:
    run = verify(CHAIN[21:32], NETWORK, start_height=21)
    assert run.anchor == 20
    run = verify(CHAIN[22:32], NETWORK, start_height=22)
    assert (run.anchor, run.unknown_medians, run.unknown_bits) == (None, 10, 1)
    assert run.tip.work == sum([naive.work_of(naive.bits_of(raw)) for raw in CHAIN[22:32]])


def test_a_checkpoint_further_up_settles_what_was_unknown() -> None:
    for network, agreed in ((NETWORK, (32, 47)), (make_network(CHAIN, [47]), (47,))):
        run = verify(CHAIN[22:], network, start_height=22)
        assert (run.anchor, run.agreed, run.unknown_medians, run.unknown_bits) == (47, agreed, 0, 0)
        assert run.tip.work == verify(CHAIN).tip.work


def test_a_mid_chain_run_cannot_derive_the_bits_of_a_window_it_lacks() -> None:
    run = verify(CHAIN[20:], BARE, start_height=20)
    assert (run.unknown_medians, run.unknown_bits) == (11, 2)


@given(st.lists(st.integers(1, 55), max_size=6))
def test_pieces_make_no_difference(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), 56]
    pieces = [b"".join(CHAIN[low:high]) for low, high in itertools.pairwise(edges)]
    assert verify_run(NETWORK, pieces) == verify(CHAIN, NETWORK)


def test_columns_and_single_headers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    columns = module._check_columns

    def watch(*given: object) -> object:
        used.append(columns(*given))  # type: ignore[arg-type]
        return used[-1]

    monkeypatch.setattr(module, "_check_columns", watch)
    fast = verify(CHAIN, NETWORK)
    assert sum([tip is not None for tip in used]) > len(used) // 2
    monkeypatch.setattr(module, "_check_columns", lambda *_: None)
    assert verify(CHAIN, NETWORK) == fast


def test_nothing_is_no_run() -> None:
    for pieces in ([], [b""]):
        with pytest.raises(Misuse, match="no header"):
            verify_run(BARE, pieces)
    with pytest.raises(Misuse, match="-1"):
        verify(CHAIN, start_height=-1)


def test_minimum_work_is_asked_for_by_the_caller() -> None:
    work = verify(CHAIN).tip.work
    assert verify(CHAIN, minimum_work=work).tip.work == work
    with pytest.raises(InvalidHeader, match="work"):
        verify(CHAIN, minimum_work=work + 1)


def test_times_in_the_future_are_refused_where_the_time_is_given() -> None:
    last = max([naive.time_of(raw) for raw in CHAIN])
    assert verify(CHAIN, now=last - 7200).count == 56
    what = _refused(list(CHAIN), now=last - 7201).what
    assert "height 55" in what
    assert "two hours" in what


def test_old_versions_are_refused_from_their_heights_on() -> None:
    chain = grow(CHAIN[:30], 4, version=2)
    floors = ((5, 2), (32, 3))
    assert verify(chain[:32], make_network(version_floors=floors)).count == 32
    what = _refused(chain, make_network(version_floors=floors)).what
    assert "height 32" in what
    assert "version 2, below 3" in what
    negative = grow(CHAIN[:30], 1, version=-5)
    assert verify(negative).count == 31
    assert "version -5" in _refused(negative, make_network(version_floors=floors)).what


# Faults


def _refused(chain: list[bytes], network: Network = BARE, **options: int) -> AnchorError:
    """The error, which must be the same header by header and by columns."""
    with pytest.raises(AnchorError) as caught:
        verify_run(network, [b"".join(chain)], **options)
    tip = get_start(network, options.get("start_height", 0))
    with pytest.raises(type(caught.value)) as single:
        for raw in chain:
            tip = verify_header(network, tip, raw, options.get("now"))
    assert single.value.what == caught.value.what
    return caught.value


@pytest.mark.parametrize("height", [0, 1, 12, 15, 16, 31, 40, 55])
@pytest.mark.parametrize("position", [0, 4, 20, 36, 60, 68, 71, 72, 75, 76, 79])
def test_a_changed_byte_is_refused(height: int, position: int) -> None:
    """The header itself is refused, or the next, which doesn't link to it; after the last there is none."""
    raw = bytearray(CHAIN[height])
    for flip in range(1, 256):
        raw[position] = CHAIN[height][position] ^ flip
        chain = [*CHAIN[:height], bytes(raw), *CHAIN[height + 1 :]]
        bad = naive.first_bad(chain, INTERVAL, SPACING, LIMIT)
        if bad is not None:
            assert bad in (height, height + 1)
            what = _refused(chain).what
            assert f"height {bad}," in what if height else "height 0," in what or " at 0," in what
            break
    else:
        pytest.fail("no change of this byte is refused")


@pytest.mark.parametrize("height", [0, 1, 20, 31, 32, 54])
def test_dropped_doubled_and_swapped_headers_are_refused(height: int) -> None:
    chain = list(CHAIN)
    assert "parent" in _refused([*chain[:height], *chain[height + 1 :]]).what
    assert "parent" in _refused([*chain[:height], chain[height], *chain[height:]]).what
    chain[height], chain[height + 1] = chain[height + 1], chain[height]
    assert "parent" in _refused(chain).what


def test_a_cut_file_is_refused() -> None:
    data = b"".join(CHAIN)
    for size in (1, 79, 81, len(data) - 1, len(data) - 79):
        with pytest.raises(MalformedHeader, match="80"):
            verify_run(BARE, [data[:size]])
    assert verify_run(BARE, [data[:-80]]).count == 55


def test_another_start_height_is_refused() -> None:
    for start in (1, 15, 16, 17):
        _refused(list(CHAIN), NETWORK, start_height=start)
    _refused(list(CHAIN[1:]), NETWORK)
    _refused(list(CHAIN[20:]), NETWORK, start_height=21)


def _set(position: int, value: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:position] + value.to_bytes(4, "little") + raw[position + 4 :]


@pytest.mark.parametrize("bits", [LIMIT_BITS - 1, 0x207FFFFE, 0x1F7FFFFF, 0x21007FFF, 0x2100FFFF])
def test_bits_that_the_rules_do_not_ask_for_are_refused(bits: int) -> None:
    header = mine(naive.hash_of(CHAIN[9]), naive.time_of(CHAIN[10]), min(bits, 0x2100FFFF))
    assert "rules ask for" in _refused([*CHAIN[:10], header]).what
    if naive.decode(bits)[0] > LIMIT:
        assert "limit" in _refused([header], start_height=10).what


@pytest.mark.parametrize("bits", [0, 0x207FFFFF | 0x800000, 0xFF7FFFFF, 0x2100007F, 0x237FFFFF])
def test_tricks_in_a_first_header_are_refused(bits: int) -> None:
    header = _set(72, bits)(CHAIN[10])
    assert "bits" in _refused([header], start_height=10).what


def test_a_header_without_its_work_is_refused() -> None:
    raw = CHAIN[50]
    target = naive.decode(naive.bits_of(raw))[0]
    tries = [_set(76, nonce)(raw) for nonce in range(100)]
    weak = next(made for made in tries if naive.field(naive.hash_of(made), 0, 32) > target)
    assert "lacks the work" in _refused([*CHAIN[:50], weak, *CHAIN[51:]]).what


def test_a_retarget_off_by_one_window_or_one_header_is_refused() -> None:
    for bits in (naive.bits_of(CHAIN[16]), naive.bits_of(CHAIN[48])):
        made = remine(CHAIN[:40], 32, _set(72, bits))
        assert "height 32" in _refused(made).what
    early = remine(CHAIN[:40], 31, _set(72, naive.bits_of(CHAIN[32])))
    assert "height 31" in _refused(early).what
    late = remine(CHAIN[:33], 32, _set(72, naive.bits_of(CHAIN[31])))
    assert "height 32" in _refused(late).what


def test_a_window_measured_with_one_step_more_is_refused() -> None:
    elapsed = naive.time_of(CHAIN[31]) - naive.time_of(CHAIN[15])
    target = naive.decode(naive.bits_of(CHAIN[31]))[0]
    bits = naive.encode(min(target * elapsed // (INTERVAL * SPACING), LIMIT))
    assert bits != naive.bits_of(CHAIN[32])
    assert "height 32" in _refused(remine(CHAIN[:33], 32, _set(72, bits))).what


def test_a_time_at_the_median_is_refused_and_one_after_it_stands() -> None:
    for height in (3, 20, 31, 32, 45):
        median = naive.median_time(CHAIN[:height])
        early = remine(CHAIN[: height + 1], height, _set(68, median))
        assert "median" in _refused(early).what
        assert verify(remine(CHAIN[: height + 1], height, _set(68, median + 1))).count == height + 1


def test_six_equal_times_stand_and_a_seventh_does_not() -> None:
    chain = list(CHAIN[:33])
    for _ in range(7):
        chain.append(mine(naive.hash_of(chain[-1]), naive.time_of(CHAIN[32]) + 600, next_bits(chain)))
    assert verify(chain[:39]).count == 39
    assert "height 39" in _refused(chain).what


def test_medians_near_genesis_are_of_those_there_are() -> None:
    """Also where a checkpoint parts the first eleven."""
    network = make_network(CHAIN, [5])
    for height in (7, 8, 9, 10):
        median = naive.median_time(CHAIN[:height])
        early = remine(CHAIN[: height + 1], height, _set(68, median))
        assert f"height {height}," in _refused(early, network).what
        assert verify(remine(early, height, _set(68, median + 1)), network).count == height + 1


def test_the_first_known_median_holds_whatever_the_times_before() -> None:
    """In a run from mid-chain the first eleven times are anything; the twelfth must be after their median."""
    chain = [mine(bytes(32), START + 9000, LIMIT_BITS)]
    for time in (*[START + 9000] * 9, START, START + 10):
        chain.append(mine(naive.hash_of(chain[-1]), time, LIMIT_BITS))
    assert "height 28" in _refused(chain, start_height=17).what


def test_a_timewarp_keeps_the_letter_of_the_rules() -> None:
    """Bitcoin's windows don't overlap, so a lie in each one's last header eases the target."""
    chain = list(CHAIN[:48])
    for _ in range(2):
        while len(chain) % INTERVAL != INTERVAL - 1:
            chain.append(mine(naive.hash_of(chain[-1]), naive.median_time(chain) + 1, next_bits(chain)))
        chain.append(mine(naive.hash_of(chain[-1]), naive.time_of(chain[-1]) + 40_000, next_bits(chain)))
    chain.append(mine(naive.hash_of(chain[-1]), naive.median_time(chain) + 1, next_bits(chain)))
    assert naive.time_of(chain[-1]) < naive.time_of(chain[-2])
    assert naive.decode(naive.bits_of(chain[-1]))[0] > 2 * naive.decode(naive.bits_of(chain[48]))[0]
    assert naive.first_bad(chain, INTERVAL, SPACING, LIMIT) is None
    assert verify(chain).count == len(chain)
    assert "two hours" in _refused(chain, now=naive.time_of(chain[62]) + 600).what


def test_a_chain_that_conflicts_with_a_checkpoint_is_refused() -> None:
    other = grow(CHAIN[:30], 26, step=300, salt=1)
    assert verify(other).tip.work > verify(CHAIN).tip.work
    error = _refused(other, NETWORK)
    assert isinstance(error, InvalidCheckpoint)
    assert "32" in error.what
    assert isinstance(_refused([mine(bytes(32), 1, LIMIT_BITS), *CHAIN[1:]], NETWORK), InvalidCheckpoint)


def test_another_genesis_is_refused() -> None:
    stranger = grow([mine(bytes(32), naive.time_of(GENESIS), LIMIT_BITS, salt=9)], 20)
    assert isinstance(_refused(stranger), InvalidCheckpoint)


_steps = st.lists(st.integers(-2500, 4000), min_size=1, max_size=60)


@settings(deadline=None, max_examples=60)
@given(_steps, st.integers(0, 59), st.sampled_from([None, 0, 4, 36, 68, 72, 76]), st.integers(0, 0xFFFFFFFF))
def test_any_chain_is_judged_as_the_oracle_judges_it(
    steps: list[int], height: int, position: int | None, value: int
) -> None:
    chain = [GENESIS]
    for step in steps:
        time = max(naive.time_of(chain[-1]) + step, START)
        chain.append(mine(naive.hash_of(chain[-1]), time, next_bits(chain)))
    if position is not None and 0 < height < len(chain):
        chain[height] = _set(position, value)(chain[height])
    bad = naive.first_bad(chain, INTERVAL, SPACING, LIMIT)
    if bad is None:
        assert verify(chain).tip.hash == naive.hash_of(chain[-1])
    else:
        assert f"height {bad}," in _refused(chain).what
