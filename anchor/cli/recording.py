"""Where entries go: the ledger in a folder, written to by this process, or one that a node serves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from anchor.bundle.build import build_bundle
from anchor.bundle.evidence import Expectations
from anchor.bundle.verify import verify_bundle
from anchor.cli.ledgers import Watch
from anchor.cli.output import Terminal, printable
from anchor.consensus.containers.entries import Publish, SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.schemes import SigningKey
from anchor.errors import Invalid, Malformed, Unavailable
from anchor.node.chain import State
from anchor.node.clock import SystemClock
from anchor.node.folder import open_reader, open_writer
from anchor.node.keys import derive_administrator_key
from anchor.node.publishing import Author, Standing, find_pending, write_publication
from anchor.node.remote import Remote

Write = Callable[[Standing], Sequence[SignedEntry]]
"""What somebody has to say to a ledger as it stands."""


class Said(NamedTuple):
    """Entries that are final, and how the ledger stands with them."""

    entries: Sequence[SignedEntry]
    positions: tuple[int, ...]
    """Of the entries in the ledger's list."""
    final: Checkpoint
    """Its state holds the entries."""
    trusted: Checkpoint
    """What a bundle can be made for."""
    state: State


class Published(NamedTuple):
    """A publication that is final."""

    final: Checkpoint
    """Its state holds the publication."""
    trusted: Checkpoint
    """What the bundle is for."""
    bundle: bytes


class Recorder(Protocol):
    """A ledger that entries can be given to. All of it raises as `Service.record` or `Remote.record` do."""

    @property
    def administrator(self) -> SigningKey | None:
        """The key that registers publishers, where it is at hand."""

    def look(self) -> AbstractContextManager[Standing]:
        """The ledger as it is now."""

    def get_trusted(self) -> Checkpoint:
        """What bundles are made for."""

    def record(self, write: Write) -> Said:
        """Records what `write` has to say, and waits until it is final."""

    def publish(self, author: Author, publication: Publish, manifest: bytes) -> Published:
        """Records a publication, with all that it needs, and its manifest's encoding."""


class InFolder:
    """An embedded ledger, with its committee's seed."""

    def __init__(self, folder: Path, seed: bytes, terminal: Terminal) -> None:
        self._folder, self._seed, self._terminal = folder, seed, terminal
        self.administrator = derive_administrator_key(seed)

    @contextmanager
    def look(self) -> Iterator[Standing]:
        """As it is now: what another process commits meanwhile is not seen."""
        with open_reader(self._folder) as chain:
            yield chain

    def get_trusted(self) -> Checkpoint:
        """The first checkpoint, which any later one follows."""
        with open_reader(self._folder) as chain:
            return chain.get_checkpoint(0)

    def record(self, write: Write) -> Said:
        """Records what `write` has to say, and waits until it is final."""
        watch, chatter = Watch(self._terminal), self._terminal.note
        with open_writer(self._folder, self._seed, SystemClock(), on_wait=chatter) as service:
            service.finish(watch)
            entries = write(service.chain)
            recorded = service.record(entries, watch=Watch(self._terminal))
            trusted, state = service.chain.get_checkpoint(0), service.chain.get_head().state
            return Said(entries, recorded.positions, recorded.checkpoint, trusted, state)

    def publish(self, author: Author, publication: Publish, manifest: bytes) -> Published:
        """Records a publication, with all that it needs, and its manifest's encoding."""
        chatter = self._terminal.note
        with open_writer(self._folder, self._seed, SystemClock(), on_wait=chatter) as service:
            recorded = service.publish(author, publication, manifest, Watch(self._terminal))
            trusted = service.chain.get_checkpoint(0)
            name, version = publication.model.decode(), publication.version.decode()
            bundle = build_bundle(service.chain, name, version, trusted)
        return Published(recorded.checkpoint, trusted, bundle)


class AtNode:
    """A ledger that a node serves; others keep it too."""

    administrator = None

    def __init__(self, remote: Remote, terminal: Terminal) -> None:
        self.remote, self._terminal = remote, terminal

    @contextmanager
    def look(self) -> Iterator[Standing]:
        """As it is now, says the node."""
        yield self.remote.look()

    def get_trusted(self) -> Checkpoint:
        """The user's own."""
        return self.remote.trusted

    def record(self, write: Write) -> Said:
        """Records what `write` has to say, and waits until it is final. Refuses what the ledger would."""
        seen = self.remote.look()
        entries = write(seen)
        seen.verify_entries(entries)
        count = "1 entry is" if len(entries) == 1 else f"{len(entries)} entries are"
        self._terminal.note(f"Waiting until {count} final.")
        recorded = self.remote.record(entries, self._terminal.note)
        self._terminal.note(f"That it is final is the word of {printable(self.remote.url)}.")
        state = self.remote.look().state
        positions = tuple([position for position, _ in recorded])
        return Said(entries, positions, recorded[-1][1], self.remote.trusted, state)

    def publish(self, author: Author, publication: Publish, manifest: bytes) -> Published:
        """Records a publication; its bundle is the node's, and verified here."""
        seen = self.remote.look()
        pending = find_pending(seen, publication)
        with self.remote.bringing_manifest(publication.manifest_root, manifest):
            if pending is not None and pending.manifest_root == publication.manifest_root:
                final = self.remote.finish(pending.entry, self._terminal.note)
            else:
                final = self.record(lambda now: write_publication(now, author, None, publication)).final
        name, version = publication.model.decode(), publication.version.decode()
        return Published(final, self.remote.trusted, self._fetch_bundle(name, version, author.identity))

    def _fetch_bundle(self, name: str, version: str, publisher: bytes) -> bytes:
        """Raises Unavailable, and says that the publication stands, where the node gives no proof."""
        remote = self.remote
        expected = Expectations(
            model=name, version=version, publisher=publisher, network_id=remote.network_id
        )
        try:
            bundle = remote.fetch_bundle(name, version)
            verify_bundle(bundle, remote.trusted, expected, now=int(time.time()))
        except (Invalid, Malformed, Unavailable) as error:
            raise Unavailable(
                f"{name}@{version} is published, but its bundle is not written: {error.what}",
                fix=f"Fetch it later: anchor verify PATH --model {name}@{version} --url {remote.url}",
            ) from None
        return bundle
