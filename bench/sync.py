"""Speed of a sync: a state of a million validators with the mainnet preset, decoded and rooted."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from anchor.consensus.bls import Bls
from anchor.consensus.forks.capella import Capella
from anchor.consensus.presets import MAINNET, MAINNET_CONFIG
from bench.harness import Comparison, Peer, Run, Sample, compare

VALIDATORS = 1_000_000
SCRIPT = """
import json, resource, sys, time
from anchor.consensus.bls import Bls
from anchor.consensus.forks.capella import Capella
from anchor.consensus.presets import MAINNET, MAINNET_CONFIG
from pathlib import Path

schema = Capella(MAINNET, MAINNET_CONFIG, Bls()).scope.schema("BeaconState")
data = Path(sys.argv[1]).read_bytes()
schema.default()
cpu, wall = time.process_time(), time.perf_counter()
root = schema.hash_tree_root(schema.decode(data))
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "root": root.hex()}))
"""
"""In a process of its own, whose peak of memory is then that of the job."""


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """The state from a file that is made for it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "state.ssz"
        size = write_state(path, VALIDATORS)
        peer = None
        if (options.node / "node_modules/@lodestar/types").is_dir():
            script = Path(__file__).with_name("peer_state.mjs")
            peer = stack.enter_context(Peer(["node", str(script), str(options.node.resolve())]))
        found = _compare_states(path, size, peer, options.rounds)
    return [found]


def write_state(path: Path, count: int) -> int:
    """A capella state whose validators differ, as SSZ; its size."""
    import numpy as np

    fork = Capella(MAINNET, MAINNET_CONFIG, Bls())
    schema = fork.scope.schema("BeaconState")
    draw = np.random.default_rng(1)
    registry = draw.integers(0, 256, (count, 121), dtype=np.uint8)
    registry[:, 80:88] = np.frombuffer((32 * 10**9).to_bytes(8, "little"), np.uint8)
    registry[:, 88] = 0
    registry[:, 89:105] = 0
    registry[:, 105:] = 255
    flags = draw.integers(0, 8, count, dtype=np.uint8).tobytes()
    balances = draw.integers(31 * 10**9, 33 * 10**9, count, dtype=np.uint64).tobytes()
    columns = {
        "validators": registry.tobytes(),
        "balances": balances,
        "previous_epoch_participation": flags,
        "current_epoch_participation": flags,
        "inactivity_scores": bytes(8 * count),
    }
    state = schema.default()
    for name, data in columns.items():
        setattr(state, name, schema.schemas[name].decode(data))
    state.slot = 32 * MAINNET.SLOTS_PER_EPOCH
    return path.write_bytes(schema.encode(state))


def _compare_states(path: Path, size: int, peer: Peer | None, rounds: int) -> Comparison:
    peaks: list[int] = []
    roots: set[str] = set()

    def ours() -> Sample:
        line = [sys.executable, "-c", SCRIPT, str(path)]
        done = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)  # noqa: S603
        peaks.append(done["peak"] >> 10)
        roots.add(done["root"])
        return Sample(done["wall"], done["cpu"])

    candidates: dict[str, Run | None] = {
        "anchor": ours,
        "@lodestar/types": peer and (lambda: peer.run(path=str(path), root=next(iter(roots)))),
    }
    found = compare("", candidates, rounds=rounds)
    title = f"State of {VALIDATORS:,} validators, {size / 1e6:.0f} MB: decoded and rooted; "
    return dataclasses.replace(found, title=f"{title}peak memory {max(peaks)} MiB, root {roots.pop()[:8]}…")
