"""A new node's folder from a checkpoint that its operator trusts, with what any node gives over HTTP.

The genesis makes the network, the checkpoint says which chain of it: block and state are held to it, and to
the weak-subjectivity period, as of any beacon chain (`anchor.chain.beacon.checkpoint`). Nothing is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from anchor.chain.beacon.answers import SSZ, read_data
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint, verify_pair
from anchor.chain.beacon.endpoint import parse_endpoint
from anchor.chain.beacon.http import Client, Timeouts, open_session
from anchor.chain.beacon.networks import Network, from_config
from anchor.consensus.bls import Bls
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.errors import InvalidCheckpoint, Misuse, WrongNetwork
from anchor.files import new_folder, require_new_folder
from anchor.merkle.scope import schema_of
from anchor.node.batches import Made, make_block, make_entries, make_snapshot
from anchor.node.chain import Chain, compute_block_root
from anchor.node.folder import new_store, require_ledger_name, write_description
from anchor.node.places import Place, choose_place
from anchor.node.records import Batch
from anchor.node.store import Store
from anchor.params import WALL_CLOCK

MAX_GENESIS_BYTES: Final = 256 << 20
MAX_BLOCK_BYTES: Final = 4 << 20
MAX_STATE_BYTES: Final = 1 << 30
TIMEOUTS: Final = Timeouts()


class Start(NamedTuple):
    """What a network starts from, and what it is called."""

    name: str
    genesis: Genesis
    ledger: Ledger
    state: Any
    """The first one: every proof in the genesis was checked."""


class Fetched(NamedTuple):
    """What a node gave, held to what is trusted."""

    start: Start
    found: VerifiedCheckpoint | None
    """None where the checkpoint is the genesis."""


async def join_network(
    folder: Path, url: str, trusted: Checkpoint, network_id: bytes | None, now: float
) -> dict[str, Any]:
    """Makes `folder` a node's own, at `trusted`, from what a node gives; the network's description.

    Raises Misuse when `folder` holds anything, or the ledger has one operator; StaleTrust, InvalidCheckpoint,
    WrongNetwork, Malformed and Unavailable where what the node gives is not what is trusted.
    """
    require_new_folder(folder)
    fetched = await fetch_network(url, trusted, network_id, now)
    with new_folder(folder) as staged, filled_store(choose_place(staged, None), fetched) as store:
        return write_description(staged, Chain(store))


async def fetch_network(url: str, trusted: Checkpoint, network_id: bytes | None, now: float) -> Fetched:
    """What a node's store begins with, from the node at `url`; raises as `join_network` does."""
    async with open_session() as session:
        client = Client(session, parse_endpoint(url), TIMEOUTS)
        start = await _fetch_start(client)
        if network_id not in (None, start.state.genesis_validators_root):
            raise WrongNetwork(f"{url} is of another network than the one that is trusted.")
        if trusted.root == compute_block_root(start.ledger, start.state):
            return Fetched(start, None)
        return Fetched(start, await _fetch_checkpoint(client, start, trusted, now))


async def _fetch_start(client: Client) -> Start:
    answer = await client.get("the genesis", "/anchor/v1/genesis", accept=SSZ, limit=MAX_GENESIS_BYTES)
    genesis: Genesis = schema_of(Genesis).decode(answer.body)
    if genesis.clock != WALL_CLOCK:
        raise Misuse(
            f"{client.label} serves a ledger of one operator: nobody can join it.",
            fix="Bring a copy of it from its backup, with: anchor import",
        )
    ledger = Ledger(LEDGER, compute_config(genesis), Bls())
    state = ledger.initialize_ledger_state(genesis)
    status = read_data(await client.get("the status", "/anchor/v1/status"))
    name = str(status.get("name", "")) if isinstance(status, dict) else ""
    require_ledger_name(name)
    return Start(name, genesis, ledger, state)


async def _fetch_checkpoint(
    client: Client, start: Start, trusted: Checkpoint, now: float
) -> VerifiedCheckpoint:
    root = f"0x{trusted.root.hex()}"
    block = await client.get("the block", f"/anchor/v1/blocks/{root}", accept=SSZ, limit=MAX_BLOCK_BYTES)
    state = await client.get("the state", f"/anchor/v1/states/{root}", accept=SSZ, limit=MAX_STATE_BYTES)
    found = verify_pair(make_network(start), trusted, block.body, state.body, now=now)
    start.ledger.verify_block_signature(found.state, found.block.block)
    return found


def make_network(start: Start) -> Network:
    """The network, as a client of beacon chains knows one."""
    values = start.ledger.config.items()
    spec = {key: f"0x{value.hex()}" if isinstance(value, bytes) else value for key, value in values}
    return from_config(spec).with_genesis(
        start.state.genesis_validators_root, int(start.genesis.genesis_time)
    )


@contextmanager
def filled_store(place: Place, fetched: Fetched) -> Iterator[Store]:
    """A new store at `place` that begins with what was fetched; gone when that, or the body, fails."""
    start, found = fetched
    first = (start.genesis, start.ledger, start.state)
    with new_store(place, start.name, *first, reserved=0, may_sign=True) as store:
        if found is not None:
            _start_from(store, start.ledger, found)
        yield store


def _start_from(store: Store, ledger: Ledger, found: VerifiedCheckpoint) -> None:
    made = Made(bytes(found.block.root), found.block.block, found.state)
    if found.state.slot != made.slot:
        raise InvalidCheckpoint(f"The state of slot {found.state.slot} is not its block's own.")
    snapshot = make_snapshot(ledger, made.root, made.state, kept=True)
    store.start_from(
        make_block(ledger, made.root, made.block), snapshot, bytes(made.block.message.parent_root)
    )
    store.commit(Batch(entries=tuple(make_entries([made.block], len(made.state.entries)))))
