"""A ledger in one file (`backup_file`), there and back. All that is not in it is made anew from what is.

Of one operator's ledger that is genesis, encrypted keys, blocks and manifests. Of a network's node it is
genesis, blocks, manifests, and the entries that wait to be recorded: no keys, which have keystores and a
record of their own, and no identity: the node draws another one.

Bringing a backup back trusts nothing for it: every block is judged as a stranger's, by rules, signatures and
roots, from the genesis on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from anchor.consensus.bls import Bls
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.errors import Invalid, Misuse
from anchor.files import PRIVATE, new_file, new_folder, open_regular, read_bounded, write_new
from anchor.merkle.container import Container
from anchor.merkle.scope import hash_tree_root, schema_of
from anchor.merkle.text import Text
from anchor.node import backup_file
from anchor.node.backup_file import Progress, Record, Writer, broken, decode_record, read_records
from anchor.node.chain import Chain
from anchor.node.folder import (
    KEYS,
    MAX_NAME_BYTES,
    NETWORK,
    new_store,
    require_ledger_name,
    write_description,
)
from anchor.node.founding import read_description
from anchor.node.keys import MAX_FILE_BYTES, decode_key_file
from anchor.node.network.entries import MAX_PENDING
from anchor.node.places import Place, choose_place, find_store
from anchor.node.postgresql import Url
from anchor.node.records import Batch
from anchor.node.replaying import Replay
from anchor.node.status import Status
from anchor.node.store import Store
from anchor.params import LOGICAL_CLOCK, WALL_CLOCK
from anchor.types import Limit, uint64

MAX_RESERVED: Final = 1 << 40
"""Epochs that no ledger reaches."""


class Header(Container):
    """What the backup of one operator's ledger starts with."""

    name: Annotated[str, Text(MAX_NAME_BYTES)]
    reserved: uint64
    """The last epoch in which the original may have signed."""
    genesis: Genesis
    keys: Annotated[bytes, Limit(MAX_FILE_BYTES)]
    """The ledger's key file, encrypted as it is."""


class NetworkHeader(Container):
    """What the backup of a network's node starts with."""

    name: Annotated[str, Text(MAX_NAME_BYTES)]
    operators: uint64
    """How many the network has, as its genesis file says; 0 where that is not known."""
    genesis: Genesis


# Out


class Exported(NamedTuple):
    """What was written."""

    size: int
    """Bytes."""
    has_keys: bool


def export_ledger(folder: Path, path: Path) -> Exported:
    """Writes the ledger in `folder`, as it is at this moment, to `path`.

    Raises Misuse when `path` exists, NoSuchRecord for a ledger that does not keep all of its blocks,
    Unavailable and CorruptedLedger as reading does.
    """
    with (
        closing(Store.open(find_store(folder), writable=False)) as store,
        store.one_view(),
        new_file(path, mode=PRIVATE) as file,
    ):
        writer, chain = Writer(file), Chain(store)
        chain.require_whole()
        is_networked = chain.genesis.clock == WALL_CLOCK
        if is_networked:
            _write_network(writer, folder, chain, store.get_pending_entries())
        else:
            _write_ledger(writer, folder, chain)
        writer.finish()
        return Exported(file.tell(), has_keys=not is_networked)


def _write_ledger(writer: Writer, folder: Path, chain: Chain) -> None:
    keys = read_bounded(folder / KEYS, MAX_FILE_BYTES, "a key file")
    reserved = chain.get_next_epoch() - 1
    header = Header(name=chain.name, reserved=reserved, genesis=chain.genesis, keys=keys)
    writer.write(backup_file.HEADER, schema_of(Header).encode(header))
    _write_chain(writer, chain)


def _write_network(writer: Writer, folder: Path, chain: Chain, pending: list[tuple[bytes, bytes]]) -> None:
    operators = read_description(folder / NETWORK).operators or 0
    header = NetworkHeader(name=chain.name, operators=operators, genesis=chain.genesis)
    writer.write(backup_file.NETWORK, schema_of(NetworkHeader).encode(header))
    _write_chain(writer, chain)
    for _, data in pending:
        writer.write(backup_file.PENDING, data)


def _write_chain(writer: Writer, chain: Chain) -> None:
    """Its blocks, and those manifests that its newest state names."""
    for block in chain.get_blocks():
        writer.write(backup_file.BLOCK, chain.scope.encode(block))
    named = {version.manifest_root for version in chain.get_head().state.versions}
    for root in chain.get_manifest_roots():
        if root in named:
            writer.write(backup_file.MANIFEST, chain.get_manifest(root))


# Back in


class Backup(NamedTuple):
    """A backup that is being read."""

    path: Path
    header: Header | NetworkHeader
    ledger: Ledger
    state: Any
    """The first BeaconState of the ledger."""
    records: Iterator[Record]
    """What comes after the header."""


