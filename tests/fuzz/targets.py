"""What reads bytes that others made. A target takes any bytes, and accepts or refuses them by the error tree.

The first bytes choose what the others are taken for; seeds are valid ones. Signatures are not looked at, so
that the rules behind them see what is mutated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from anchor.bundle.evidence import Expectations
from anchor.bundle.types import LEDGER_SCOPE, Bundle
from anchor.bundle.verify import verify_bundle
from anchor.consensus.bls import NoSignatures
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.light_client.store import LightClient
from anchor.consensus.text import parse_checkpoint
from anchor.errors import Invalid, Malformed, MalformedFile, Unsafe
from anchor.merkle.container import Container
from anchor.merkle.scope import Scope
from anchor.ml.formats import safetensors
from anchor.ml.formats.index import read_index
from tests.consensus.ledgers import Chain
from tests.consensus.light_clients import NETWORK, PERIOD, World
from tests.consensus.samples import RULES, get_chain
from tests.consensus.test_gossip import Node

BUNDLES: Final = Path(__file__).parents[2] / "specs" / "vectors" / "bundle"
LARGEST_SEED: Final = 1 << 14
REFUSED: Final = (Invalid, Malformed, Unsafe)


class Target(NamedTuple):
    """Something that reads bytes."""

    run: Callable[[bytes], object]
    """Returns for bytes that it takes, raises one of REFUSED for others; anything else is a defect."""
    make_seeds: Callable[[], Sequence[bytes]]
    """Bytes that it takes."""


def is_taken(target: Target, data: bytes) -> bool:
    """Whether the target takes the bytes. Whatever is no refusal passes through."""
    try:
        target.run(data)
    except REFUSED:
        return False
    return True


# SSZ


@cache
def list_records() -> list[tuple[Scope, type[Container]]]:
    """Every record of every fork, once each, and the bundle."""
    found: dict[type[Container], Scope] = {Bundle: LEDGER_SCOPE}
    for rules in get_rules():
        for record in rules.scope.records.values():
            found.setdefault(record, rules.scope)
    return [(scope, record) for record, scope in found.items()]


def run_ssz(data: bytes) -> None:
    """What decodes has just this one encoding, and a root."""
    records = list_records()
    scope, record = records[int.from_bytes(data[:2], "big") % len(records)]
    value = scope.schema(record).decode(data[2:])
    if scope.encode(value) != data[2:]:
        raise AssertionError(f"{record.__name__} has two encodings")
    scope.hash_tree_root(value)


def make_ssz_seeds() -> list[bytes]:
    encoded = enumerate([scope.encode(scope.schema(record).default()) for scope, record in list_records()])
    return [number.to_bytes(2, "big") + data for number, data in encoded if len(data) <= LARGEST_SEED]


# The state transition


@cache
def get_rules() -> list[Any]:
    """Every fork's rules, the ledger's among them."""
    ledger = Chain().ledger
    return [*RULES.values(), Ledger(ledger.preset, ledger.config, NoSignatures())]


@cache
def list_blocks() -> list[tuple[Any, Any, Any]]:
    """(rules, state, block): a few blocks of every fork, each with the state before it."""
    found = [(RULES[fork], *step) for fork in RULES for step in get_chain(fork)[:2]]
    chain = Chain()
    before = chain.state.copy()
    chain.add_block(*chain.make_alice())
    return [*found, (get_rules()[-1], before, chain.blocks[0])]


def apply(rules: Any, state: Any, block: Any) -> None:
    """A block on a state, which is left as it is."""
    root = rules.hash_tree_root(state)
    with patch("anchor.consensus.forks.phase0.block.MAX_EMPTY_SLOTS", 8):  # what is far takes long
        try:
            rules.state_transition(state, block, validate_result=False)
        finally:
            if rules.hash_tree_root(state) != root:
                raise AssertionError("the state before was changed")


def run_block(data: bytes) -> None:
    """A block, on the state that the sample is for."""
    rules, state, _ = list_blocks()[data[0] % len(list_blocks())] if data else list_blocks()[0]
    apply(rules, state, rules.scope.schema("SignedBeaconBlock").decode(data[1:]))


def make_block_seeds() -> list[bytes]:
    samples = enumerate(list_blocks())
    return [bytes([number]) + rules.scope.encode(block) for number, (rules, _, block) in samples]


def run_state(data: bytes) -> None:
    """A sample's block, on any state."""
    rules, _, block = list_blocks()[data[0] % len(list_blocks())] if data else list_blocks()[0]
    apply(rules, rules.scope.schema("BeaconState").decode(data[1:]), block)


def make_state_seeds() -> list[bytes]:
    samples = enumerate(list_blocks())
    return [bytes([number]) + rules.scope.encode(state) for number, (rules, state, _) in samples]


# Light clients

WORLDS: Final = tuple([World(**{fork: 0}) for fork in ("altair", "capella", "deneb", "electra", "gloas")])


@cache
def get_light_client(number: int) -> tuple[LightClient, Any, Scope, bytes]:
    """A light client, its store, the records of its fork, and an update that it takes."""
    world = WORLDS[number]
    client = LightClient(world.preset, world.config, NETWORK, NoSignatures())
    final = world.make(PERIOD + 32)
    attested = world.make(PERIOD + 40, final)
    scope = world.get_scope(attested.slot)
    return client, world.start(world.make(PERIOD + 8)), scope, scope.encode(world.update(attested, final))


