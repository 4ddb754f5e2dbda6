"""A ledger's chain as the makers of bundles see it, kept in memory: every block, every state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from anchor.bundle.build import build_bundle
from anchor.bundle.evidence import Evidence, Expectations
from anchor.bundle.types import MAX_VALIDATORS, Bundle, decode_bundle, encode_bundle
from anchor.bundle.verify import verify_bundle
from anchor.consensus.bls import NoSignatures
from anchor.consensus.containers.entries import (
    Admission,
    ClaimOrganisation,
    Promote,
    Publish,
    RevokeKeys,
    RevokeVersion,
    SignedEntry,
)
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import (
    BeaconBlockHeader,
    Checkpoint,
    IndexedAttestation,
    SignedBeaconBlock,
)
from anchor.consensus.duties import compute_admission, compute_deposit
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.hardcoded import TABLES, Table
from anchor.errors import Unavailable
from anchor.ml.manifest import Manifest, encode_manifest, manifest_root
from anchor.params import STAGE_DEVELOPMENT, STAGE_STAGING
from tests.consensus.ledgers import (
    ADMINISTRATOR,
    ALICE,
    BLS,
    BOB,
    BOB_ROOT,
    ROOT,
    Chain,
    SigningKey,
    identity,
    make_genesis,
    make_key,
    make_keyring,
    make_secret_key,
)


def make_table(network_id: bytes, *checkpoints: Checkpoint) -> tuple[Table, ...]:
    """The tables of a program that carries these checkpoints of one network."""
    return (Table("tested", network_id, {checkpoint.epoch: checkpoint.root for checkpoint in checkpoints}),)


class ViewedChain(Chain):
    """A `LedgerView`. Its blocks are signed, and not checked once more as they are made."""

    def __init__(self, genesis: Genesis) -> None:
        super().__init__(genesis)
        self.ledger = Ledger(self.ledger.preset, self.ledger.config, NoSignatures())
        self.states: dict[bytes, Any] = {}
        self.headers: dict[bytes, BeaconBlockHeader] = {}
        self.manifests: dict[bytes, bytes] = {}
        self.entries: list[SignedEntry] = []
        self._keep()

    def add_block(self, *entries: SignedEntry, timestamp: int | None = None) -> None:
        super().add_block(*entries, timestamp=timestamp)
        self.entries.extend(entries)
        self._keep()

    def add_epochs(self, count: int) -> None:
        """Blocks up to the first slot of an epoch, `count` epochs on."""
        goal = (self.state.slot // 8 + count) * 8
        while self.state.slot < goal:
            self.add_block()

    def add_manifest(self, manifest: Manifest) -> bytes:
        root = manifest_root(manifest)
        self.manifests[root] = encode_manifest(manifest)
        return root

    def _keep(self) -> None:
        header = self.state.latest_block_header
        header = header.replace(state_root=self.ledger.hash_tree_root(self.state))
        root = self.ledger.hash_tree_root(header)
        self.headers[root], self.states[root] = header, self.state

    def get_finalized_checkpoint(self) -> Checkpoint:
        checkpoint: Checkpoint = self.state.finalized_checkpoint
        return checkpoint if checkpoint.epoch else self.get_checkpoint(0)

    def get_checkpoint(self, epoch: int) -> Checkpoint:
        header = max((h for h in self.headers.values() if h.slot <= 8 * epoch), key=lambda h: h.slot)
        return Checkpoint(epoch=epoch, root=self.ledger.hash_tree_root(header))

    def get_header(self, root: bytes) -> BeaconBlockHeader:
        if root not in self.headers:
            raise Unavailable("There is no such block.")
        return self.headers[root]

    def get_state(self, root: bytes) -> Any:
        return self.states[root]

    def get_attestations(self, epoch: int) -> Sequence[IndexedAttestation]:
        return [
            self.ledger.get_indexed_attestation(self.state, vote)
            for block in self.blocks
            for vote in block.message.body.attestations
            if vote.data.target.epoch == epoch
        ]

    def get_blocks_between(self, start: int, stop: int) -> Sequence[SignedBeaconBlock]:
        return [block for block in self.blocks if start <= block.message.slot < stop]

    def get_signed_entry(self, position: int) -> SignedEntry:
        return self.entries[position]

    def get_manifest(self, root: bytes) -> bytes:
        return self.manifests[root]

    def enrol(self, root: SigningKey, keys: Sequence[SigningKey], organisation: str) -> None:
        """A block with a new publisher, its keys and its organisation."""
        claim = self.make_entry(keys, root, ClaimOrganisation(name=organisation.encode()))
        self.add_block(*self.make_registration(root, keys), claim)

    def publish(
        self, root: SigningKey, keys: Sequence[SigningKey], model: str, version: str, manifest: Manifest
    ) -> None:
        """A block with a publication."""
        said = Publish(
            model=model.encode(), version=version.encode(), manifest_root=self.add_manifest(manifest)
        )
        self.add_block(self.make_entry(keys, root, said))


@dataclass
class Published:
    """A chain with publications, and bundles of the first one."""

    chain: ViewedChain
    manifest: Manifest
    other: Manifest

    @property
    def now(self) -> int:
        """A minute after the newest block."""
        return int(self.chain.state.timestamp) + 60

    @cached_property
    def genesis(self) -> Checkpoint:
        """The oldest trust: before all publications."""
        return self.chain.get_checkpoint(0)

    @cached_property
    def newest(self) -> Checkpoint:
        """The newest trust."""
        return self.chain.get_finalized_checkpoint()

    @cached_property
    def older(self) -> bytes:
        """A bundle for a trust older than the publication: with a hop."""
        return self.bundle("acme/tiny", "1.0")

    def bundle(
        self, model: str, version: str, trusted: Checkpoint | None = None, tables: Sequence[Table] = TABLES
    ) -> bytes:
        """A bundle of one of the publications, for the genesis unless told otherwise."""
        return build_bundle(self.chain, model, version, trusted or self.genesis, tables=tables)

    def bundle_as_of(self, epoch: int, trusted: Checkpoint) -> bytes:
        """What the bundle for `trusted` was while `epoch` had the newest final checkpoint."""
        earlier = copy(self.chain)
        earlier.state = self.chain.state.copy()
        earlier.state.finalized_checkpoint = self.chain.get_checkpoint(epoch)
        return build_bundle(earlier, "acme/tiny", "1.0", trusted)

    def break_rules(self, change: Callable[[Any], None]) -> tuple[bytes, Checkpoint]:
        """A bundle and its trust on a ledger whose newest final state was changed against all rules."""
        state = self.chain.get_state(self.newest.root).copy()
        change(state)
        header = self.chain.get_header(self.newest.root)
        header = header.replace(state_root=self.chain.ledger.hash_tree_root(state))
        trusted = Checkpoint(epoch=self.newest.epoch, root=self.chain.ledger.hash_tree_root(header))
        broken = copy(self.chain)
        broken.headers, broken.states = {trusted.root: header}, {trusted.root: state}
        broken.state = state.copy()
        broken.state.finalized_checkpoint = trusted
        return build_bundle(broken, "acme/tiny", "1.0", trusted), trusted

    @cached_property
    def newer(self) -> bytes:
        """A bundle for a trust newer than the publication: without hops."""
        return self.bundle("acme/tiny", "1.0", self.newest)

    def verify(self, data: bytes | Bundle, trusted: Checkpoint | None = None, **expected: Any) -> Evidence:
        """What a bundle proves to someone who trusts the genesis, unless told otherwise."""
        encoded = data if isinstance(data, bytes) else encode_bundle(data)
        now = expected.pop("now", self.now)
        tables = expected.pop("tables", ())
        stated = Expectations(**({"model": "acme/tiny", "publisher": identity(ROOT)} | expected))
        return verify_bundle(encoded, trusted or self.genesis, stated, now=now, tables=tables)

    def forge(self, **changes: Any) -> Bundle:
        """The older bundle with other parts."""
        return decode_bundle(self.older).replace(**changes)


CAROL_ROOT, CAROL = make_key("root of carol"), (make_key("carol"),)


def make_published(manifest: Manifest, other: Manifest) -> Published:
    """A chain of eight validators and six epochs on which these are published:

    acme/tiny by alice: 1.0 (in development), 1.1 (other files; in staging), 0.9 (revoked);
    evil/tiny 1.0 by bob: the files of acme/tiny 1.0, signed with Ed25519 and ML-DSA-65;
    lost/tiny 1.0 by carol, who then revoked the keys that signed it.
    """
    chain = ViewedChain(make_genesis(validators=8))
    chain.enrol(ROOT, ALICE, "acme")
    chain.enrol(BOB_ROOT, BOB, "evil")
    chain.enrol(CAROL_ROOT, CAROL, "lost")
    chain.publish(ROOT, ALICE, "acme/tiny", "1.0", manifest)
    chain.publish(ROOT, ALICE, "acme/tiny", "1.1", other)
    chain.publish(ROOT, ALICE, "acme/tiny", "0.9", manifest)
    chain.publish(BOB_ROOT, BOB, "evil/tiny", "1.0", manifest)
    chain.publish(CAROL_ROOT, CAROL, "lost/tiny", "1.0", manifest)
    root = manifest_root(manifest)
    revoked = RevokeVersion(model=b"acme/tiny", version=b"0.9", manifest_root=root, reason=b"a bad seed")
    promoted = Promote(
        model=b"acme/tiny",
        version=b"1.1",
        manifest_root=manifest_root(other),
        from_stage=STAGE_DEVELOPMENT,
        to_stage=STAGE_STAGING,
        sequence=0,
    )
    withdrawn = RevokeKeys(key_set=0, since=len(chain.entries) - 1, reason=b"stolen")
    chain.add_block(
        chain.make_entry(ALICE, ROOT, revoked),
        chain.make_entry(ALICE, ROOT, promoted),
        chain.make_entry([CAROL_ROOT], CAROL_ROOT, withdrawn),
    )
    chain.add_epochs(6)
    return Published(chain, manifest, other)


FOUNDERS, JOINERS = 4, 8


def make_growing(manifest: Manifest, other: Manifest) -> Published:
    """A ledger of four validators that admits eight more, and goes on until those have voted for epochs."""
    chain = ViewedChain(make_genesis(validators=FOUNDERS))
    chain.enrol(ROOT, ALICE, "acme")
    admissions = []
    for index in range(FOUNDERS, FOUNDERS + JOINERS):
        version, stake = chain.ledger.config.GENESIS_FORK_VERSION, chain.ledger.preset.MAX_EFFECTIVE_BALANCE
        deposit = compute_deposit(make_secret_key(index), version, stake, BLS)
        admission = Admission(deposit=deposit, expiry_epoch=1000)
        body = compute_admission(chain.ledger, chain.state, chain.keys, admission)
        admissions.append(chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, body))
    chain.add_block(*admissions)
    chain.add_epochs(11)
    chain.publish(ROOT, ALICE, "acme/tiny", "1.0", manifest)
    chain.add_epochs(4)
    return Published(chain, manifest, other)


def make_large(manifest: Manifest, other: Manifest) -> Published:
    """A ledger with more validators than votes can be shown of, on which one model is published."""
    chain = ViewedChain(make_genesis(validators=MAX_VALIDATORS + 1))
    chain.keys = make_keyring(MAX_VALIDATORS + 1)
    chain.enrol(ROOT, ALICE, "acme")
    chain.publish(ROOT, ALICE, "acme/tiny", "1.0", manifest)
    chain.add_epochs(5)
    chain.add_block()
    return Published(chain, manifest, other)
