"""`anchor verify --url`: a missing or newer bundle from a node, which may lie."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from anchor.chain import nodes
from anchor.cli import fetching
from anchor.cli.main import main
from anchor.consensus.text import format_checkpoint, format_identity
from anchor.node.publishing import write_key_revocation, write_revocation
from tests.node.http.conftest import Site
from tests.node.http.tools import VERSION, get_genesis, get_ssz, post, write_entries
from tests.node.tools import ALICE, NOW


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that acme/tiny@1 was published from, on the day of its publication."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(time, "time", lambda: NOW)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "note.txt").write_text("1")
    return folder


async def _verify(site: Site, model: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    genesis = format_checkpoint(await get_genesis(site))
    words = [
        "verify",
        str(model),
        "--trust",
        genesis,
        "--publisher",
        format_identity(ALICE.identity),
        "--json",
    ]
    given = more or ("--model", "acme/tiny@1", "--url", site.url)
    code = await asyncio.to_thread(main, [*words, *given])
    return code, json.loads(capsys.readouterr().out)


async def test_a_missing_bundle_is_fetched_and_kept(
    site: Site, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, envelope = await _verify(site, model, capsys)
    assert (code, envelope["status"]) == (0, "ok")
    assert (model / "model.anchor").is_file()
    code, _ = await _verify(site, model, capsys, "--model", "acme/tiny@1")  # offline now
    assert code == 0
    (model / "note.txt").write_text("2")
    assert (await _verify(site, model, capsys))[0] == 1


async def test_a_newer_bundle_takes_the_place_of_an_older(
    site: Site, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await _verify(site, model, capsys)
    old = (model / "model.anchor").read_bytes()
    (entry,) = await write_entries(site, "2")
    await (await post(site, entry)).read()
    assert (await _verify(site, model, capsys))[0] == 0
    new = (model / "model.anchor").read_bytes()
    assert new != old
    monkeypatch.setattr(fetching, "fetch_bundle", lambda *_: old)  # a node that hides what happened since
    assert (await _verify(site, model, capsys))[0] == 0
    assert (model / "model.anchor").read_bytes() == new


async def test_a_revocation_is_not_outlived_by_an_older_bundle(
    site: Site, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await _verify(site, model, capsys))[0] == 0
    entry = await site.node.read(
        lambda reader: write_revocation(reader.chain, ALICE, "acme/tiny@1", "wrong split")
    )
    await (await post(site, entry)).read()
    code, envelope = await _verify(site, model, capsys)
    assert code == 1
    assert "revoked" in envelope["error"]["what"]


async def test_revoked_keys_are_not_outlived_by_an_older_bundle(
    site: Site, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await _verify(site, model, capsys))[0] == 0
    entry = await site.node.read(lambda reader: write_key_revocation(reader.chain, ALICE, 2, "stolen"))
    await (await post(site, entry)).read()
    code, envelope = await _verify(site, model, capsys)
    assert code == 1
    assert "has revoked the keys that signed it" in envelope["error"]["what"]


async def test_a_lie_changes_nothing(
    site: Site, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await _verify(site, model, capsys))[0] == 0
    kept = (model / "model.anchor").read_bytes()
    (entry,) = await write_entries(site, "2")
    await (await post(site, entry)).read()
    genesis = format_checkpoint(await get_genesis(site))
    newer = await get_ssz(site, f"{VERSION}/bundle", trust=genesis)
    flipped = bytes([newer[0], *newer[1:-1], newer[-1] ^ 1])
    for lie in (b"", b"\xff" * 100, flipped, kept[:-1]):
        monkeypatch.setattr(fetching, "fetch_bundle", lambda *_, lie=lie: lie)
        assert (await _verify(site, model, capsys))[0] == 0
        assert (model / "model.anchor").read_bytes() == kept
    (model / "model.anchor").unlink()
    assert (await _verify(site, model, capsys))[0] == 1
    assert not (model / "model.anchor").exists()


async def test_another_models_bundle_is_not_taken(
    site: Site, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await _verify(site, model, capsys))[0] == 0
    kept = (model / "model.anchor").read_bytes()
    monkeypatch.setattr(
        nodes, "quote", lambda part, safe: "2" if part == "1" else part
    )  # a node that mixes up
    (entry,) = await write_entries(site, "2")
    await (await post(site, entry)).read()
    from tests.node.tools import make_manifest

    root, data = make_manifest("2")
    headers = {"Content-Type": "application/octet-stream"}
    async with site.client.put(
        f"/anchor/v1/manifests/0x{root.hex()}", data=data, headers=headers
    ) as response:
        assert response.status == 201
    assert (await _verify(site, model, capsys))[0] == 0
    assert (model / "model.anchor").read_bytes() == kept


async def test_the_version_must_be_said(site: Site, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, envelope = await _verify(site, model, capsys, "--model", "acme/tiny", "--url", site.url)
    assert (code, envelope["status"]) == (2, "usage")
