"""Speed of hashing and shuffling, beside hashlib, `model-signing`, and npm's packages of the field."""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from anchor.consensus import shuffling
from anchor.merkle import _hashlib, hashing
from anchor.ml.build import build_manifest
from anchor.ml.leaves import CHUNK_SIZE
from anchor.ml.manifest import manifest_root
from anchor.ml.source import open_source
from bench.checkpoints import write_checkpoint
from bench.harness import Comparison, Peer, Run, compare

HERE = Path(__file__).parent
SHARDS = 5


def measure(options: argparse.Namespace) -> list[Comparison]:
    """All comparisons of hashing and shuffling."""
    with tempfile.TemporaryDirectory(prefix="anchor-bench-") as name, _peers(options) as (node, signing):
        folder = Path(name, "model")
        write_checkpoint(folder, int(options.gigabytes * 1e9), SHARDS)
        return [
            _compare_files(folder, signing, options.rounds),
            _compare_cores(folder, options.rounds),
            _compare_leaves(options.rounds),
            _compare_pairs(node, options.rounds),
            _compare_roots(options.rounds),
            _compare_shuffles(node, options.rounds),
        ]


@contextmanager
def _peers(options: argparse.Namespace) -> Iterator[tuple[Peer | None, Peer | None]]:
    with ExitStack() as stack:
        node = signing = None
        if shutil.which("node") and (options.node / "node_modules/@chainsafe").is_dir():
            node = stack.enter_context(Peer(["node", str(HERE / "peer.mjs"), str(options.node.resolve())]))
        if options.model_signing:
            signing = stack.enter_context(Peer([options.model_signing, str(HERE / "peer_model_signing.py")]))
        yield node, signing


def _compare_files(folder: Path, signing: Peer | None, rounds: int) -> Comparison:
    candidates: dict[str, Run | None] = {
        "hashlib, 1 MiB reads": lambda: _hash_with_hashlib(folder),
        "anchor, one core": lambda: _on_one_core(lambda: _hash(folder)),
        "model-signing, hashing alone": signing and (lambda: signing.run(path=str(folder))),
    }
    title = f"A warm checkpoint, {_describe(folder)}: reading, hashing, the manifest's roots"
    return compare(title, candidates, rounds=rounds, asked="1.7 cpu x on one core")


def _compare_cores(folder: Path, rounds: int) -> Comparison:
    _hash(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    candidates: dict[str, Run] = {
        "anchor, one core": lambda: _on_one_core(lambda: _hash(folder)),
        f"anchor, {os.cpu_count()} cores": lambda: _hash(folder),
    }
    title = f"The same on all cores; peak memory of all so far {peak >> 10} MiB"
    asked = "1.8 wall x with two cores; peak memory below 150 MB"
    return compare(title, candidates, rounds=rounds, asked=asked)


def _describe(folder: Path) -> str:
    sizes = [path.stat().st_size for path in folder.iterdir()]
    return f"{sum(sizes) / 1e9:.2f} GB in {len(sizes)} files"


def _hash(folder: Path) -> None:
    with open_source(folder) as source:
        manifest_root(build_manifest(source))


def _hash_with_hashlib(folder: Path) -> None:
    """Into whole pages: to where a bytearray lies, some processors copy at a quarter of the speed."""
    buffer = memoryview(mmap.mmap(-1, CHUNK_SIZE))
    for path in sorted(folder.iterdir()):
        state = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                state.update(buffer[:count])


def _on_one_core(run: Callable[[], object]) -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        run()
    finally:
        os.sched_setaffinity(0, cores)


def _compare_leaves(rounds: int) -> Comparison:
    data = os.urandom(64 * CHUNK_SIZE)
    candidates: dict[str, Run] = {
        "hashlib, one stream": lambda: hashlib.sha256(data),
        "hashlib, chunk by chunk": lambda: _hashlib.hash_leaves(data),
        "anchor": lambda: hashing.hash_leaves(data),
    }
    return compare("Leaves in memory, 64 of 1 MiB, one core", candidates, rounds=rounds)


def _compare_pairs(node: Peer | None, rounds: int) -> Comparison:
    count, repeat = 1 << 15, 8
    nodes, out = os.urandom(64 * count), bytearray(32 * count)
    candidates: dict[str, Run | None] = {
        "hashlib loop": lambda: [_hashlib.hash_pairs(nodes) for _ in range(repeat)],
        "anchor": lambda: _hash_pairs_into(out, nodes, repeat),
        "@chainsafe/hashtree": node and (lambda: node.run(name="pairs", count=count, repeat=repeat)),
    }
    return compare(f"Pairs of nodes, {repeat} times {count}", candidates, rounds=rounds)


def _hash_pairs_into(out: bytearray, nodes: bytes, repeat: int) -> None:
    for _ in range(repeat):
        hashing.hash_pairs_into(out, nodes)


def _compare_roots(rounds: int) -> Comparison:
    chunks, repeat = os.urandom(8 * 32), range(2000)
    candidates: dict[str, Run] = {
        "hashlib": lambda: [_hashlib.merkle_root(chunks, 3) for _ in repeat],
        "anchor": lambda: [hashing.merkle_root(chunks, 3) for _ in repeat],
    }
    return compare(f"Roots of eight chunks, {len(repeat)} of them", candidates, rounds=rounds)


def _compare_shuffles(node: Peer | None, rounds: int) -> Comparison:
    count, seed = 1_000_000, bytes([7] * 32)
    candidates: dict[str, Run | None] = {
        "numpy": lambda: shuffling._permute(count, seed, 90),
        "anchor": lambda: shuffling.compute_shuffled_permutation(count, seed, 90),
        "@chainsafe/swap-or-not-shuffle": node and (lambda: node.run(name="shuffle", count=count, rounds=90)),
    }
    return compare("Swap-or-not of a million indices, 90 rounds", candidates, rounds=rounds)
