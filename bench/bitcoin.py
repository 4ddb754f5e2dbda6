"""Speed of checking Bitcoin's headers, beside their hashing alone: SHA-256 twice for each, by hashlib."""

from __future__ import annotations

import argparse
import dataclasses
import random
from collections.abc import Sequence
from hashlib import sha256

from anchor.consensus.bitcoin.header import get_start, verify_header
from anchor.consensus.bitcoin.network import Network
from anchor.consensus.bitcoin.run import verify_run
from bench.harness import Comparison, compare
from tests.consensus.bitcoin_chains import GENESIS, LIMIT_BITS, make_network, mine
from tests.oracles import naive_bitcoin as naive

COUNT = 20 * 2016


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """A chain with Bitcoin's windows at a trivial target, in memory, on one core."""
    headers, network = _make_headers(), make_network(interval=2016)
    data = b"".join(headers)
    found = compare(
        "",
        {
            "hashing alone": lambda: [sha256(sha256(raw).digest()).digest() for raw in headers],
            "anchor": lambda: verify_run(network, [data]),
            "anchor, header by header": lambda: _verify_singly(network, headers),
        },
        rounds=options.rounds,
    )
    rate = COUNT / found.rows[1].cpu
    title = f"Bitcoin headers, {COUNT:,} of them, one core: {rate:,.0f} a second"
    return [dataclasses.replace(found, title=title)]


def _make_headers() -> list[bytes]:
    """COUNT headers, a few out of order as real ones are; slow enough to stay at the easiest target."""
    scatter = random.Random(1)  # noqa: S311
    headers = [GENESIS]
    while len(headers) < COUNT:
        step = -900 if scatter.random() < 0.03 else int(scatter.expovariate(1 / 700))
        later = max(naive.time_of(headers[-1]) + step, naive.median_time(headers[-11:]) + 1)
        headers.append(mine(naive.hash_of(headers[-1]), later, LIMIT_BITS))
    return headers


def _verify_singly(network: Network, headers: Sequence[bytes]) -> None:
    tip = get_start(network, 0)
    for raw in headers:
        tip = verify_header(network, tip, raw)
