"""Speed of checking a light client's update with 512 seats, beside the signature alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from anchor.consensus.bls import Bls
from anchor.consensus.light_client.store import LightClient
from anchor.consensus.presets import MAINNET
from anchor.merkle.scope import hash_tree_root
from bench.harness import Comparison, compare
from tests.consensus.light_clients import NETWORK, World

EPOCH = MAINNET.SLOTS_PER_EPOCH


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """An update of mainnet's size, from its bytes: everyone signed, a block is final, a committee comes."""
    world = World(MAINNET, electra=0)
    final = world.make(4 * EPOCH)
    attested = world.make(6 * EPOCH, final)
    store, update = world.start(world.make(2 * EPOCH)), world.update(attested, final)
    schema = world.get_scope(attested.slot).schema("LightClientUpdate")
    data = schema.encode(update)
    keys, aggregate = store.current_sync_committee.pubkeys, update.sync_aggregate

    def check_signature(client: LightClient) -> None:
        message = hash_tree_root(update.attested_header.beacon)  # any message takes as long
        client.signatures.fast_aggregate_verify(keys, message, aggregate.sync_committee_signature)

    def check(client: LightClient) -> None:
        client.verify_light_client_update(store, schema.decode(data), 7 * EPOCH)

    def start() -> LightClient:
        return LightClient(MAINNET, world.config, NETWORK, Bls())

    found = []
    for title, get in (("parsed before", lambda: world.client), ("not parsed yet", start)):
        runs = {
            "the signature alone": lambda get=get: check_signature(get()),
            "anchor": lambda get=get: check(get()),
        }
        found.append(compare(f"A light client's update, 512 keys {title}", runs, rounds=options.rounds))
    return found
