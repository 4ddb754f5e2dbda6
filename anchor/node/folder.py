"""A ledger's folder: the store, the encrypted seed, and a description of the network for others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from anchor.consensus.bls import Bls
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.consensus.text import format_checkpoint, format_identity
from anchor.errors import CorruptedLedger, Misuse, Unavailable
from anchor.files import PRIVATE, new_folder, read_bounded, write_new
from anchor.lock import hold_folder
from anchor.merkle.scope import schema_of
from anchor.node.batches import make_snapshot
from anchor.node.chain import Chain, compute_block_root
from anchor.node.clock import Clock
from anchor.node.database import RESTORE
from anchor.node.genesis import draw_genesis
from anchor.node.keys import (
    MAX_FILE_BYTES,
    SECRET_BYTES,
    Randomness,
    decode_key_file,
    decrypt_secret,
    derive_administrator_key,
    encode_key_file,
    encrypt_secret,
)
from anchor.node.places import Place, choose_place, find_store
from anchor.node.postgresql import Url
from anchor.node.production import make_keyring
from anchor.node.records import Batch
from anchor.node.service import Service
from anchor.node.store import Store
from anchor.params import LOGICAL_CLOCK

KEYS: Final = "keys"
NETWORK: Final = "network.json"
MAX_NAME_BYTES: Final = 256
NETWORK_SCHEMA: Final = "anchor-network/1"
PATIENCE: Final = 60.0
"""Seconds that a writer waits for another one."""


def create_ledger(
    folder: Path, name: str, passphrase: str, *, clock: Clock, randomness: Randomness, url: Url | None = None
) -> dict[str, Any]:
    """Makes `folder` the ledger of a new network with one operator; returns the network's description.

    Its store is a file there, or in the database at `url`. Raises Misuse when `folder` holds anything,
    `name` is none, or the passphrase is too short.
    """
    require_ledger_name(name)
    seed = randomness(SECRET_BYTES)
    genesis = draw_genesis(seed, now=clock.now(), randomness=randomness)
    ledger = Ledger(LEDGER, compute_config(genesis), Bls())
    state = ledger.initialize_ledger_state(genesis)
    identity = f"0x{state.genesis_validators_root.hex()}"
    keys = encrypt_secret(seed, passphrase, randomness, kind="committee", identity=identity)
    with new_folder(folder) as staged:
        write_new(staged / KEYS, encode_key_file(keys), mode=PRIVATE)
        place = choose_place(staged, url)
        with new_store(place, name, genesis, ledger, state, reserved=0, may_sign=True) as store:
            return write_description(staged, Chain(store))


def require_ledger_name(name: str) -> None:
    """Raises Misuse unless `name` can be shown and stored."""
    if not name.isprintable() or not 0 < len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES:
        raise Misuse(f"A ledger's name has 1 to {MAX_NAME_BYTES} bytes, all printable.", fix="Give --name.")


@contextmanager
def new_store(
    place: Place, name: str, genesis: Genesis, ledger: Ledger, state: Any, *, reserved: int, may_sign: bool
) -> Iterator[Store]:
    """A new store that holds the first state of a network, for the body to fill; gone when the body fails."""
    encoded = schema_of(Genesis).encode(genesis)
    store = Store.create(place, name, encoded, reserved=reserved, may_sign=may_sign)
    with closing(store), ExitStack() as failed:
        failed.callback(_erase, store)
        root = compute_block_root(ledger, state)
        store.commit(Batch(snapshots=(make_snapshot(ledger, root, state, kept=True),)))
        yield store
        failed.pop_all()


def _erase(store: Store) -> None:
    with suppress(Unavailable):  # what failed first is told
        store.erase()


def write_description(folder: Path, chain: Chain, *, operators: int | None = None) -> dict[str, Any]:
    """Writes down what others need to trust the network, and returns it.

    How many operators a network has is known from its genesis file alone.
    """
    genesis, status = chain.genesis, chain.get_status()
    description = {
        "schema": NETWORK_SCHEMA,
        "name": status.name,
        "network_id": f"0x{status.network_id.hex()}",
        "genesis_fork_version": f"0x{genesis.fork_version.hex()}",
        "genesis": format_checkpoint(status.genesis),
        "genesis_time": int(genesis.genesis_time),
        "seconds_per_slot": int(genesis.seconds_per_slot),
        "validators": len(genesis.deposits),
        "operators": 1 if genesis.clock == LOGICAL_CLOCK else operators,
        "administrators": [format_identity(key) for key in genesis.administrators],
    }
    write_new(folder / NETWORK, json.dumps(description, indent=2).encode() + b"\n")
    return description


@contextmanager
def open_reader(folder: Path) -> Iterator[Chain]:
    """The chain in `folder`, as it is now: what another process commits meanwhile is not seen."""
    with closing(Store.open(find_store(folder), writable=False)) as store, store.one_view():
        yield Chain(store)


@contextmanager
def open_writer(
    folder: Path, seed: bytes, clock: Clock, *, on_wait: Callable[[str], None], patience: float = PATIENCE
) -> Iterator[Service]:
    """The ledger in `folder`, written to by nobody else for the length of the body.

    Raises CorruptedLedger when `seed` is not its committee's, Unavailable when it stays in use elsewhere,
    InvalidCheckpoint when its chain conflicts with a checkpoint in the code.
    """
    place = find_store(folder)
    with (
        hold_folder(folder, patience=patience, on_wait=on_wait),
        closing(Store.open(place, writable=True)) as store,
    ):
        chain, administrator = Chain(store), derive_administrator_key(seed)
        genesis = chain.genesis
        if administrator.public.public_key not in genesis.administrators:
            raise CorruptedLedger(f"{folder / KEYS} holds another ledger's keys.", fix=RESTORE)
        chain.verify_hardcoded()
        yield Service(store, make_keyring(seed, len(genesis.deposits)), administrator, clock)


def _require_alone(folder: Path) -> None:
    with open_reader(folder) as chain:
        if chain.genesis.clock != LOGICAL_CLOCK:
            raise Misuse(
                f"Several operators keep the ledger in {folder}: no one's seed writes to it.",
                fix="Give entries to a node: --node URL --trust ROOT:EPOCH, without --ledger.",
            )


def unlock_seed(folder: Path, passphrase: str) -> bytes:
    """The committee's seed.

    Raises Misuse for a wrong passphrase, and for a ledger that has no such seed; Unavailable where there is
    no ledger.
    """
    find_store(folder)
    path = folder / KEYS
    if not path.exists():
        _require_alone(folder)
    keys = decode_key_file(read_bounded(path, MAX_FILE_BYTES, "a key file"), str(path))
    return decrypt_secret(keys, passphrase, str(path))
