"""What a node answers, in both forms, held to what was published."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchor.bundle.evidence import Expectations
from anchor.bundle.proofs import (
    ChunkProof,
    EntryProof,
    StageProof,
    TensorProof,
    compute_text_root,
    verify_chunk_proof,
    verify_entry_proof,
    verify_stage_proof,
    verify_tensor_proof,
)
from anchor.bundle.types import LEDGER_SCOPE, Bundle, decode_bundle
from anchor.bundle.verify import verify_bundle
from anchor.consensus.containers.phase0 import SignedBeaconBlock
from anchor.consensus.text import parse_checkpoint
from anchor.errors import InvalidProof, MalformedSSZ
from anchor.merkle.container import Container
from anchor.merkle.json import from_json, to_json
from anchor.merkle.scope import hash_tree_root
from anchor.ml.manifest import decode_manifest, manifest_root
from tests.node.http.conftest import Site, open_site
from tests.node.http.tools import VERSION, get_data, get_genesis, get_ssz
from tests.node.tools import ALICE, NOW, make_manifest, make_weighty_manifest, opened, publish


async def test_models_and_versions(site: Site) -> None:
    models = await get_data(site, "/anchor/v1/models")
    assert models == [await get_data(site, "/anchor/v1/models/acme/tiny")]
    assert models[0]["publisher"] == f"ed25519:{ALICE.identity.hex()}"
    (version,) = await get_data(site, "/anchor/v1/models/acme/tiny/versions")
    assert version == await get_data(site, VERSION)
    assert version["manifest_root"] == f"0x{make_manifest('1')[0].hex()}"
    assert (version["stage"], version["revoked"], version["published"]) == (
        "development",
        False,
        "2027-01-15T08:00:00Z",
    )


async def test_a_manifest_by_root_and_by_version_in_both_forms(site: Site) -> None:
    root, data = make_manifest("1")
    path = f"/anchor/v1/manifests/0x{root.hex()}"
    assert await get_ssz(site, path) == await get_ssz(site, f"{VERSION}/manifest") == data
    document = await get_data(site, path)
    assert document == await get_data(site, f"{VERSION}/manifest")
    assert manifest_root(from_json(LEDGER_SCOPE.schema(type(decode_manifest(data))), document)) == root


async def test_a_bundle_for_what_is_trusted(site: Site) -> None:
    genesis = await get_genesis(site)
    trust = f"0x{genesis.root.hex()}:0"
    data = await get_ssz(site, f"{VERSION}/bundle", trust=trust)
    evidence = verify_bundle(data, genesis, Expectations(), now=NOW)
    assert (evidence.model, evidence.version) == ("acme/tiny", "1")
    document = await get_data(site, f"{VERSION}/bundle", trust=trust)
    assert from_json(LEDGER_SCOPE.schema(Bundle), document) == decode_bundle(data)


async def test_checkpoints_blocks_and_votes(site: Site) -> None:
    found = await get_data(site, "/anchor/v1/checkpoints")
    final = parse_checkpoint(found["finalized"])
    assert found["weak_subjectivity"]["checkpoint"] == found["finalized"]
    assert found["weak_subjectivity"]["expires"] > "2028"
    block = LEDGER_SCOPE.schema(SignedBeaconBlock).decode(
        await get_ssz(site, f"/anchor/v1/blocks/0x{final.root.hex()}")
    )
    assert LEDGER_SCOPE.hash_tree_root(block.message) == final.root
    votes = await get_data(site, f"/anchor/v1/votes/{final.epoch}")
    targets = {vote["data"]["target"]["root"] for vote in votes}
    assert targets == {f"0x{final.root.hex()}"}


async def test_validators(site: Site) -> None:
    everyone = await get_data(site, "/anchor/v1/validators", limit="100")
    assert len(everyone) == site.node.status.validators
    assert await get_data(site, "/anchor/v1/validators/3") == everyone[3]
    assert await get_data(site, "/anchor/v1/evidence") == []


@pytest.mark.parametrize("path", ["entries", "blocks", "validators"])
async def test_pages_join_without_gap_or_overlap(site: Site, path: str) -> None:
    whole = await get_data(site, f"/anchor/v1/{path}", limit="100")
    joined, after = [], 0
    while after is not None:
        async with site.client.get(f"/anchor/v1/{path}?after={after}&limit=3") as response:
            page = await response.json()
        assert len(page["data"]) <= 3
        joined, after = joined + page["data"], page["next"]
    assert joined == whole


async def test_a_cursor_stays_while_the_list_grows(ledger: tuple[Path, bytes]) -> None:
    folder, seed = ledger
    with opened(folder, seed) as service:
        for version in ("2", "3"):
            publish(service, version)
    async with open_site(folder, seed, writes=False) as site:
        path = "/anchor/v1/models/acme/tiny/versions"
        async with site.client.get(path, params={"limit": "2"}) as response:
            page = await response.json()
        assert [one["version"] for one in page["data"]] == ["1", "2"]
        with opened(folder, seed) as service:
            publish(service, "4")
        await site.node.refresh()
        rest = await get_data(site, path, after=str(page["next"]))
        assert [one["version"] for one in rest] == ["3", "4"]


# Proofs


async def _fetch(site: Site, record: type[Container], path: str, **query: str) -> Container:
    """A proof, which must be the same in both forms."""
    schema = LEDGER_SCOPE.schema(record)
    proof: Container = schema.decode(await get_ssz(site, path, **query))
    assert await get_data(site, path, **query) == to_json(schema, proof)
    return proof


async def test_the_proof_of_an_entry(site: Site) -> None:
    final = site.node.status.finalized
    for position in range(site.node.status.final_entries):
        proof = await _fetch(site, EntryProof, f"/anchor/v1/entries/{position}/proof")
        verify_entry_proof(proof, final)
        entry = await get_data(site, f"/anchor/v1/entries/{position}")
        assert entry["root"] == f"0x{proof.root.hex()}"
        with pytest.raises(InvalidProof):
            verify_entry_proof(proof.replace(position=position + 1), final)


async def test_the_proof_of_a_stage(site: Site) -> None:
    proof = await _fetch(site, StageProof, f"{VERSION}/stage")
    verify_stage_proof(proof, site.node.status.finalized)
    assert proof.version.manifest_root == make_manifest("1")[0]
    for forged in (
        proof.replace(version=proof.version.replace(stage=2)),
        proof.replace(version=proof.version.replace(revoked=True)),
        proof.replace(timestamp=proof.timestamp + 1),
        proof.replace(count=proof.count + 1),
        proof.replace(proof=proof.proof[1:]),
    ):
        with pytest.raises(InvalidProof):
            verify_stage_proof(forged, site.node.status.finalized)


async def test_a_proof_leads_to_the_checkpoint_that_is_asked_for(site: Site) -> None:
    proof = await _fetch(site, StageProof, f"{VERSION}/stage")
    with pytest.raises(InvalidProof, match="checkpoint"):
        verify_stage_proof(proof, site.node.status.justified)
    header = proof.anchorage.header.replace(state_root=bytes(32))
    root = LEDGER_SCOPE.hash_tree_root(header)
    moved = proof.anchorage.replace(header=header, checkpoint=proof.anchorage.checkpoint.replace(root=root))
    with pytest.raises(InvalidProof, match="state"):
        verify_stage_proof(proof.replace(anchorage=moved), moved.checkpoint)


@pytest.fixture
async def weighty(ledger: tuple[Path, bytes]) -> object:
    """A node whose ledger has acme/tiny@big, with tensors."""
    from anchor.consensus.containers.entries import Publish

    folder, seed = ledger
    root, data = make_weighty_manifest()
    with opened(folder, seed) as service:
        service.publish(ALICE, Publish(model=b"acme/tiny", version=b"big", manifest_root=root), data)
    async with open_site(folder, seed, writes=False) as opened_site:
        yield opened_site


BIG = "/anchor/v1/models/acme/tiny/versions/big"


async def test_the_proof_of_a_tensor(weighty: Site) -> None:
    manifest = decode_manifest(make_weighty_manifest()[1])
    for tensor in manifest.weights:
        proof = await _fetch(weighty, TensorProof, f"{BIG}/tensor", tensor=tensor.name)
        verify_tensor_proof(proof, weighty.node.status.finalized)
        assert proof.tensor == tensor
    forged = proof.replace(tensor=tensor.replace(dtype="I8"))
    with pytest.raises(InvalidProof, match="manifest"):
        verify_tensor_proof(forged, weighty.node.status.finalized)


async def test_the_proof_of_a_chunk(weighty: Site) -> None:
    manifest, final = decode_manifest(make_weighty_manifest()[1]), weighty.node.status.finalized
    tensor = manifest.weights[1]
    for chunk in range(3):
        query = {"tensor": tensor.name, "chunk": str(chunk)}
        proof = await _fetch(weighty, ChunkProof, f"{BIG}/chunk", **query)
        verify_chunk_proof(proof, final)
        assert proof.digest == tensor.chunks[32 * chunk :][:32]
        assert proof.name == compute_text_root(tensor.name)
    for forged in (proof.replace(digest=bytes(32)), proof.replace(chunk=0), proof.replace(name=bytes(32))):
        with pytest.raises(InvalidProof):
            verify_chunk_proof(forged, final)
    with pytest.raises(InvalidProof, match="There are 3"):
        verify_chunk_proof(proof.replace(chunk=3), final)


@pytest.mark.parametrize("query", [{"tensor": "none"}, {"tensor": "layers.1", "component": "vae"}])
async def test_there_is_no_proof_of_what_is_not_there(weighty: Site, query: dict[str, str]) -> None:
    async with weighty.client.get(f"{BIG}/tensor", params=query) as response:
        assert response.status == 404
    async with weighty.client.get(f"{BIG}/chunk", params={"tensor": "layers.1", "chunk": "3"}) as response:
        assert response.status == 404


# Forms


async def test_entries_read_back_from_json_have_their_roots(site: Site) -> None:
    from anchor.consensus.containers.entries import SignedEntry

    for entry in await get_data(site, "/anchor/v1/entries"):
        signed = from_json(LEDGER_SCOPE.schema(SignedEntry), entry["entry"])
        assert entry["root"] == f"0x{hash_tree_root(signed).hex()}"


@pytest.mark.parametrize(
    "union", [{}, {"selector": "99", "data": {}}, {"selector": 0, "data": {}}, {"selector": "0"}, []]
)
async def test_a_union_in_json_is_read_strictly(site: Site, union: object) -> None:
    from anchor.consensus.containers.entries import SignedEntry

    (document,) = (await get_data(site, "/anchor/v1/entries", limit="1"))[:1]
    document["entry"]["entry"]["body"] = union
    with pytest.raises(MalformedSSZ):
        from_json(LEDGER_SCOPE.schema(SignedEntry), document["entry"])
