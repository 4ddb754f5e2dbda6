"""Short proofs for whoever does not need a whole bundle: an entry, a version's stage, a tensor, a chunk.

Each leads from a leaf to the block root of a finalised checkpoint: that it is final is for whoever holds the
proof to know (from a bundle, a light client, or their trust store). As in a bundle, no generalized
index is sent: the verifier computes each from the types, a position and a proven length (rule 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from anchor.bundle.types import LEDGER_SCOPE, root_of, state_index
from anchor.consensus.containers.ledger import BeaconState, ModelVersion
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.errors import InvalidProof, Misuse
from anchor.merkle.container import Container
from anchor.merkle.proof import build_multiproof, compute_multi_merkle_root
from anchor.merkle.scope import schema_of
from anchor.merkle.ssz import Schema, get_generalized_index
from anchor.ml.manifest import Manifest, Tensor, manifest_root
from anchor.types import Bytes32, Limit, Root, uint64

Path = tuple[str | int, ...]
Helpers = Annotated[tuple[Bytes32, ...], Limit(512)]
_MANIFEST: Final = schema_of(Manifest)


class Anchorage(Container):
    """The finalised block that a proof leads to; the header's root is the checkpoint's."""

    checkpoint: Checkpoint
    header: BeaconBlockHeader


class EntryProof(Container):
    """That the ledger holds an entry, and where."""

    anchorage: Anchorage
    position: uint64
    count: uint64
    """Entries in the state."""
    root: Root
    """Of the signed entry."""
    proof: Helpers


class StageProof(Container):
    """What a finalised state says of a version: its stage, and whether it is revoked."""

    anchorage: Anchorage
    timestamp: uint64
    """Of the block; Unix time, seconds."""
    position: uint64
    count: uint64
    """Versions in the state."""
    version: ModelVersion
    proof: Helpers


class TensorProof(Container):
    """That a version's manifest holds a tensor: its description, and the digests of all its chunks."""

    stage: StageProof
    position: uint64
    count: uint64
    """Tensors in the manifest."""
    tensor: Tensor
    proof: Helpers


class ChunkProof(Container):
    """That a chunk of a tensor has a digest."""

    stage: StageProof
    position: uint64
    """Of the tensor in the manifest."""
    count: uint64
    """Tensors in the manifest."""
    name: Root
    """Root of the tensor's name, as text of at most 1,024 bytes."""
    component: Root
    """Root of the component's name, likewise."""
    chunk: uint64
    chunks: uint64
    """Chunks of the tensor."""
    digest: Bytes32
    """SHA-256 of the chunk's bytes."""
    proof: Helpers


# Verified


def verify_entry_proof(proof: EntryProof, checkpoint: Checkpoint) -> None:
    """Raises InvalidProof unless the state of `checkpoint` holds the entry at that position."""
    leaves = [_number(proof.count), proof.root]
    _require_position(proof.position, proof.count, "entry")
    _verify_state(proof.anchorage, checkpoint, _entry_paths(proof.position), leaves, proof.proof)


def verify_stage_proof(proof: StageProof, checkpoint: Checkpoint) -> None:
    """Raises InvalidProof unless the state of `checkpoint` says this of the version."""
    leaves = [_number(proof.timestamp), _number(proof.count), root_of(proof.version)]
    _require_position(proof.position, proof.count, "version")
    _verify_state(proof.anchorage, checkpoint, _stage_paths(proof.position), leaves, proof.proof)


def verify_tensor_proof(proof: TensorProof, checkpoint: Checkpoint) -> None:
    """Raises InvalidProof unless the version's manifest holds the tensor at that position."""
    verify_stage_proof(proof.stage, checkpoint)
    _require_position(proof.position, proof.count, "tensor")
    leaves = [_number(proof.count), schema_of(Tensor).hash_tree_root(proof.tensor)]
    _verify_manifest(proof.stage, _tensor_paths(proof.position), leaves, proof.proof)


def verify_chunk_proof(proof: ChunkProof, checkpoint: Checkpoint) -> None:
    """Raises InvalidProof unless the chunk of the version's tensor has that digest."""
    verify_stage_proof(proof.stage, checkpoint)
    _require_position(proof.position, proof.count, "tensor")
    _require_position(proof.chunk, proof.chunks, "chunk")
    leaves = [_number(proof.count), proof.name, proof.component, _number(proof.chunks), proof.digest]
    _verify_manifest(proof.stage, _chunk_paths(proof.position, proof.chunk), leaves, proof.proof)


def compute_text_root(text: str) -> Root:
    """The root of a tensor's or a component's name, as `ChunkProof` gives it."""
    return schema_of(Tensor).schemas["name"].hash_tree_root(text)


