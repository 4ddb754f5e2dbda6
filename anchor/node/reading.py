"""What a node answers, read from its chain: everything as of the newest final state, in pages with bounds.

Nothing here writes, waits, or knows HTTP. Cursors are positions in lists that only grow: a page stays what it
is, whatever is added meanwhile. Only entries and blocks that are not final yet may give way to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

from anchor.bundle.build import build_bundle
from anchor.bundle.proofs import (
    ChunkProof,
    EntryProof,
    StageProof,
    TensorProof,
    build_chunk_proof,
    build_entry_proof,
    build_stage_proof,
    build_tensor_proof,
)
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.ledger import Genesis, Model, ModelVersion
from anchor.consensus.containers.phase0 import Checkpoint, IndexedAttestation, SignedBeaconBlock, Validator
from anchor.consensus.weak_subjectivity import compute_expiry
from anchor.errors import Misuse, NoSuchRecord
from anchor.merkle.scope import hash_tree_root
from anchor.ml.manifest import Manifest, decode_manifest, manifest_root
from anchor.node.chain import Chain, State
from anchor.node.ledger_view import LedgerView
from anchor.node.records import Block, StoredEntry
from anchor.node.status import Status

T = TypeVar("T")
EVIDENCE_BLOCKS: Final = 64
"""Blocks that one page of evidence looks through."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list that only grows."""

    items: Sequence[T]
    next: int | None
    """What comes after this page; None when there is nothing yet."""


class Found(NamedTuple):
    """An entry that is recorded."""

    stored: StoredEntry
    signed: SignedEntry
    is_final: bool


class Published(NamedTuple):
    """A version, with what its position and its publisher's index stand for."""

    position: int
    leaf: ModelVersion
    publisher: bytes
    """Root key."""
    timestamp: int
    """Of the block that recorded it; Unix time, seconds."""
    approvers: tuple[bytes, ...]
    """Root key of whoever gave each of the leaf's approvals."""


class Named(NamedTuple):
    """A model, with its publisher's root key and its number of versions."""

    model: Model
    publisher: bytes
    versions: int


@dataclass(frozen=True, slots=True)
class Horizon:
    """How long the newest final checkpoint can be trusted by whoever takes it now."""

    checkpoint: Checkpoint
    period: int
    """Weak-subjectivity period of its state, in epochs."""
    expires: int
    """Unix time, seconds."""