def run_light_client(data: bytes) -> None:
    """An update, to a store that trusts a block."""
    client, store, scope, _ = get_light_client(data[0] % len(WORLDS) if data else 0)
    update = scope.schema("LightClientUpdate").decode(data[1:])
    client.process_light_client_update(store, update, 10 * PERIOD)


def make_light_client_seeds() -> list[bytes]:
    return [bytes([number]) + get_light_client(number)[3] for number in range(len(WORLDS))]


# Gossip

TOPICS: Final = (
    ("altair", "beacon_block", "SignedBeaconBlock"),
    ("altair", "beacon_attestation", "Attestation"),
    ("altair", "attester_slashing", "AttesterSlashing"),
    ("altair", "sync_committee_message", "SyncCommitteeMessage"),
    ("electra", "beacon_aggregate_and_proof", "SignedAggregateAndProof"),
    ("electra", "beacon_attestation", "SingleAttestation"),
    ("electra", "voluntary_exit", "SignedVoluntaryExit"),
    ("fulu", "data_column_sidecar", "DataColumnSidecar"),
    ("fulu", "beacon_block", "SignedBeaconBlock"),
)
UNTIMED: Final = ("attester_slashing",)
ON_SUBNETS: Final = ("beacon_attestation", "data_column_sidecar", "sync_committee_message")


@cache
def get_node(fork: str) -> Node:
    """A node that follows a chain of a fork."""
    return Node(fork)


def run_gossip(data: bytes) -> None:
    """A message of a topic, to a node that has seen none."""
    fork, topic, record = TOPICS[data[0] % len(TOPICS) if data else 0]
    node = get_node(fork)
    message = node.gossip.rules.scope.schema(record).decode(data[2:])
    node.gossip.seen.keys.clear()
    node.gossip.seen.bits.clear()
    time = () if topic in UNTIMED else (node.now,)
    subnet = (data[1] if len(data) > 1 else 0,) if topic in ON_SUBNETS else ()
    getattr(node.gossip, f"validate_{topic}")(node.store, message, *time, *subnet)


def make_gossip_seeds() -> list[bytes]:
    """Blocks, which are taken; of the other topics, messages that get as far as their first rules."""
    seeds = []
    for number, (fork, _, record) in enumerate(TOPICS):
        scope, node = get_node(fork).gossip.rules.scope, get_node(fork)
        known = {"SignedBeaconBlock": node.block, "Attestation": node.votes[0]}
        value = known.get(record) or scope.schema(record).default()
        seeds.append(bytes([number, 0]) + scope.encode(value))
    return seeds


# Bundles


class Frozen(NamedTuple):
    """A bundle of specs/vectors, and who verifies it."""

    data: bytes
    trusted: Any
    expected: Expectations
    now: int


@cache
def list_bundles() -> list[Frozen]:
    """The valid ones."""
    found = []
    for case in sorted(BUNDLES.iterdir()):
        told = json.loads((case / "case.json").read_text())
        if told["refused"] is None:
            expected = Expectations(model=told["model"], version=told["version"], accepts_stale_trust=True)
            data = (case / "bundle.anchor").read_bytes()
            found.append(Frozen(data, parse_checkpoint(told["trusted"]), expected, told["now"]))
    return found


def run_bundle(data: bytes) -> None:
    """A bundle, for someone who trusts the sample's checkpoint."""
    frozen = list_bundles()[data[0] % len(list_bundles()) if data else 0]
    with (
        patch("anchor.bundle.finality.signatures", NoSignatures),
        patch("anchor.bundle.seats.signatures", NoSignatures),
    ):
        verify_bundle(data[1:], frozen.trusted, frozen.expected, now=frozen.now)


def make_bundle_seeds() -> list[bytes]:
    return [bytes([number]) + frozen.data for number, frozen in enumerate(list_bundles())]


# Model files


def run_safetensors(data: bytes) -> None:
    """A file, or (where it does not begin as one) an index of shards. Its tensors lie in it, apart."""
    if not safetensors.is_like(data[:16], len(data)):
        read_index("model.safetensors.index.json", data)

    def read_at(offset: int, length: int) -> bytes:
        if offset + length > len(data):
            raise MalformedFile("The file ends.", cause="cut")
        return data[offset : offset + length]

    layout = safetensors.read(read_at, len(data))
    places = sorted((placed.offset, placed.tensor.length) for placed in layout.tensors if placed.offset)
    ends = [0, *[offset + length for offset, length in places]]
    if any(end > start for end, (start, _) in zip(ends, places, strict=False)) or ends[-1] > len(data):
        raise AssertionError("tensors overlap, or go beyond the file")


def make_safetensors_seeds() -> list[bytes]:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
        "c": {"dtype": "F4", "shape": [4], "data_offsets": [26, 28]},
        "e": {"dtype": "U8", "shape": [0], "data_offsets": [28, 28]},
    }
    text = json.dumps(header).encode()
    return [len(text).to_bytes(8, "little") + text + bytes(28), (2).to_bytes(8, "little") + b"{}"]


TARGETS: Final = {
    "ssz": Target(run_ssz, make_ssz_seeds),
    "blocks": Target(run_block, make_block_seeds),
    "states": Target(run_state, make_state_seeds),
    "light_client": Target(run_light_client, make_light_client_seeds),
    "gossip": Target(run_gossip, make_gossip_seeds),
    "bundle": Target(run_bundle, make_bundle_seeds),
    "safetensors": Target(run_safetensors, make_safetensors_seeds),
}
