"""A ledger in one file: genesis, encrypted keys, blocks, manifests. All else is made anew from these.

    "anchor backup 1\\n", then records: a letter, a length (eight bytes, little-endian), that many bytes
    "h" the header, "b" each block, ascending, "m" each manifest, "e" SHA-256 of all that came before

The digest tells at once that a file was damaged. Bringing a backup back trusts nothing for it: every block is
judged as a stranger's, by rules, signatures and roots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from os import SEEK_END
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

from anchor.consensus.bls import Bls
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.duties import MAX_TIMESTAMP_SKEW
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.errors import InvalidTransition, MalformedFile, MalformedSSZ
from anchor.files import PRIVATE, new_file, new_folder, open_regular, read_bounded, write_new
from anchor.merkle.container import Container
from anchor.merkle.scope import schema_of
from anchor.merkle.ssz import Schema
from anchor.merkle.text import Text
from anchor.ml.manifest import MAX_MANIFEST_BYTES, decode_manifest, manifest_root
from anchor.node.batches import Made, make_batch
from anchor.node.chain import Chain
from anchor.node.folder import (
    KEYS,
    MAX_NAME_BYTES,
    new_store,
    open_reader,
    require_ledger_name,
    write_description,
)
from anchor.node.keys import MAX_FILE_BYTES, decode_key_file
from anchor.node.places import choose_place, find_store
from anchor.node.postgresql import Url
from anchor.node.records import Batch
from anchor.node.status import Status
from anchor.node.store import Store
from anchor.types import Limit, uint64

MAGIC: Final = b"anchor backup 1\n"
LIMITS: Final = {b"h": 1 << 24, b"b": 1 << 22, b"m": MAX_MANIFEST_BYTES}
"""Bytes of each kind of record that are read."""
END: Final = b"e" + (32).to_bytes(8, "little")
END_BYTES: Final = len(END) + 32
MAX_RESERVED: Final = 1 << 40
"""Epochs that no ledger reaches."""
RUN: Final = 64
"""Blocks that are committed together."""
Progress = Callable[[int], None]


class Header(Container):
    """What a backup starts with."""

    name: Annotated[str, Text(MAX_NAME_BYTES)]
    reserved: uint64
    """The last epoch in which the original may have signed."""
    genesis: Genesis
    keys: Annotated[bytes, Limit(MAX_FILE_BYTES)]
    """The ledger's key file, encrypted as it is."""


# Out


def export_ledger(folder: Path, path: Path) -> int:
    """Writes the ledger in `folder`, as it is at this moment, to `path`. Returns how many bytes that takes.

    Raises Misuse when `path` exists, Unavailable and CorruptedLedger as reading does.
    """
    find_store(folder)
    keys = read_bounded(folder / KEYS, MAX_FILE_BYTES, "a key file")
    with open_reader(folder) as chain, new_file(path, mode=PRIVATE) as file:
        chain.require_whole()
        writer = _Writer(file)
        writer.write_all(chain, keys)
        return file.tell()