def _verify_state(
    anchorage: Anchorage,
    checkpoint: Checkpoint,
    paths: Sequence[Path],
    leaves: Sequence[bytes],
    proof: Sequence[bytes],
) -> None:
    if anchorage.checkpoint != checkpoint or root_of(anchorage.header) != checkpoint.root:
        raise InvalidProof("The proof does not lead to the checkpoint that was asked for.")
    _require(leaves, proof, [state_index(*path) for path in paths], anchorage.header.state_root, "state")


def _verify_manifest(
    stage: StageProof, paths: Sequence[Path], leaves: Sequence[bytes], proof: Sequence[bytes]
) -> None:
    indices = [get_generalized_index(_MANIFEST, *path) for path in paths]
    _require(leaves, proof, indices, stage.version.manifest_root, "manifest")


def _require(
    leaves: Sequence[bytes], proof: Sequence[bytes], indices: Sequence[int], root: bytes, what: str
) -> None:
    computed = compute_multi_merkle_root(leaves, proof, indices)
    if computed != root:
        raise InvalidProof(
            f"The proof leads to a {what} with root 0x{computed.hex()}, not 0x{root.hex()}.",
            fix="Get a fresh proof, from another node if need be.",
        )


def _require_position(position: int, count: int, what: str) -> None:
    if position >= count:
        raise InvalidProof(f"There are {count} of them, and the proof is of {what} {position}.")


# Built


def build_entry_proof(
    checkpoint: Checkpoint, header: BeaconBlockHeader, state: BeaconState, position: int
) -> EntryProof:
    """The proof of the entry at `position`. Raises Misuse when the state has none."""
    if position >= len(state.entries):
        raise Misuse(f"The state holds {len(state.entries)} entries, and none at {position}.")
    return EntryProof(
        anchorage=Anchorage(checkpoint=checkpoint, header=header),
        position=position,
        count=len(state.entries),
        root=state.entries[position],
        proof=_cut(LEDGER_SCOPE.schema("BeaconState"), state, _entry_paths(position)),
    )


def build_stage_proof(
    checkpoint: Checkpoint, header: BeaconBlockHeader, state: BeaconState, position: int
) -> StageProof:
    """The proof of what the state says of the version at `position`, which it has."""
    return StageProof(
        anchorage=Anchorage(checkpoint=checkpoint, header=header),
        timestamp=state.timestamp,
        position=position,
        count=len(state.versions),
        version=state.versions[position],
        proof=_cut(LEDGER_SCOPE.schema("BeaconState"), state, _stage_paths(position)),
    )


def build_tensor_proof(stage: StageProof, manifest: Manifest, position: int) -> TensorProof:
    """The proof of the tensor at `position` of the manifest, which it has."""
    _require_own(stage, manifest)
    return TensorProof(
        stage=stage,
        position=position,
        count=len(manifest.weights),
        tensor=manifest.weights[position],
        proof=_cut(_MANIFEST, manifest, _tensor_paths(position)),
    )


def build_chunk_proof(stage: StageProof, manifest: Manifest, position: int, chunk: int) -> ChunkProof:
    """The proof of a chunk of the tensor at `position`. Raises Misuse when the tensor has no such chunk."""
    _require_own(stage, manifest)
    tensor = manifest.weights[position]
    digest = tensor.chunks[32 * chunk : 32 * chunk + 32]
    if not digest:
        raise Misuse(f"The tensor has {len(tensor.chunks) // 32} chunks, and none at {chunk}.")
    return ChunkProof(
        stage=stage,
        position=position,
        count=len(manifest.weights),
        name=compute_text_root(tensor.name),
        component=compute_text_root(tensor.component),
        chunk=chunk,
        chunks=len(tensor.chunks) // 32,
        digest=digest,
        proof=_cut(_MANIFEST, manifest, _chunk_paths(position, chunk)),
    )


def _require_own(stage: StageProof, manifest: Manifest) -> None:
    if manifest_root(manifest) != stage.version.manifest_root:
        raise Misuse("The manifest is not the version's.")


def _cut(schema: Schema[Any], value: Any, paths: Sequence[Path]) -> tuple[bytes, ...]:
    return build_multiproof(schema.tree(value), [get_generalized_index(schema, *path) for path in paths])


# Paths, in the order of the leaves


def _entry_paths(position: int) -> tuple[Path, ...]:
    return (("entries", "__len__"), ("entries", position))


def _stage_paths(position: int) -> tuple[Path, ...]:
    return (("timestamp",), ("versions", "__len__"), ("versions", position))


def _tensor_paths(position: int) -> tuple[Path, ...]:
    return (("weights", "__len__"), ("weights", position))


def _chunk_paths(position: int, chunk: int) -> tuple[Path, ...]:
    below: Path = ("weights", position)
    return (
        ("weights", "__len__"),
        (*below, "name"),
        (*below, "component"),
        (*below, "chunks", "__len__"),
        (*below, "chunks", chunk),
    )


def _number(value: int) -> bytes:
    return value.to_bytes(32, "little")
