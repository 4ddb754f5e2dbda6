"""Every rule of a manifest, broken one at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anchor.errors import InvalidManifest
from anchor.merkle.scope import schema_of
from anchor.ml.lineage import Lineage, Parent, Setting
from anchor.ml.manifest import Alias, Extent, Manifest
from anchor.ml.rules import verify_manifest
from tests.ml.checkpoints import TWO, anchor, safetensors, write

EMPTY = {"z.empty": ("F32", [0], b"")}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    files = {"config.json": b"{}", "model.safetensors": safetensors({**TWO, **EMPTY})}
    return anchor(write(tmp_path_factory.mktemp("model"), files))


def file_with(manifest: Manifest, **changes: Any) -> Manifest:
    """The manifest with changes to model.safetensors."""
    config, model = manifest.files
    return manifest.replace(files=(config, model.replace(**changes)))


def tensor_with(manifest: Manifest, **changes: Any) -> Manifest:
    """The manifest with changes to layer.weight."""
    bias, weight, empty = manifest.weights
    return manifest.replace(weights=(bias, weight.replace(**changes), empty))


def lineage_with(manifest: Manifest, **changes: Any) -> Manifest:
    return manifest.replace(lineage=manifest.lineage.replace(**changes))


def extents(manifest: Manifest) -> tuple[Extent, Extent]:
    first, second = manifest.files[1].extents
    return first, second


def alias(name: str, tensor: int = 0, component: str = "") -> Alias:
    return Alias(component=component, name=name, tensor=tensor)


def setting(key: str) -> Setting:
    return Setting(key=key, value="1")


PARENT = Parent(manifest_root=bytes(32), name="", weight="")

BROKEN: dict[str, tuple[Callable[[Manifest], Manifest], str]] = {
    "no-file": (lambda m: m.replace(files=(), weights=()), "names no file"),
    "weights-not-sorted": (lambda m: m.replace(weights=m.weights[::-1]), "weights are not strictly sorted"),
    "weights-twice": (lambda m: m.replace(weights=(m.weights[0], *m.weights)), "weights are not strictly"),
    "unknown-dtype": (lambda m: tensor_with(m, dtype="F7"), "unknown dtype 'F7'"),
    "dtype-and-length": (lambda m: tensor_with(m, dtype="F16"), "not what F16"),
    "shape-and-length": (lambda m: tensor_with(m, shape=(3, 5)), "not what F32"),
    "shape-overflow": (lambda m: tensor_with(m, shape=(1 << 63, 1 << 63)), "not what F32"),
    "a-chunk-more": (lambda m: tensor_with(m, chunks=bytes(64)), "2 chunk digests, and 48 bytes take 1"),
    "no-chunk": (lambda m: tensor_with(m, chunks=b""), "0 chunk digests"),
    "another-component": (lambda m: tensor_with(m, component="z"), "not strictly sorted"),
    "chosen-component": (
        lambda m: m.replace(weights=tuple(t.replace(component="z") for t in m.weights)),
        "belongs to component '', not 'z'",
    ),
    "alias-of-nothing": (lambda m: m.replace(aliases=(alias("a", 9),)), "not there"),
    "alias-is-a-tensor": (lambda m: m.replace(aliases=(alias("layer.bias"),)), "both a tensor and an alias"),
    "aliases-not-sorted": (lambda m: m.replace(aliases=(alias("b"), alias("a"))), "aliases are not strictly"),
    "alias-elsewhere": (lambda m: m.replace(aliases=(alias("a", 0, "z"),)), "another component"),
    "files-not-sorted": (lambda m: m.replace(files=m.files[::-1]), "files are not strictly sorted"),
    "files-twice": (lambda m: m.replace(files=(m.files[0], *m.files)), "files are not strictly sorted"),
    "unknown-ignore-rule": (lambda m: m.replace(ignored=("*.py",)), "not on the fixed list"),
    "ignore-rules-not-sorted": (lambda m: m.replace(ignored=m.ignored[::-1]), "not strictly sorted"),
    "named-and-ignored": (
        lambda m: m.replace(files=(m.files[0].replace(path=".git/HEAD"), m.files[1])),
        "both names and ignores",
    ),
    "opaque-with-tensors": (lambda m: file_with(m, format=""), "is opaque, and has tensors"),
    "opaque-with-notes": (
        lambda m: m.replace(files=(m.files[0].replace(notes_root=b"\1" * 32), m.files[1])),
        "is opaque, and has tensors or notes",
    ),
    "extents-descending": (lambda m: file_with(m, extents=extents(m)[::-1]), "begins before"),
    "extents-overlap": (
        lambda m: file_with(m, extents=(extents(m)[0], extents(m)[1].replace(offset=extents(m)[0].offset))),
        "begins before",
    ),
    "extent-beyond": (
        lambda m: file_with(m, extents=(extents(m)[0], extents(m)[1].replace(offset=1 << 40))),
        "ends beyond",
    ),
    "extent-of-nothing": (
        lambda m: file_with(m, extents=(extents(m)[0], extents(m)[1].replace(tensor=7))),
        "a tensor that is not there",
    ),
    "extent-of-a-part": (
        lambda m: file_with(m, extents=(extents(m)[0], extents(m)[1].replace(length=47))),
        "not one whole tensor",
    ),
    "extent-empty": (
        lambda m: file_with(m, extents=(Extent(offset=0, length=0, tensor=2), *extents(m)), unplaced=()),
        "not one whole tensor that has bytes",
    ),
    "extents-swapped": (
        lambda m: file_with(
            m, extents=(extents(m)[0].replace(tensor=1), extents(m)[1].replace(tensor=0))
        ),
        "not one whole tensor",
    ),
    "skeleton-short": (lambda m: file_with(m, skeleton=b""), "0 chunk digests"),
    "size-without-chunks": (lambda m: file_with(m, size=m.files[1].size + (1 << 20)), "1 chunk digests"),
    "size-below-extents": (lambda m: file_with(m, size=60), "ends beyond"),
    "unplaced-not-there": (lambda m: file_with(m, unplaced=(2, 3)), "holds a tensor that is not there"),
    "unplaced-not-sorted": (lambda m: file_with(m, unplaced=(2, 2)), "not strictly sorted"),
    "placed-and-unplaced": (lambda m: file_with(m, unplaced=(1, 2)), "places a tensor twice"),
    "held-by-no-file": (lambda m: file_with(m, unplaced=()), "No file holds tensor 'z.empty'"),
    "one-extent-in-two-files": (
        lambda m: m.replace(files=(*m.files, m.files[1].replace(path="other.safetensors"))),
        "places a tensor twice",
    ),
    "unknown-operation": (lambda m: lineage_with(m, operation="distil"), "no operation"),
    "merge-of-one": (lambda m: lineage_with(m, operation="slerp", parents=(PARENT,)), "2 to 2 parents"),
    "orphan": (lambda m: lineage_with(m, operation="fine-tune"), "1 to 1 parents"),
    "unstated-with-parents": (lambda m: lineage_with(m, parents=(PARENT,)), "0 to 0 parents"),
    "metrics-not-sorted": (lambda m: lineage_with(m, metrics=(setting("b"), setting("a"))), "metrics"),
    "recipe-twice": (lambda m: lineage_with(m, recipe=(setting("a"), setting("a"))), "recipe are not"),
}  # fmt: skip


def test_the_good_one_is_good(good: Manifest) -> None:
    verify_manifest(good)
    verify_manifest(good.replace(aliases=(alias("lm_head"),)))
    assert good.lineage == schema_of(Lineage).default()


@pytest.mark.parametrize(("breaks", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_refused(good: Manifest, breaks: Callable[[Manifest], Manifest], says: str) -> None:
    with pytest.raises(InvalidManifest, match=says):
        verify_manifest(breaks(good))


def test_two_sets_of_one_folder(tmp_path: Path) -> None:
    """A quantised variant and optimiser state are components of their own; shards never are."""
    files = {
        "model.safetensors": safetensors(TWO),
        "model.int8-00001-of-00002.safetensors": safetensors({"layer.bias": ("U8", [1], b"1")}),
        "model.int8-00002-of-00002.safetensors": safetensors({"layer.weight": ("U8", [1], b"2")}),
        "optimizer.safetensors": safetensors({"exp_avg.layer.bias": ("U8", [1], b"3")}),
        "unet/diffusion_pytorch_model.safetensors": safetensors(TWO),
    }
    manifest = anchor(write(tmp_path, files))
    assert {(tensor.component, tensor.name) for tensor in manifest.weights} == {
        ("", "layer.bias"),
        ("", "layer.weight"),
        ("model.int8", "layer.bias"),
        ("model.int8", "layer.weight"),
        ("optimizer", "exp_avg.layer.bias"),
        ("unet", "layer.bias"),
        ("unet", "layer.weight"),
    }


def test_two_sets_of_which_none_is_the_main_one(tmp_path: Path) -> None:
    manifest = anchor(write(tmp_path, {"b.safetensors": safetensors(TWO), "a.safetensors": safetensors(TWO)}))
    assert {tensor.component for tensor in manifest.weights} == {"a", "b"}
    assert {tensor.component for tensor in anchor(tmp_path / "a.safetensors").weights} == {""}