def import_ledger(
    path: Path,
    folder: Path,
    *,
    take_over: bool,
    now: int,
    progress: Progress = lambda _: None,
    url: Url | None = None,
) -> Status:
    """Brings the ledger in the backup `path` back, in `folder`.

    One operator's signs again only if it is to `take_over`; nothing in a network's does. Its store is a file
    there, or in the database at `url`. Raises Misuse when `folder` holds anything, MalformedFile for what is
    no whole backup, Invalid for blocks that break a rule. Then there is no folder.
    """
    with new_folder(folder) as staged, open_backup(path, progress) as backup:
        header, operators = backup.header, None
        if isinstance(header, Header):
            write_new(staged / KEYS, header.keys, mode=PRIVATE)
        elif take_over:
            raise Misuse(
                f"{path} is of a network's node: there is nothing in it that signs.",
                fix="Leave out --take-over. Keys sign where their keystores are: anchor node --keystores DIR",
            )
        else:
            operators = int(header.operators) or None
        may_sign = take_over or isinstance(header, NetworkHeader)
        with filled_store(choose_place(staged, url), backup, now, may_sign=may_sign) as store:
            chain = Chain(store)
            write_description(staged, chain, operators=operators)
            return chain.get_status()


@contextmanager
def open_backup(path: Path, progress: Progress) -> Iterator[Backup]:
    """The backup at `path`, its header read and its genesis verified. Raises as `import_ledger`."""
    with open_regular(path) as file:
        records = read_records(file, path, progress)
        kind, data = next(records, (b"", b""))
        readers = {backup_file.HEADER: _read_header, backup_file.NETWORK: _read_network_header}
        if kind not in readers:
            raise broken(path, "does not start with a header")
        header = readers[kind](data, path)
        require_ledger_name(header.name)
        ledger = Ledger(LEDGER, compute_config(header.genesis), Bls())
        yield Backup(path, header, ledger, ledger.initialize_ledger_state(header.genesis), records)


def _read_header(data: bytes, path: Path) -> Header | NetworkHeader:
    header: Header = decode_record(schema_of(Header), data, path)
    keys = decode_key_file(header.keys, f"The key file in {path}")
    is_one = header.genesis.clock == LOGICAL_CLOCK and keys.kind == "committee"
    if not is_one or header.reserved >= MAX_RESERVED:
        raise broken(path, "has a header that no ledger has")
    return header


def _read_network_header(data: bytes, path: Path) -> Header | NetworkHeader:
    header: NetworkHeader = decode_record(schema_of(NetworkHeader), data, path)
    if header.genesis.clock != WALL_CLOCK or header.operators > len(header.genesis.deposits):
        raise broken(path, "has a header that no network has")
    return header


@contextmanager
def filled_store(place: Place, backup: Backup, now: int, *, may_sign: bool) -> Iterator[Store]:
    """A new store at `place` with all that a backup holds; gone when that, or the body, fails."""
    header, ledger, state = backup.header, backup.ledger, backup.state
    reserved = int(header.reserved) if isinstance(header, Header) else 0
    first = (header.genesis, ledger, state)
    with new_store(place, header.name, *first, reserved=reserved, may_sign=may_sign) as store:
        replay = Replay(store, ledger, state, backup.path, now)
        if isinstance(header, Header):
            _read_ledger(replay, backup, reserved)
        else:
            _read_network(replay, backup, store)
        Chain(store).verify_hardcoded()
        yield store


def _read_ledger(replay: Replay, backup: Backup, reserved: int) -> None:
    for kind, data in backup.records:
        if not replay.take(kind, data):
            raise broken(backup.path, f"has a record {kind!r} where none can stand")
    replay.finish()
    if backup.ledger.get_current_epoch(replay.state) > reserved:
        raise broken(backup.path, "has blocks of an epoch in which it says that nothing was signed")
    if replay.missing:
        raise broken(backup.path, f"lacks {len(replay.missing)} manifests that its blocks publish")


def _read_network(replay: Replay, backup: Backup, store: Store) -> None:
    """Manifests that are missing come from peers. What is final is what the chain's own votes make so."""
    pending: list[SignedEntry] = []
    for kind, data in backup.records:
        if kind == backup_file.PENDING and len(pending) < MAX_PENDING:
            pending.append(decode_record(schema_of(SignedEntry), data, backup.path))
        elif pending or not replay.take(kind, data):
            raise broken(backup.path, f"has a record {kind!r} where none can stand")
    replay.finish()
    final = store.find_block(replay.state.finalized_checkpoint.root)
    if final is not None:
        store.commit(Batch(final=final.slot))
    waiting = _sift(backup.ledger, Chain(store), pending)
    encode = schema_of(SignedEntry).encode
    store.commit(Batch(pending=tuple([(hash_tree_root(entry), encode(entry)) for entry in waiting])))


def _sift(ledger: Ledger, chain: Chain, pending: list[SignedEntry]) -> list[SignedEntry]:
    """The entries that can still come, upon the newest block or the final one: peers refuse the rest."""
    able: set[int] = set()
    for root in (chain.get_head().root, chain.get_finalized_checkpoint().root):
        ahead = chain.get_state(root).copy()
        for number, entry in enumerate(pending):
            with suppress(Invalid):
                ledger.process_entry(ahead, entry)
                able.add(number)
    return [entry for number, entry in enumerate(pending) if number in able]
