"""The frozen vectors of specs/vectors/manifest: a case is a directory, `_fail` must be refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anchor.errors import AnchorError
from anchor.ml.build import build_manifest
from anchor.ml.lineage_json import parse_lineage
from anchor.ml.manifest import decode_manifest, encode_manifest, files_root, manifest_root, weights_root
from anchor.ml.rules import verify_manifest
from anchor.ml.source import open_source
from anchor.ml.verify import check_files

VECTORS = Path(__file__).parents[2] / "specs" / "vectors" / "manifest"
CASES = sorted(path.name for path in VECTORS.iterdir() if not path.name.endswith("_fail"))
FAILURES = sorted(path.name for path in VECTORS.iterdir() if path.name.endswith("_fail"))


def roots(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((VECTORS / name / "roots.json").read_text())
    return found


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = VECTORS / name
    data = (case / "manifest.ssz").read_bytes()
    stated = case / "lineage.json"
    with open_source(case / "model") as source:
        lineage = parse_lineage(stated.read_bytes()) if stated.exists() else None
        built = build_manifest(source, lineage=lineage)
    assert encode_manifest(built) == data
    manifest = decode_manifest(data)
    verify_manifest(manifest)
    assert roots(name) == {
        "manifest_root": f"0x{manifest_root(manifest).hex()}",
        "weights_root": f"0x{weights_root(manifest).hex()}",
        "files_root": f"0x{files_root(manifest).hex()}",
    }
    assert check_files(case / "model", manifest).is_ok


@pytest.mark.parametrize("name", FAILURES)
def test_refused(name: str) -> None:
    assert (VECTORS / name / "README.md").read_text().strip()
    with pytest.raises(AnchorError):
        verify_manifest(decode_manifest((VECTORS / name / "manifest.ssz").read_bytes()))


def test_three_layouts_have_one_weights_root() -> None:
    same = [roots(name)["weights_root"] for name in ("one_file", "three_shards", "another_order")]
    assert len(set(same)) == 1
    assert len({roots(name)["files_root"] for name in ("one_file", "three_shards", "another_order")}) == 3


@pytest.mark.parametrize("name", ["components", "empty_and_scalar", "lineage"])
def test_every_byte_of_a_manifest_counts(name: str) -> None:
    """One valid encoding: a changed byte is refused, or gives another root (rule 27)."""
    data = (VECTORS / name / "manifest.ssz").read_bytes()
    root = manifest_root(decode_manifest(data))
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        try:
            manifest = decode_manifest(bytes(bad))
        except AnchorError:
            continue
        assert manifest_root(manifest) != root, at
