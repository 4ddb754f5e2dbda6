"""How operators found a network together: a draft, everyone's deposits, one genesis file, everyone's folder.

A deposit proves possession under the network's fork version, so that comes first: whoever starts drafts the
network, each operator makes keys for the draft, and whoever has all deposits makes the genesis of them. The
same draft, deposits and time give the same genesis: everyone can make it, and compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anchor.consensus.bls import Bls
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER, make_ledger_config
from anchor.consensus.text import format_checkpoint, format_identity, parse_identity
from anchor.errors import InvalidEntry, Misuse, WrongNetwork
from anchor.files import new_folder
from anchor.merkle.scope import schema_of
from anchor.node.chain import Chain, compute_block_root
from anchor.node.documents import (
    Kind,
    read_bytes,
    read_document,
    read_name,
    require_name,
    show_bytes,
    write_document,
)
from anchor.node.folder import NETWORK_SCHEMA, new_store, write_description
from anchor.node.genesis import draw_fork_version
from anchor.node.keys import Randomness
from anchor.node.places import choose_place
from anchor.node.postgresql import Url
from anchor.node.validators.deposits import Deposits
from anchor.params import MAX_ADMINISTRATORS, WALL_CLOCK

DRAFT: Final = Kind("anchor-draft/1", "the draft of a network")
FOUNDED: Final = Kind("anchor-genesis/1", "the genesis of a network")
NETWORK: Final = Kind(NETWORK_SCHEMA, "the description of a network")
MAX_SECONDS_PER_SLOT: Final = 86400


@dataclass(frozen=True, slots=True)
class Draft:
    """What is settled of a network before its validators are known."""

    name: str
    fork_version: bytes
    nonce: bytes
    seconds_per_slot: int
    administrators: tuple[bytes, ...]
    """Ed25519 public keys: who may register publishers, and bring admissions in."""


@dataclass(frozen=True, slots=True)
class Founded:
    """A network: its genesis, and what is said of its operators, which the network's id does not cover."""

    name: str
    operators: tuple[tuple[str, int], ...]
    """Name, and validators, of each."""
    genesis: Genesis
    ledger: Ledger
    state: Any
    """The first BeaconState of the ledger: every rule was checked, and every proof."""

    @property
    def network_id(self) -> bytes:
        """What tells the network from every other."""
        return bytes(self.state.genesis_validators_root)

    @property
    def checkpoint(self) -> Checkpoint:
        """The first one."""
        return Checkpoint(epoch=0, root=compute_block_root(self.ledger, self.state))


def draw_draft(
    name: str, administrators: Sequence[bytes], seconds_per_slot: int, randomness: Randomness
) -> Draft:
    """A new network with a clock, its fork version and nonce drawn at random (rule 17). Raises Misuse."""
    if not 0 < seconds_per_slot <= MAX_SECONDS_PER_SLOT:
        raise Misuse(f"A slot lasts 1 to {MAX_SECONDS_PER_SLOT} seconds, not {seconds_per_slot}.")
    if not 0 < len(set(administrators)) == len(administrators) <= MAX_ADMINISTRATORS:
        raise Misuse(
            f"A network has 1 to {MAX_ADMINISTRATORS} administrators, each named once.",
            fix="Make a key for each with: anchor keygen --administrator",
        )
    require_name(name, "A network's name")
    version = draw_fork_version(randomness)
    return Draft(name, version, randomness(32), seconds_per_slot, tuple(administrators))


def write_draft(path: Path, draft: Draft) -> None:
    """Writes a new file with a draft. Raises as `write_document`."""
    fields = {
        "name": draft.name,
        "genesis_fork_version": show_bytes(draft.fork_version),
        "nonce": show_bytes(draft.nonce),
        "seconds_per_slot": draft.seconds_per_slot,
        "administrators": [format_identity(key) for key in draft.administrators],
    }
    write_document(path, DRAFT, fields)


def read_draft(path: Path) -> Draft:
    """The draft in the file at `path`. Raises as `read_document`, Misuse for an unsafe key in it."""
    return read_document(path, _read_draft, DRAFT)


def _read_draft(document: Any) -> Draft:
    seconds = document["seconds_per_slot"]
    if type(seconds) is not int:
        raise TypeError(seconds)
    return Draft(
        name=read_name(document["name"]),
        fork_version=read_bytes(document["genesis_fork_version"], 4),
        nonce=read_bytes(document["nonce"], 32),
        seconds_per_slot=seconds,
        administrators=tuple([parse_identity(key) for key in document["administrators"]]),
    )


