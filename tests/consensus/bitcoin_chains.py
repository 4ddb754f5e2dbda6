"""Synthetic Bitcoin chains: trivial targets, short retarget windows, checkpoints where a test wants them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from struct import pack

import pytest

from anchor.consensus.bitcoin.network import MAINNET, Context, Network
from anchor.consensus.hardcoded import Table
from tests.oracles import naive_bitcoin as naive

INTERVAL, SPACING = 16, 600
LIMIT = 0x7FFFFF << 8 * 29
LIMIT_BITS = 0x207FFFFF
START = 1_300_000_000
ROOT = Path(__file__).parent.parent.parent
SHARED = ROOT.parent / "shared" / "bitcoin"
VECTORS = ROOT / "tests" / "vectors" / "bitcoin"


def mine(parent: bytes, time: int, bits: int, *, salt: int = 0, version: int = 4) -> bytes:
    """The first header with these fields whose hash meets its target."""
    target = naive.decode(bits)[0]
    head = pack("<i32s32sII", version, parent, salt.to_bytes(32, "little"), time, bits)
    for nonce in range(1 << 20):
        raw = head + pack("<I", nonce)
        if naive.field(naive.hash_of(raw), 0, 32) <= target:
            return raw
    raise AssertionError("the target is too hard for a test")


GENESIS = mine(bytes(32), START, LIMIT_BITS)


def next_bits(chain: Sequence[bytes]) -> int:
    return naive.next_bits(chain, INTERVAL, SPACING, LIMIT)


def grow(
    chain: Sequence[bytes], count: int, *, step: int = SPACING, salt: int = 0, version: int = 4
) -> list[bytes]:
    """`chain`, from genesis, with `count` headers more, `step` seconds apart."""
    grown = list(chain)
    for _ in range(count):
        time = naive.time_of(grown[-1]) + step
        grown.append(mine(naive.hash_of(grown[-1]), time, next_bits(grown), salt=salt, version=version))
    return grown


@cache
def make_chain(count: int, step: int = SPACING, salt: int = 0) -> tuple[bytes, ...]:
    """Genesis and the `count - 1` headers after it."""
    return tuple(grow([GENESIS], count - 1, step=step, salt=salt))


def remine(chain: Sequence[bytes], height: int, change: Callable[[bytes], bytes]) -> list[bytes]:
    """`chain` with one header's fields changed, and it and all later ones linked and mined again."""
    made = list(chain[:height])
    for number, raw in enumerate(chain[height:]):
        fields = change(raw) if number == 0 else raw
        parent, version = naive.hash_of(made[-1]) if number else fields[4:36], naive.field(fields, 0)
        salt = naive.field(fields, 36, 32)
        made.append(mine(parent, naive.time_of(fields), naive.bits_of(fields), salt=salt, version=version))
    return made


def make_network(
    chain: Sequence[bytes] = (GENESIS,), checkpoints: Iterable[int] = (), **changes: object
) -> Network:
    """The test network, with the headers of `chain` at these heights as checkpoints."""
    heights = sorted({0, *checkpoints})
    entries = {height: naive.hash_of(chain[height])[::-1] for height in heights}
    contexts = {height: _get_context(chain, height) for height in heights}
    table = Table("test", entries[0], entries)
    network = Network(table, contexts, LIMIT, minimum_work=0, interval=INTERVAL, spacing=SPACING)
    return dataclasses.replace(network, **changes)  # type: ignore[arg-type]


def _get_context(chain: Sequence[bytes], height: int) -> Context:
    work = sum([naive.work_of(naive.bits_of(raw)) for raw in chain[: height + 1]])
    window_time = naive.time_of(chain[height - height % INTERVAL])
    return Context(naive.bits_of(chain[height]), window_time, work)


@cache
def read_retargets() -> dict[int, tuple[int, int | None, int]]:
    """By the height of a window's first header: its time, the last one's time, the bits."""
    lines = (VECTORS / "retargets.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {
        int(height): (int(first), int(last) if last else None, int(bits, 16))
        for height, first, last, bits in rows
    }


def compute_mainnet_work(height: int) -> int:
    """The work of the real chain through `height`: bits are constant within a window."""
    windows = {start: row for start, row in read_retargets().items() if start <= height}
    return sum(
        [naive.work_of(bits) * min(2016, height - start + 1) for start, (_, _, bits) in windows.items()]
    )


def make_mainnet_from(raw: bytes, height: int) -> Network:
    """The main network with `raw` as one more checkpoint, from what is known of its window."""
    first, _, bits = read_retargets()[height - height % 2016]
    context = Context(bits, first, compute_mainnet_work(height))
    entries = {**MAINNET.table.entries, height: naive.hash_of(raw)[::-1]}
    table = Table("bitcoin", MAINNET.table.network_id, entries)
    return dataclasses.replace(MAINNET, table=table, contexts={**MAINNET.contexts, height: context})


def read_vector(name: str) -> bytes:
    return (VECTORS / name).read_bytes()


def read_shared(name: str) -> bytes:
    """A file of the shared data; the test is skipped where it is not there."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared data at {SHARED}")
    return (SHARED / name).read_bytes()


def split(data: bytes) -> list[bytes]:
    return [data[i : i + 80] for i in range(0, len(data), 80)]
