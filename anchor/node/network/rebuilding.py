"""A network's store that was lost or damaged, made anew in its folder: from what any node gives, or a backup.

What a node gives over HTTP begins at a final checkpoint, as a new node's folder does (`joining`), and older
blocks come from peers once the node runs; a backup has them all. Keys, what they have signed, and the node's
identity are not touched. The old store is set aside, never deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.presets import LEDGER
from anchor.errors import Misuse, Unavailable, WrongNetwork
from anchor.files import PRIVATE, sync_folder, told_plainly, write_over
from anchor.lock import hold_folder
from anchor.node import backup
from anchor.node.backup_file import Progress
from anchor.node.chain import Chain
from anchor.node.folder import KEYS, NETWORK
from anchor.node.founding import read_description
from anchor.node.network.joining import fetch_network, filled_store
from anchor.node.places import FILE, POINTER, Place, find_store
from anchor.node.postgresql import Url
from anchor.node.store import Store

DAMAGED: Final = "ledger.sqlite.damaged"
NEW: Final = "ledger.sqlite.new"
PARTS: Final = ("", "-wal", "-shm")
"""Of a SQLite store: the file, and what was not written into it yet."""
Fill = Callable[[Place], AbstractContextManager[Store]]
"""Makes a new store at a place, and lets it go again."""


class Rebuilt(NamedTuple):
    """What a store was made anew from."""

    trusted: Checkpoint
    """Where it begins; of a backup, the newest checkpoint that is final in it."""
    aside: str
    """Where the old store is now."""


async def rebuild_store(
    folder: Path, url: str, trusted: Checkpoint | None, now: float, new: Url | None
) -> Rebuilt:
    """Makes the store of the network's node in `folder` anew, from what the node at `url` gives.

    It begins at `trusted`, else at the newest final checkpoint that the old store still tells of; a store in
    a database is made anew in another one, `new`. Raises Misuse for a ledger of one operator, and where
    nothing tells of a checkpoint; Unavailable while a node runs in `folder`; as `join_network` for the rest.
    Then nothing has changed.
    """
    network_id = _get_network_id(folder)
    with hold_folder(folder, patience=0, on_wait=lambda _: None):
        found = trusted or find_own_checkpoint(folder)
        if found is None:
            raise Misuse(
                f"The store in {folder} no longer tells which checkpoint was final.",
                fix="Give one that you trust: --trust ROOT:EPOCH",
            )
        fetched = await fetch_network(url, found, network_id, now)
        return Rebuilt(found, _replace(folder, partial(filled_store, fetched=fetched), new))


def rebuild_from_backup(
    folder: Path, path: Path, now: int, new: Url | None, progress: Progress = lambda _: None
) -> Rebuilt:
    """As `rebuild_store`, from the backup of a node of the same network at `path`, judged block by block.

    Raises as `rebuild_store` does, MalformedFile for what is no whole backup, Invalid for blocks that break a
    rule. Then nothing has changed.
    """
    network_id = _get_network_id(folder)
    with (
        hold_folder(folder, patience=0, on_wait=lambda _: None),
        backup.open_backup(path, progress) as opened,
    ):
        if opened.state.genesis_validators_root != network_id:
            raise WrongNetwork(
                f"{path} is of another network than the node in {folder}.", fix="Take one of this network."
            )
        aside = _replace(folder, partial(backup.filled_store, backup=opened, now=now, may_sign=True), new)
        final = find_own_checkpoint(folder)
        if final is None:
            raise Unavailable(f"The new store in {folder} cannot be read.", fix="See: anchor db check")
        return Rebuilt(final, aside)


def _get_network_id(folder: Path) -> bytes:
    """Of the network whose node `folder` holds. Raises Misuse for a ledger of one operator."""
    if (folder / KEYS).exists():
        raise Misuse(
            f"{folder} holds a ledger of one operator: nobody else has its history.",
            fix="Bring it back from its backup, with: anchor import FILE NEW-FOLDER",
        )
    return read_description(folder / NETWORK).network_id


def find_own_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest final checkpoint that the store in `folder` tells of, held to its root; None for none."""
    try:
        with closing(Store.open(find_store(folder), writable=False)) as store:
            slot = store.get_final_slot()
            stored = store.find_block_before(slot)
            if stored is None or stored.slot != slot:
                return Checkpoint(epoch=0, root=store.get_genesis_root()) if slot == 0 else None
            root = Chain(store).ledger.hash_tree_root(Chain(store).decode_block(stored).message)
            return Checkpoint(epoch=-(-slot // LEDGER.SLOTS_PER_EPOCH), root=root)
    except Unavailable:  # a damaged one, or none at all
        return None


def _replace(folder: Path, fill: Fill, new: Url | None) -> str:
    """Puts a new store in the place of the old one; returns where that is now."""
    return _replace_file(folder, fill) if new is None else _replace_database(folder, fill, new)


def _replace_file(folder: Path, fill: Fill) -> str:
    """Puts a new file in the place of the old one, which is set aside."""
    if (folder / POINTER).exists():
        raise Misuse(
            f"The store of {folder} is in a database.", fix="Name another one for the new store: --store URL"
        )
    aside = folder / DAMAGED
    with told_plainly(folder):
        if aside.exists():
            raise Misuse(f"{aside} is there already.", fix="Move it away, or delete it.")
        for part in PARTS:
            (folder / f"{NEW}{part}").unlink(missing_ok=True)  # of a rebuilding that was interrupted
    with fill(folder / NEW):
        pass
    with told_plainly(folder):
        if (folder / FILE).exists():
            os.link(folder / FILE, aside)
        for part in PARTS[1:]:  # before the new file comes: they are not its own
            if (folder / f"{FILE}{part}").exists():
                (folder / f"{FILE}{part}").rename(f"{aside}{part}")
        (folder / NEW).replace(folder / FILE)
        sync_folder(folder)
    return str(aside)


def _replace_database(folder: Path, fill: Fill, new: Url) -> str:
    """Points the folder at another database; the old one stays as it is."""
    if not (folder / POINTER).exists():
        raise Misuse(f"The store of {folder} is a file.", fix="Leave out --store.")
    old = str(find_store(folder))
    with fill(new):
        pass
    write_over(folder / POINTER, new.text.encode() + b"\n", mode=PRIVATE)
    return old
