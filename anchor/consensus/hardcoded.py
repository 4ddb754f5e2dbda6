"""Checkpoints in the code, as Bitcoin shipped them: a table per network (rule 22).

One rule holds for every network: a branch that conflicts with an entry is not adopted, whatever its
weight. The functions are pure; whoever follows a chain calls them. Tables only ever grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import InvalidCheckpoint, Misuse
from anchor.types import Bytes32, Epoch, Root

RootAt = Callable[[int], Root | None]
"""A branch: its root at a position, None where it does not reach or does not show one."""


class Table(NamedTuple):
    """The checkpoints of one network that this release carries."""

    name: str
    """What people call the network."""
    network_id: Bytes32
    """The genesis validators root; on Bitcoin the hash of the genesis block, as it is displayed."""
    entries: Mapping[int, Root]
    """By position (an epoch; on Bitcoin a height) the block root (on Bitcoin the hash, as displayed)."""


def _table(name: str, network_id: str, entries: Mapping[int, str]) -> Table:
    roots = {position: bytes.fromhex(root) for position, root in sorted(entries.items())}
    return Table(name, bytes.fromhex(network_id), MappingProxyType(roots))


BITCOIN_MAINNET: Final = _table(
    "bitcoin",
    "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
    {  # the genesis block, and the thirteen checkpoints of Bitcoin Core, src/kernel/chainparams.cpp
        0: "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
        11111: "0000000069e244f73d78e8fd29ba2fd2ed618bd6fa2ee92559f542fdb26e7c1d",
        33333: "000000002dd5588a74784eaa7ab0507a18ad16a236e7b1ce69f00d7ddfb5d0a6",
        74000: "0000000000573993a3c9e41ce34471c079dcf5f52a0e824a81e7f953b8661a20",
        105000: "00000000000291ce28027faea320c8d2b054b2e0fe44a773f3eefb151d6bdc97",
        134444: "00000000000005b12ffd4cd315cd34ffd4a594f430ac814c91184a0d42d2b0fe",
        168000: "000000000000099e61ea72015e79632f216fe6cb33d7899acb35b75c8303b763",
        193000: "000000000000059f452a5f7340de6682a977387c17010ff6e6c3bd83ca8b1317",
        210000: "000000000000048b95347e83192f69cf0366076336c639f9b7228e9ba171342e",
        216116: "00000000000001b4f4b433e81ee46494af945cf96014816a4e2370f11b23df4e",
        225430: "00000000000001c108384350f74090433e7fcf79a606b8e797f065b130575932",
        250000: "000000000000003887df1f29024b06fc2200b55f8af8f35453d7be294df2d214",
        279000: "0000000000000001ae8c72a0b0c301f67e3afca10e819efa9041e458e9bd7e40",
        295000: "00000000000000004d9b4ef50f0f9d686fd69db2e03af35a100370c64632a983",
    },
)

TABLES: Final = (
    BITCOIN_MAINNET,
    _table(
        "mainnet",
        "4b363db94e286120d76eb905340fdd4e54bfe9f06bf33ff6cf5ad27f511bfe95",
        {0: "4d611d5b93fdab69013a7f0a2f961caca0c853f87cfe9595fe50038163079360"},
    ),
    _table(
        "sepolia",
        "d8ea171f3c94aea21ebc42a1ed61052acf3f9209c00e4efbaaddac09ed9b8078",
        {0: "fb9b64fe445f76696407e1e3cc390371edff147bf712db86db6197d4b31ede43"},
    ),
    _table(
        "holesky",
        "9143aa7c615a7f7115e2b6aac319c03529df8242ae705fba9df39b79c59fa8b1",
        {0: "ab09edd9380f8451c3ff5c809821174a36dce606fea8b5ea35ea936915dbf889"},
    ),
    _table(
        "hoodi",
        "212f13fc4df078b6cb7db228f1c8307566dcecf900867401a92023d7ba99cb5f",
        {0: "376450cd7fb9f05ade82a7f88565ac57af449ac696b1a6ac5cc7dac7d467b7d6"},
    ),
)
"""Every network that has entries. Ledger networks join when one publishes its first."""


def get_table(network_id: Bytes32, tables: Sequence[Table] = TABLES) -> Table:
    """The table of a network; an empty one where there is no checkpoint of it."""
    for table in tables:
        if table.network_id == network_id:
            return table
    return Table(network_id.hex(), network_id, {})


def get_newest_position(table: Table, position: int) -> int | None:
    """The position of the newest entry at or before `position`; None before the first."""
    return max((known for known in table.entries if known <= position), default=None)


def get_newest_checkpoint(table: Table, epoch: Epoch) -> Checkpoint | None:
    """The newest entry at or before `epoch`; None before the first."""
    position = get_newest_position(table, epoch)
    return None if position is None else Checkpoint(epoch=position, root=table.entries[position])


def verify_root(table: Table, position: int, root: Root) -> None:
    """Raises InvalidCheckpoint where the table has another root at `position`."""
    entry = table.entries.get(position, root)
    if entry != root:
        raise InvalidCheckpoint(
            f"The branch has {root.hex()} at {position}, where the checkpoint of {table.name} "
            f"in the code is {entry.hex()}.",
            fix="This is another chain: use another source.",
        )


def verify_branch(table: Table, root_at: RootAt) -> int | None:
    """The position of the newest entry that a branch holds; None where it shows none of them.

    Raises InvalidCheckpoint for a conflict: such a branch is not adopted, whatever its weight.
    """
    held = None
    for position in table.entries:
        root = root_at(position)
        if root is not None:
            verify_root(table, position, root)
            held = position
    return held


def look_back(checkpoint: Checkpoint, state: Any, slots_per_epoch: int) -> RootAt:
    """The branch that ends with a checkpoint, by epoch, as far as its block's own state shows it."""

    def root_at(epoch: Epoch) -> Root | None:
        slot, roots = epoch * slots_per_epoch, state.block_roots
        if state.slot <= slot:
            return checkpoint.root if epoch <= checkpoint.epoch else None
        return bytes(roots[slot % len(roots)]) if state.slot <= slot + len(roots) else None

    return root_at


def verify_growth(table: Table, proposed: Checkpoint, root_at: RootAt) -> None:
    """Raises unless a table can have `proposed` as its next entry, on a branch that ends with it.

    InvalidCheckpoint for a branch that conflicts with an entry, Misuse for one that is no later than all.
    """
    verify_branch(table, root_at)
    newest = max(table.entries, default=-1)
    if proposed.epoch <= newest:
        raise Misuse(
            f"The table of {table.name} holds a checkpoint of epoch {newest}, and this is of epoch "
            f"{proposed.epoch}: a table grows at its end.",
            fix="Propose a later one, once it is final.",
        )