class Reader:
    """Answers about one moment of a chain. `refresh` makes another for a newer one."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.status: Status = chain.get_status()
        self._final_slot = chain.get_final_slot()
        self._final: State = chain.get_state(self.status.finalized.root)
        self._entries: Sequence[bytes] = chain.get_head().state.entries

    def count_common_entries(self, other: Reader) -> int:
        """How many entries, from the first on, both have in the same order. What is final is in both."""
        mine, others = self._entries, other._entries
        start, stop = self.status.final_entries, min(len(mine), len(others))
        return next((at for at in range(start, stop) if mine[at] != others[at]), stop)

    @cached_property
    def as_beacon(self) -> LedgerView:
        """The same moment, as the Beacon API shows it."""
        return LedgerView(self.chain, self.status)

    def refresh(self) -> Reader:
        """This one where the chain has not moved, else a new one."""
        moved = self.chain.get_head().root, self.chain.get_final_slot()
        return self if moved == (self.status.head, self._final_slot) else Reader(self.chain)

    # Models

    def list_models(self, after: int, limit: int) -> Page[Named]:
        """Models, in the order in which they came to be."""
        models = self._final.models
        return _page(after, limit, len(models), [self._name(m) for m in models[after : after + limit]])

    def get_model(self, model: str) -> Named:
        """The model `organisation/name`. Raises NoSuchRecord."""
        for known in self._final.models:
            if known.name == model.encode():
                return self._name(known)
        raise NoSuchRecord(f"There is no final model {model!a} here.", fix="See: /anchor/v1/models")

    def list_versions(self, model: str, after: int, limit: int) -> Page[Published]:
        """Versions of a model, in the order of publication. Raises NoSuchRecord for an unknown model."""
        self.get_model(model)
        own = [at for at in self._versions.get(model.encode(), {}).values() if at >= after]
        items = [self._publish(at) for at in own[:limit]]
        return Page(items, own[limit] if len(own) > limit else None)

    def list_newest(self, limit: int) -> list[Published]:
        """The newest versions of all models, newest first."""
        count = len(self._final.versions)
        return [self._publish(position) for position in range(count - 1, max(count - limit, 0) - 1, -1)]

    def get_version(self, model: str, version: str) -> Published:
        """A version as the newest final state has it. Raises NoSuchRecord."""
        position = self._versions.get(model.encode(), {}).get(version.encode())
        if position is None:
            raise NoSuchRecord(f"There is no final version {version!a} of {model!a} here.")
        return self._publish(position)

    @cached_property
    def _versions(self) -> dict[bytes, dict[bytes, int]]:
        """Positions by model and version."""
        found: dict[bytes, dict[bytes, int]] = {}
        for position, leaf in enumerate(self._final.versions):
            found.setdefault(leaf.model, {})[leaf.version] = position
        return found

    def _publish(self, position: int) -> Published:
        leaf = self._final.versions[position]
        stored, _ = self.chain.get_entry(leaf.entry)
        publishers = self._final.publishers
        approvers = tuple([publishers[approval.approver].root_key for approval in leaf.approvals])
        return Published(position, leaf, publishers[leaf.publisher].root_key, stored.timestamp, approvers)

    def _name(self, model: Model) -> Named:
        publisher = self._final.publishers[model.publisher].root_key
        return Named(model, publisher, len(self._versions.get(model.name, {})))

    # Manifests, proofs, bundles

    def get_manifest(self, root: bytes) -> bytes:
        """The encoding of the manifest with this root. Raises NoSuchRecord when it is not kept here."""
        return self.chain.get_manifest(root)

    def verify_manifest(self, root: bytes, data: bytes) -> bool:
        """Whether `data`, the encoding of a published manifest, is new here.

        Raises MalformedSSZ for what is no manifest, Misuse for one of another root, NoSuchRecord for one
        that no version names: else strangers could fill the disk.
        """
        if not any(leaf.manifest_root == root for leaf in self.chain.get_head().state.versions):
            raise NoSuchRecord(f"No version here has manifest 0x{root.hex()}.", fix="Publish it first.")
        computed = manifest_root(decode_manifest(data))
        if computed != root:
            raise Misuse(f"The manifest has root 0x{computed.hex()}, not 0x{root.hex()}.")
        return root not in self.chain.get_manifest_roots()

    def build_bundle(self, model: str, version: str, trusted: Checkpoint) -> bytes:
        """The bundle of a version for whoever trusts `trusted`. Raises as `anchor.bundle.build` does."""
        return build_bundle(self.chain, model, version, trusted)

    def prove_entry(self, position: int) -> EntryProof:
        """The proof of an entry. Raises NoSuchRecord when it is not final."""
        if position >= len(self._final.entries):
            raise NoSuchRecord(f"No entry {position} is final here.")
        return build_entry_proof(*self._anchorage(), self._final, position)

    def prove_stage(self, model: str, version: str) -> StageProof:
        """The proof of a version's stage. Raises NoSuchRecord."""
        return build_stage_proof(*self._anchorage(), self._final, self.get_version(model, version).position)

    def prove_tensor(self, model: str, version: str, component: str, tensor: str) -> TensorProof:
        """The proof of a tensor of a version. Raises NoSuchRecord."""
        stage, manifest, position = self._find_tensor(model, version, component, tensor)
        return build_tensor_proof(stage, manifest, position)

    def prove_chunk(self, model: str, version: str, component: str, tensor: str, chunk: int) -> ChunkProof:
        """The proof of a chunk of a tensor. Raises NoSuchRecord."""
        stage, manifest, position = self._find_tensor(model, version, component, tensor)
        chunks = len(manifest.weights[position].chunks) // 32
        if chunk >= chunks:
            raise NoSuchRecord(f"The tensor has {chunks} chunks, counted from 0, and no chunk {chunk}.")
        return build_chunk_proof(stage, manifest, position, chunk)

    def _anchorage(self) -> tuple[Checkpoint, Any]:
        final = self.status.finalized
        return final, self.chain.get_header(final.root)

    def _find_tensor(
        self, model: str, version: str, component: str, tensor: str
    ) -> tuple[StageProof, Manifest, int]:
        stage = self.prove_stage(model, version)
        manifest = decode_manifest(self.get_manifest(stage.version.manifest_root))
        for position, known in enumerate(manifest.weights):
            if (known.component, known.name) == (component, tensor):
                return stage, manifest, position
        raise NoSuchRecord(f"{model}@{version} has no tensor {tensor!a} in component {component!a}.")

    # The chain

    def list_entries(self, after: int, limit: int) -> Page[Found]:
        """Entries, in the order in which they took effect."""
        pairs = self.chain.get_entries(after, after + limit)
        return _page(after, limit, self.status.entries, [self._find(*pair) for pair in pairs])

    def get_entry(self, position: int) -> Found:
        """The entry at `position`. Raises NoSuchRecord."""
        return self._find(*self.chain.get_entry(position))

    def find_entry(self, root: bytes) -> Found | None:
        """The entry with this root, where it is recorded."""
        stored = self.chain.find_recorded(root)
        return None if stored is None else self._find(stored, self.chain.decode_entry(stored))

    def _find(self, stored: StoredEntry, signed: SignedEntry) -> Found:
        return Found(stored, signed, stored.position < self.status.final_entries)

    def list_blocks(self, after: int, limit: int) -> Page[Block]:
        """Blocks of slot `after` and later."""
        items = list(self.chain.list_blocks(after, limit + 1))
        return Page(items[:limit], items[limit].slot if len(items) > limit else None)

    def get_block(self, root: bytes) -> SignedBeaconBlock:
        """The block with this root. Raises NoSuchRecord."""
        return self.chain.get_block(root)

    def get_genesis(self) -> Genesis:
        """What the network started from."""
        return self.chain.genesis

    def get_state(self, root: bytes) -> bytes:
        """The encoding of the state after a block on the chain. Raises NoSuchRecord."""
        return self.chain.scope.encode(self.chain.get_state(root))

    def list_evidence(self, after: int) -> Page[tuple[int, str, Any]]:
        """Slashings in the next EVIDENCE_BLOCKS blocks of slot `after` and later: slot, kind, operation."""
        page = self.list_blocks(after, EVIDENCE_BLOCKS)
        found: list[tuple[int, str, Any]] = []
        for block in [self.chain.decode_block(stored).message for stored in page.items]:
            found += [(block.slot, "proposer_slashing", one) for one in block.body.proposer_slashings]
            found += [(block.slot, "attester_slashing", one) for one in block.body.attester_slashings]
        return Page(found, page.next)

    def list_votes(self, epoch: int) -> list[IndexedAttestation]:
        """The votes for the checkpoint of `epoch` that blocks brought."""
        if epoch > self.status.epoch:
            raise NoSuchRecord(f"Epoch {epoch} has not come: this is epoch {self.status.epoch}.")
        return self.chain.get_attestations(epoch)

    def list_validators(self, after: int, limit: int) -> Page[Validator]:
        """The registry of the newest final state, in order."""
        registry = self._final.validators
        stop = min(after + limit, len(registry))
        return _page(after, limit, len(registry), [registry[index] for index in range(after, stop)])

    def get_validator(self, index: int) -> Validator:
        """A validator of the newest final state. Raises NoSuchRecord."""
        if index >= len(self._final.validators):
            raise NoSuchRecord(f"There are {len(self._final.validators)} validators, counted from 0.")
        validator: Validator = self._final.validators[index]
        return validator

    def get_horizon(self) -> Horizon:
        """How long the newest final checkpoint can be trusted."""
        period = self._final.network.weak_subjectivity_period
        expires = compute_expiry(self._final, self.chain.ledger.preset.SLOTS_PER_EPOCH)
        return Horizon(self.status.finalized, period, expires)


def entry_root(signed: SignedEntry) -> bytes:
    """What tells a signed entry from every other."""
    return hash_tree_root(signed)


def _page(after: int, limit: int, total: int, items: Sequence[T]) -> Page[T]:
    return Page(items, after + limit if after + limit < total else None)
