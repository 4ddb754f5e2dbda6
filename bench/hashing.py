"""Speed of hashing and shuffling, beside hashlib, `model-signing`, and npm's packages of the field."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from anchor.consensus import shuffling
from anchor.merkle import _hashlib, hashing
from anchor.ml.leaves import CHUNK_SIZE, hash_ranges, hash_skeleton
from bench.harness import Comparison, Peer, Run, compare

HERE = Path(__file__).parent
SHARDS = 5
HEADER = 1 << 15


def measure(options: argparse.Namespace) -> list[Comparison]:
    """All comparisons of hashing and shuffling."""
    with _checkpoint(int(options.gigabytes * 1e9)) as folder, _peers(options) as (node, signing):
        return [
            _compare_files(folder, signing, options.rounds),
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


@contextmanager
def _checkpoint(size: int) -> Iterator[Path]:
    """A folder of shards that are a header and tensors, as safetensors are."""
    block = os.urandom(CHUNK_SIZE + 4096)
    with tempfile.TemporaryDirectory(prefix="anchor-bench-") as name:
        for shard in range(SHARDS):
            with Path(name, f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors").open("wb") as file:
                file.writelines([block] * (size // SHARDS // len(block)))
        yield Path(name)


def _extents(size: int) -> list[tuple[int, int]]:
    """Tensors of mixed sizes, one after another up to the end of a shard of `size` bytes."""
    sizes = random.Random(size)  # noqa: S311
    extents, offset = [], HEADER
    while offset < size:
        length = min(
            sizes.choice([8192, 4 * CHUNK_SIZE, 8 * CHUNK_SIZE, 22 * CHUNK_SIZE + 4096]), size - offset
        )
        extents.append((offset, length))
        offset += length
    return extents


def _compare_files(folder: Path, signing: Peer | None, rounds: int) -> Comparison:
    paths = sorted(folder.iterdir())
    total = sum(path.stat().st_size for path in paths)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _hash_files(paths)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    candidates: dict[str, Run | None] = {
        "hashlib, 1 MiB reads": lambda: _hash_with_hashlib(paths),
        "anchor, one core": lambda: _on_one_core(lambda: _hash_files(paths)),
        f"anchor, {os.cpu_count()} cores": lambda: _hash_files(paths),
        "model-signing": signing and (lambda: signing.run(path=str(folder))),
    }
    title = f"Warm checkpoint, {total / 1e9:.2f} GB in {len(paths)} files; peak memory "
    return compare(f"{title}{before >> 10} → {peak >> 10} MiB", candidates, rounds=rounds)


def _hash_files(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            extents = _extents(size)
            hash_ranges(file.fileno(), extents, lambda _: None)
            hash_skeleton(file.fileno(), size, extents, lambda _: None)


def _hash_with_hashlib(paths: list[Path]) -> None:
    buffer = memoryview(bytearray(CHUNK_SIZE))
    for path in paths:
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