class _Writer:
    """Writes records, and the digest of all of them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, sha256()
        self._put(MAGIC)

    def write_all(self, chain: Chain, keys: bytes) -> None:
        header = Header(
            name=chain.name, reserved=chain.get_next_epoch() - 1, genesis=chain.genesis, keys=keys
        )
        self._record(b"h", schema_of(Header).encode(header))
        for block in chain.get_blocks():
            self._record(b"b", chain.scope.encode(block))
        for root in chain.get_manifest_roots():
            self._record(b"m", chain.get_manifest(root))
        self._record(b"e", self._digest.digest())

    def _record(self, kind: bytes, data: bytes) -> None:
        self._put(kind + len(data).to_bytes(8, "little"))
        self._put(data)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)


# Back in


def import_ledger(
    path: Path,
    folder: Path,
    *,
    take_over: bool,
    now: int,
    progress: Progress = lambda _: None,
    url: Url | None = None,
) -> Status:
    """Brings the ledger in the backup `path` back, in `folder`, to sign again only if it is to `take_over`.

    Its store is a file there, or in the database at `url`. Raises Misuse when `folder` holds anything,
    MalformedFile for what is no whole backup, Invalid for blocks that break a rule. Then there is no folder.
    """
    with open_regular(path) as file, new_folder(folder) as staged:
        records = _read_records(file, path, progress)
        header, ledger = _read_header(records, path)
        state = ledger.initialize_ledger_state(header.genesis)
        write_new(staged / KEYS, header.keys, mode=PRIVATE)
        place, name = choose_place(staged, url), header.name
        with new_store(
            place, name, header.genesis, ledger, state, reserved=header.reserved, may_sign=take_over
        ) as store:
            _Reader(store, ledger, state, path, now).read_all(records)
            chain = Chain(store)
            chain.verify_hardcoded()
            write_description(staged, chain)
            return chain.get_status()


def _read_header(records: Iterator[tuple[bytes, bytes]], path: Path) -> tuple[Header, Ledger]:
    kind, data = next(records, (b"", b""))
    if kind != b"h":
        raise _broken(path, "does not start with a header")
    header: Header = _decode(schema_of(Header), data, path)
    keys = decode_key_file(header.keys, f"The key file in {path}")
    require_ledger_name(header.name)
    if keys.kind != "committee" or header.reserved >= MAX_RESERVED:
        raise _broken(path, "has a header that no ledger has")
    return header, Ledger(LEDGER, compute_config(header.genesis), Bls())


class _Reader:
    """Judges blocks and manifests, and fills a store with them."""

    def __init__(self, store: Store, ledger: Ledger, state: Any, path: Path, now: int) -> None:
        self._store, self._ledger, self._state = store, ledger, state
        self._path, self._now = path, now
        self._run: list[Made] = []
        self._missing: set[bytes] | None = None

    def read_all(self, records: Iterator[tuple[bytes, bytes]]) -> None:
        for kind, data in records:
            if kind == b"b" and self._missing is None:
                self._take_block(data)
            elif kind == b"m":
                self._take_manifest(data)
            else:
                raise _broken(self._path, f"has a record {kind!r} where none can stand")
        if self._ledger.get_current_epoch(self._state) > self._store.get_reserved():
            raise _broken(self._path, "has blocks of an epoch in which it says that nothing was signed")
        if self._get_missing():
            raise _broken(self._path, f"lacks {len(self._get_missing())} manifests that its blocks publish")

    def _take_block(self, data: bytes) -> None:
        block: SignedBeaconBlock = _decode(self._ledger.scope.schema(SignedBeaconBlock), data, self._path)
        timestamp = block.message.body.timestamp  # type: ignore[attr-defined]
        if timestamp > self._now + MAX_TIMESTAMP_SKEW:
            raise InvalidTransition(
                f"The block of slot {block.message.slot} was made {timestamp - self._now} seconds from now.",
                fix="Set this machine's clock, if it is behind.",
            )
        self._state = self._ledger.state_transition(self._state, block)
        self._run.append(Made(self._ledger.hash_tree_root(block.message), block, self._state))
        if len(self._run) == RUN:
            self._commit_run()

    def _commit_run(self) -> None:
        if self._run:
            kept = self._store.get_newest_kept_slot()
            self._store.commit(make_batch(self._ledger, self._run, None, kept))
            self._run = []

    def _get_missing(self) -> set[bytes]:
        """Roots of the published manifests that have not come yet. No block comes after this."""
        if self._missing is None:
            self._commit_run()
            self._missing = {version.manifest_root for version in self._state.versions}
        return self._missing

    def _take_manifest(self, data: bytes) -> None:
        try:
            root = manifest_root(decode_manifest(data))
        except MalformedSSZ as error:
            raise _broken(self._path, f"holds a manifest that cannot be read ({error.what})") from None
        if root not in self._get_missing():
            raise _broken(self._path, f"holds manifest 0x{root.hex()}, which no block publishes")
        self._get_missing().discard(root)
        self._store.commit(Batch(manifests=((root, data),)))


def _require_whole(file: BinaryIO, path: Path) -> int:
    """Where the records end. Raises MalformedFile unless the file is as it was written."""
    end = left = file.seek(0, SEEK_END) - END_BYTES
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC or left < len(MAGIC):
        raise _broken(path, "does not start as one")
    digest, left = sha256(MAGIC), left - len(MAGIC)
    while left and (part := file.read(min(left, 1 << 20))):
        digest.update(part)
        left -= len(part)
    if file.read() != END + digest.digest():
        raise _broken(path, "is not as it was written")
    return end


def _read_records(file: BinaryIO, path: Path, progress: Progress) -> Iterator[tuple[bytes, bytes]]:
    """Kind and contents of each record, in a file that is whole."""
    end = _require_whole(file, path)
    place = file.seek(len(MAGIC))
    while place < end:
        head = file.read(9)
        kind, length = head[:1], int.from_bytes(head[1:], "little")
        place += 9 + length
        if length > LIMITS.get(kind, 0) or place > end:
            raise _broken(path, f"has a record {kind!r} of {length} bytes")
        yield kind, file.read(length)
        progress(9 + length)


def _decode(schema: Schema[Any], data: bytes, path: Path) -> Any:
    try:
        return schema.decode(data)
    except MalformedSSZ as error:
        raise _broken(path, f"holds what cannot be read ({error.what})") from None


def _broken(path: Path, how: str) -> MalformedFile:
    fix = "Take another copy of it, or an older backup."
    return MalformedFile(f"{path} is no whole backup: it {how}.", cause="backup", fix=fix)