def found_network(draft: Draft, given: Sequence[Deposits], genesis_time: int) -> Founded:
    """The network of a draft and all deposits, in an order that does not depend on who was asked first.

    Raises WrongNetwork for deposits that were made for another draft, InvalidEntry or InvalidSignature for
    a genesis that breaks a rule, or a key whose possession is not proven.
    """
    for deposits in given:
        if deposits.fork_version != draft.fork_version:
            raise WrongNetwork(
                f"The deposits of {deposits.operator!a} are for the network of fork version "
                f"0x{deposits.fork_version.hex()}, and this one has 0x{draft.fork_version.hex()}.",
                fix="Ask for deposits that are made for this draft.",
            )
    _require_each_once(given)
    owned = [(deposits.operator, deposit) for deposits in given for deposit in deposits.deposits]
    owned.sort(key=lambda pair: (pair[0], pair[1].pubkey))
    genesis = Genesis(
        fork_version=draft.fork_version,
        genesis_time=genesis_time,
        nonce=draft.nonce,
        clock=WALL_CLOCK,
        seconds_per_slot=draft.seconds_per_slot,
        administrators=draft.administrators,
        deposits=tuple([deposit for _, deposit in owned]),
    )
    counts = Counter([operator for operator, _ in owned])
    return _make_founded(draft.name, tuple(counts.items()), genesis)


def _require_each_once(given: Sequence[Deposits]) -> None:
    owners: dict[bytes, str] = {}
    for deposits in given:
        for deposit in deposits.deposits:
            if deposit.pubkey in owners:
                raise InvalidEntry(
                    f"Validator 0x{deposit.pubkey.hex()} is given twice: by {owners[deposit.pubkey]!a}, and "
                    f"by {deposits.operator!a}.",
                    fix="Name each file once. A key that two operators hold is slashed: one makes others.",
                )
            owners[deposit.pubkey] = deposits.operator


def _make_founded(name: str, operators: tuple[tuple[str, int], ...], genesis: Genesis) -> Founded:
    ledger = Ledger(LEDGER, compute_config(genesis), Bls())
    return Founded(name, operators, genesis, ledger, ledger.initialize_ledger_state(genesis))


def write_founded(path: Path, founded: Founded) -> None:
    """Writes a new genesis file. Raises as `write_document`."""
    fields = {
        "name": founded.name,
        "network_id": show_bytes(founded.network_id),
        "checkpoint": format_checkpoint(founded.checkpoint),
        "operators": [{"name": name, "validators": count} for name, count in founded.operators],
        "genesis": show_bytes(schema_of(Genesis).encode(founded.genesis)),
    }
    write_document(path, FOUNDED, fields)


def read_founded(path: Path) -> Founded:
    """The network in the genesis file at `path`, its first state computed and every proof checked.

    Raises as `read_document` and `found_network` do; WrongNetwork when it is not the network that it says.
    """
    return read_document(path, _read_founded, FOUNDED)


def _read_founded(document: Any) -> Founded:
    genesis: Genesis = schema_of(Genesis).decode(read_bytes(document["genesis"]))
    operators = [(read_name(entry["name"]), entry["validators"]) for entry in document["operators"]]
    if genesis.clock != WALL_CLOCK or sum([count for _, count in operators]) != len(genesis.deposits):
        raise ValueError(operators)
    founded = _make_founded(read_name(document["name"]), tuple(operators), genesis)
    if (document["network_id"], document["checkpoint"]) != (
        show_bytes(founded.network_id),
        format_checkpoint(founded.checkpoint),
    ):
        raise WrongNetwork(
            f"The file says that its genesis is of network {document['network_id']!a}, and it is of "
            f"{show_bytes(founded.network_id)}.",
            fix="Ask the other operators for it again, and compare the network with them.",
        )
    return founded


def start_folder(folder: Path, founded: Founded, url: Url | None = None) -> dict[str, Any]:
    """Makes `folder` a node's own, at the network's genesis; returns the network's description.

    Its store is a file there, or in the database at `url`. Raises Misuse when `folder` holds anything.
    """
    first = (founded.genesis, founded.ledger, founded.state)
    with (
        new_folder(folder) as staged,
        new_store(choose_place(staged, url), founded.name, *first, reserved=0, may_sign=True) as store,
    ):
        return write_description(staged, Chain(store), operators=len(founded.operators))


@dataclass(frozen=True, slots=True)
class Description:
    """A network that runs, as its `network.json` tells."""

    network_id: bytes
    fork_version: bytes
    genesis_time: int
    seconds_per_slot: int
    operators: int | None = None
    """As its genesis file says; None where that is not known."""

    def make_ledger(self) -> Ledger:
        """The network's rules."""
        return Ledger(LEDGER, make_ledger_config(self.fork_version, self.seconds_per_slot), Bls())

    def get_epoch(self, now: int) -> int:
        """The epoch at Unix time `now`."""
        return max(now - self.genesis_time, 0) // (self.seconds_per_slot * LEDGER.SLOTS_PER_EPOCH)


def read_description(path: Path) -> Description:
    """What the file at `path` tells of a network. Raises as `read_document`."""

    def read(document: Any) -> Description:
        times, operators = (document["genesis_time"], document["seconds_per_slot"]), document["operators"]
        if set(map(type, times)) != {int} or not times[1] or type(operators) not in (int, type(None)):
            raise TypeError(times)
        network_id, version = document["network_id"], document["genesis_fork_version"]
        return Description(read_bytes(network_id, 32), read_bytes(version, 4), *times, operators)

    return read_document(path, read, NETWORK)


def read_fork_version(path: Path) -> bytes:
    """The fork version that a draft, or a network's description, at `path` names. Raises as they do."""
    return read_document(
        path, lambda document: read_bytes(document["genesis_fork_version"], 4), DRAFT, NETWORK
    )
