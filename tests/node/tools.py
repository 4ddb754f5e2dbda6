"""What the node's tests share: a cheap ledger in a folder, a publisher, and manifests of nothing much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from anchor.consensus.containers.entries import Publish, SignedEntry
from anchor.merkle.scope import schema_of
from anchor.ml.lineage import Lineage
from anchor.ml.manifest import (
    MANIFEST_VERSION,
    File,
    Manifest,
    Tensor,
    chunk_count,
    decode_manifest,
    encode_manifest,
    manifest_root,
)
from anchor.ml.paths import IGNORED
from anchor.node import keys
from anchor.node.chain import Chain
from anchor.node.clock import Clock, ManualClock
from anchor.node.folder import create_ledger, open_writer, unlock_seed
from anchor.node.keys import derive_administrator_key, derive_root_key, derive_signing_keys
from anchor.node.places import connect, find_store
from anchor.node.postgresql import Url
from anchor.node.publishing import Author, write_publication
from anchor.node.service import Service

NOW = 1_800_000_000
PHRASE = "correct horse"
ROOT = derive_root_key(b"root".ljust(32, b"\0"))
ALICE = Author(
    identity=ROOT.public.public_key,
    signing=derive_signing_keys(b"alice".ljust(32, b"\0"), (1,)),
    root=ROOT,
)


class Random:
    """Bytes that differ from call to call, and are the same in every run."""

    def __init__(self, seed: bytes = b"random") -> None:
        self._seed, self._calls = seed, 0

    def __call__(self, count: int) -> bytes:
        self._calls += 1
        return sha256(self._seed + self._calls.to_bytes(8, "little")).digest()[:count]


def make_ledger(folder: Path, clock: Clock | None = None, url: Url | None = None) -> bytes:
    """A new ledger in `folder`, the same in every run unless there is a clock; returns its seed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "SCRYPT_N", 1 << 4)
        clock = clock or ManualClock(NOW)
        create_ledger(folder, "lab", PHRASE, clock=clock, randomness=Random(), url=url)
    return unlock_seed(folder, PHRASE)


def make_original(folder: Path) -> None:
    """Makes a copied ledger forget that it is a copy."""
    with closing(connect(find_store(folder), writable=True)) as store, store.transaction():
        store.run("UPDATE ledger SET home = ?", store.home)


@contextmanager
def opened(folder: Path, seed: bytes, clock: Clock | None = None) -> Iterator[Service]:
    """The ledger's service; nobody else may hold the folder."""
    with open_writer(folder, seed, clock or ManualClock(NOW), on_wait=pytest.fail, patience=0) as service:
        yield service


def make_manifest(name: str) -> tuple[bytes, bytes]:
    """Root and encoding of a valid manifest that differs from every other name's."""
    file = File(
        path="note.txt",
        format="",
        size=len(name),
        extents=(),
        unplaced=(),
        notes_root=bytes(32),
        skeleton=sha256(name.encode()).digest(),
    )
    manifest = Manifest(
        version=MANIFEST_VERSION,
        weights=(),
        aliases=(),
        files=(file,),
        ignored=IGNORED,
        lineage=schema_of(Lineage).default(),
    )
    return manifest_root(manifest), encode_manifest(manifest)


def make_publication(version: str) -> Publish:
    """acme/tiny@version."""
    root = make_manifest(version)[0]
    return Publish(model=b"acme/tiny", version=version.encode(), manifest_root=root)


def write(chain: Chain, seed: bytes, version: str, author: Author = ALICE) -> list[SignedEntry]:
    """The entries that publish acme/tiny@version."""
    return write_publication(chain, author, derive_administrator_key(seed), make_publication(version))


def publish(service: Service, version: str) -> None:
    """Publishes acme/tiny@version."""
    service.publish(ALICE, make_publication(version), make_manifest(version)[1])


def published(chain: Chain) -> list[str]:
    """The versions that the newest state knows."""
    return [version.version.decode() for version in chain.get_head().state.versions]


def make_weighty_manifest(chunks: int = 3) -> tuple[bytes, bytes]:
    """Root and encoding of a manifest with three tensors, of 1, `chunks` and 0 chunks."""
    tensors = tuple(
        [
            Tensor(
                component="",
                name=f"layers.{index}",
                dtype="U8",
                shape=(length,),
                length=length,
                chunks=b"".join([sha256(b"%d %d" % (index, k)).digest() for k in range(chunk_count(length))]),
            )
            for index, length in enumerate((5, ((chunks - 1) << 20) + 1, 0))
        ]
    )
    manifest = decode_manifest(make_manifest("weighty")[1]).replace(weights=tensors)
    return manifest_root(manifest), encode_manifest(manifest)
