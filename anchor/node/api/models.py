"""Models, versions, manifests and bundles."""

from __future__ import annotations

from typing import Final

from anchor.bundle.proofs import ChunkProof, StageProof, TensorProof
from anchor.bundle.types import LEDGER_SCOPE, Bundle
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.merkle.scope import schema_of
from anchor.ml.manifest import Manifest
from anchor.node.api import forms
from anchor.node.api.describe import describe
from anchor.node.api.kinds import (
    CHECKPOINT,
    MODEL,
    NUMBER,
    ORGANISATION,
    PAGING,
    ROOT,
    TEXT,
    VERSION,
    Parameter,
)
from anchor.node.api.routes import Body, Reply, Route
from anchor.node.node import Node
from anchor.node.reading import Reader

MAX_MANIFEST: Final = 1 << 26
"""Bytes of a manifest that is sent in: 2 TB of model."""
MANIFEST: Final = schema_of(Manifest)
BUNDLE: Final = LEDGER_SCOPE.schema(Bundle)
STAGE: Final = LEDGER_SCOPE.schema(StageProof)
TENSOR: Final = LEDGER_SCOPE.schema(TensorProof)
CHUNK: Final = LEDGER_SCOPE.schema(ChunkProof)


async def list_models(node: Node, after: int, limit: int) -> Reply:
    """A page of models."""
    page = await node.read(Reader.list_models, after, limit)
    return Reply([forms.show_model(named) for named in page.items], next=page.next, is_page=True)


async def get_model(node: Node, organisation: str, model: str) -> Reply:
    """One model."""
    return Reply(forms.show_model(await node.read(Reader.get_model, f"{organisation}/{model}")))


async def list_versions(node: Node, organisation: str, model: str, after: int, limit: int) -> Reply:
    """A page of a model's versions."""
    page = await node.read(Reader.list_versions, f"{organisation}/{model}", after, limit)
    return Reply([forms.show_version(version) for version in page.items], next=page.next, is_page=True)


async def get_version(node: Node, organisation: str, model: str, version: str) -> Reply:
    """One version, and how it stands."""
    return Reply(forms.show_version(await node.read(Reader.get_version, f"{organisation}/{model}", version)))


async def get_version_manifest(node: Node, organisation: str, model: str, version: str) -> Reply:
    """The manifest of a version."""
    published = await node.read(Reader.get_version, f"{organisation}/{model}", version)
    return await get_manifest(node, published.leaf.manifest_root)


async def get_bundle(node: Node, organisation: str, model: str, version: str, trust: Checkpoint) -> Reply:
    """The bundle of a version, for whoever trusts a checkpoint."""
    data = await node.read(Reader.build_bundle, f"{organisation}/{model}", version, trust)
    return Reply(schema=BUNDLE, encoded=data)


async def get_manifest(node: Node, root: bytes) -> Reply:
    """A manifest by its root."""
    return Reply(schema=MANIFEST, encoded=await node.read(Reader.get_manifest, root), root=root)


async def put_manifest(node: Node, root: bytes, body: bytes) -> Reply:
    """Keeps the manifest of a published version."""
    is_new = await node.keep_manifest(root, body)
    return Reply({"root": forms.hexadecimal(root)}, status=201 if is_new else 200)


async def prove_stage(node: Node, organisation: str, model: str, version: str) -> Reply:
    """The proof of a version's current stage."""
    return Reply(await node.read(Reader.prove_stage, f"{organisation}/{model}", version), STAGE)


async def prove_tensor(
    node: Node, organisation: str, model: str, version: str, tensor: str, component: str
) -> Reply:
    """The proof of a tensor."""
    name = f"{organisation}/{model}"
    return Reply(await node.read(Reader.prove_tensor, name, version, component, tensor), TENSOR)


async def prove_chunk(
    node: Node, organisation: str, model: str, version: str, tensor: str, component: str, chunk: int
) -> Reply:
    """The proof of a chunk of a tensor."""
    name = f"{organisation}/{model}"
    return Reply(await node.read(Reader.prove_chunk, name, version, component, tensor, chunk), CHUNK)


_MODEL: Final = {"organisation": ORGANISATION, "model": MODEL}
_VERSION: Final = {**_MODEL, "version": VERSION}
_TENSOR: Final = {
    "tensor": Parameter(TEXT, "the tensor's name", is_required=True),
    "component": Parameter(TEXT, "the part of a pipeline that holds it", ""),
}
_CHUNK: Final = {**_TENSOR, "chunk": Parameter(NUMBER, "which chunk, counted from 0", is_required=True)}
_TRUST: Final = {
    "trust": Parameter(CHECKPOINT, "the checkpoint that is trusted, root:epoch", is_required=True)
}
_AT: Final = "/anchor/v1/models/{organisation}/{model}"
_OF: Final = f"{_AT}/versions/{{version}}"
_BY_ROOT: Final = "/anchor/v1/manifests/{root}"

ROUTES: Final = (
    Route(
        "GET",
        "/anchor/v1/models",
        list_models,
        "List models, the oldest first",
        forms.list_of(forms.MODEL),
        "models",
        query=PAGING,
        is_page=True,
    ),
    Route("GET", _AT, get_model, "Show a model", forms.MODEL, "models", _MODEL, errors=(404,)),
    Route(
        "GET",
        f"{_AT}/versions",
        list_versions,
        "List a model's versions, the oldest first",
        forms.list_of(forms.VERSION),
        "models",
        _MODEL,
        PAGING,
        is_page=True,
        errors=(404,),
    ),
    Route("GET", _OF, get_version, "Show a version", forms.VERSION, "models", _VERSION, errors=(404,)),
    Route(
        "GET",
        f"{_OF}/manifest",
        get_version_manifest,
        "Get a version's manifest",
        describe(MANIFEST),
        "models",
        _VERSION,
        has_ssz=True,
        cost=5,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_OF}/bundle",
        get_bundle,
        "Make a version's bundle for a trusted checkpoint",
        describe(BUNDLE),
        "models",
        _VERSION,
        _TRUST,
        has_ssz=True,
        cost=20,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_OF}/stage",
        prove_stage,
        "Prove a version's current stage",
        describe(STAGE),
        "proofs",
        _VERSION,
        has_ssz=True,
        cost=5,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_OF}/tensor",
        prove_tensor,
        "Prove a tensor",
        describe(TENSOR),
        "proofs",
        _VERSION,
        _TENSOR,
        has_ssz=True,
        cost=10,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_OF}/chunk",
        prove_chunk,
        "Prove a chunk of a tensor",
        describe(CHUNK),
        "proofs",
        _VERSION,
        _CHUNK,
        has_ssz=True,
        cost=10,
        errors=(404,),
    ),
    Route(
        "GET",
        _BY_ROOT,
        get_manifest,
        "Get a manifest by its root",
        describe(MANIFEST),
        "models",
        {"root": ROOT},
        has_ssz=True,
        cost=5,
        errors=(404,),
    ),
    Route(
        "PUT",
        _BY_ROOT,
        put_manifest,
        "Send in the manifest of a published version",
        forms.KEPT,
        "models",
        {"root": ROOT},
        body=Body(MAX_MANIFEST),
        cost=50,
        statuses=(200, 201),
        errors=(404,),
    ),
)
"""In the order of the document."""
