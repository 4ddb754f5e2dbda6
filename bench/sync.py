"""Speed of a sync: a state of a million validators decoded and rooted, light-client updates verified."""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.consensus.containers.altair import SyncAggregate, SyncCommittee
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.forks.capella import Capella
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms
from anchor.consensus.light_client.store import LightClient, LightClientStore
from anchor.consensus.presets import MAINNET, MAINNET_CONFIG
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.merkle.bits import Bits
from anchor.merkle.scope import hash_tree_root
from anchor.params import DOMAIN_SYNC_COMMITTEE
from bench.harness import Comparison, Peer, Run, Sample, compare

VALIDATORS = 1_000_000
CONFIG = MAINNET_CONFIG.replace(
    ALTAIR_FORK_EPOCH=0, BELLATRIX_FORK_EPOCH=0, CAPELLA_FORK_EPOCH=0, DENEB_FORK_EPOCH=2**64 - 1
)
SCRIPT = """
import json, resource, sys, time
from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
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
    """The state from a file that is made for it, and updates of a committee of 512."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "state.ssz"
        size = write_state(path, VALIDATORS)
        peer = None
        if (options.node / "node_modules/@lodestar/types").is_dir():
            script = Path(__file__).with_name("peer_state.mjs")
            peer = stack.enter_context(Peer(["node", str(script), str(options.node.resolve())]))
        found = _compare_states(path, size, peer, options.rounds)
    return [found, _compare_updates(options.rounds)]


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

    candidates: dict[str, Run] = {"anchor": ours}
    if peer is not None:
        candidates["@lodestar/types"] = lambda: peer.run(path=str(path))
    found = compare("", candidates, rounds=rounds)
    title = f"State of {VALIDATORS:,} validators, {size / 1e6:.0f} MB: decoded and rooted; "
    return dataclasses.replace(found, title=f"{title}peak memory {max(peaks)} MiB, root {roots.pop()[:8]}…")


def _compare_updates(rounds: int) -> Comparison:
    client, store, update = make_update()
    slot = update.signature_slot
    warm = client(Bls())
    candidates: dict[str, Run] = {
        "keys to be parsed": lambda: client(Bls()).verify_light_client_update(store, update, slot),
        "keys parsed": lambda: warm.verify_light_client_update(store, update, slot),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    title = f"A light-client update of 512 keys, verified; memory {before} MiB"
    return compare(title, candidates, rounds=max(rounds, 5))


def make_update() -> tuple[Any, LightClientStore, Any]:
    """A client on signatures to be given, its store, and an update that brings finality and a committee."""
    signatures, fork = Bls(), Capella(MAINNET, CONFIG, Bls())
    schemas = {name: fork.scope.schema(name) for name in ("BeaconState", "SignedBeaconBlock")}
    draw = random.Random(1)  # noqa: S311
    secrets = [draw.randrange(1, 2**250) for _ in range(MAINNET.SYNC_COMMITTEE_SIZE)]
    pubkeys = tuple([signatures.sk_to_pk(secret) for secret in secrets])
    committee = SyncCommittee(pubkeys=pubkeys, aggregate_pubkey=signatures.eth_aggregate_pubkeys(pubkeys))

    def make_block(slot: int, **message: Any) -> Any:
        block = schemas["SignedBeaconBlock"].default()
        return block.replace(message=block.message.replace(slot=slot, **message))

    final = make_block(64)
    state = schemas["BeaconState"].default()
    state.slot, state.current_sync_committee, state.next_sync_committee = 128, committee, committee
    state.finalized_checkpoint = Checkpoint(epoch=2, root=fork.hash_tree_root(final.message))
    attested = make_block(128, state_root=fork.hash_tree_root(state))
    forms, root = Forms(MAINNET, CONFIG), bytes(32)
    deriver = Deriver(forms, fork.scope)
    header = deriver.block_to_light_client_header(attested, fork.scope)
    domain = compute_domain(DOMAIN_SYNC_COMMITTEE, CONFIG.CAPELLA_FORK_VERSION, root)
    message = compute_signing_root(hash_tree_root(header.beacon), domain)
    aggregate = SyncAggregate(
        sync_committee_bits=Bits([True] * len(secrets)),
        sync_committee_signature=signatures.sign(sum(secrets) % ORDER, message),
    )
    signing = make_block(129)
    body = signing.message.body.replace(sync_aggregate=aggregate)
    signing = signing.replace(message=signing.message.replace(body=body))
    scope = fork.scope
    update = deriver.create_light_client_update(signing, (state, attested, scope), (final, scope))
    start = deriver.block_to_light_client_header(make_block(32), scope)
    store = LightClientStore(start, committee, committee, None, start)
    return lambda given: LightClient(MAINNET, CONFIG, root, given), store, update
