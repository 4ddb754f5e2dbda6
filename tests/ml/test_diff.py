"""What `diff` says of two models."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchor.ml.diff import Change, Difference, compare_manifests
from anchor.ml.manifest import Alias, Manifest
from tests.ml.checkpoints import TWO, Tensors, anchor, safetensors, shards, write


def compare(tmp_path: Path, one: dict[str, bytes], other: dict[str, bytes]) -> Difference:
    return compare_manifests(anchor(write(tmp_path / "one", one)), anchor(write(tmp_path / "other", other)))


def model(tensors: Tensors, **options: object) -> dict[str, bytes]:
    return {"model.safetensors": safetensors(tensors, **options)}  # type: ignore[arg-type]


def test_a_model_equals_itself(tmp_path: Path) -> None:
    difference = compare(tmp_path, model(TWO), model(TWO))
    assert difference.is_equal
    assert difference.tensors == difference.files == ()


WEIGHT = TWO["layer.weight"][2]


@pytest.mark.parametrize(
    ("tensors", "change"),
    [
        ({"layer.bias": TWO["layer.bias"]}, Change("removed", "layer.weight")),
        ({**TWO, "new": ("U8", [1], b"1")}, Change("added", "new")),
        (
            {"layer.bias": TWO["layer.bias"], "renamed": TWO["layer.weight"]},
            Change("renamed", "layer.weight", "now renamed"),
        ),
        (
            {**TWO, "layer.weight": ("F32", [3, 4], bytes(48))},
            Change("changed", "layer.weight", "1 of 1 chunks differ"),
        ),
        (
            {**TWO, "layer.weight": ("F32", [4, 3], WEIGHT)},
            Change("shape", "layer.weight", "[3, 4] → [4, 3]"),
        ),
        (
            {**TWO, "layer.weight": ("BF16", [3, 4], bytes(24))},
            Change("dtype", "layer.weight", "F32 → BF16"),
        ),
    ],
    ids=["removed", "added", "renamed", "changed", "shape", "dtype"],
)  # fmt: skip
def test_one_change_of_tensors(tmp_path: Path, tensors: Tensors, change: Change) -> None:
    difference = compare(tmp_path, model(TWO), model(tensors))
    assert difference.tensors == (change,)
    assert not difference.weights_equal
    assert [item.kind for item in difference.files] == ["changed"]


@pytest.mark.parametrize(
    ("options", "what"),
    [({"padding": 5}, "same metadata"), ({"metadata": {"format": "pt"}}, "other metadata")],
    ids=["padding", "metadata"],
)
def test_written_anew(tmp_path: Path, options: dict[str, object], what: str) -> None:
    difference = compare(tmp_path, model(TWO), model(TWO, **options))
    assert difference.weights_equal
    assert not difference.files_equal
    assert difference.files == (Change("rewritten", "model.safetensors", f"same weights, {what}"),)


def test_files(tmp_path: Path) -> None:
    one = {"a.json": b"{}", "b.txt": b"b" * 40, "c": b"c", "gone": b"1234"}
    other = {"a.json": b"{ }", "b.txt": b"B" * 40, "moved": b"c", "new": b"12345"}
    assert compare(tmp_path, one, other).files == (
        Change("changed", "a.json", "2 → 3 bytes"),
        Change("changed", "b.txt"),
        Change("renamed", "c", "now moved"),
        Change("removed", "gone"),
        Change("added", "new"),
    )


def test_other_shards_are_other_files_with_the_same_weights(tmp_path: Path) -> None:
    difference = compare(tmp_path, model(TWO), shards(TWO, 2))
    assert difference.weights_equal
    assert {change.kind for change in difference.files} == {"added", "removed"}


def test_case_13_an_alias_is_no_missing_data(tmp_path: Path) -> None:
    """One form ties lm_head to embed; the other stores both; a third lacks one."""
    both = {"embed": TWO["layer.weight"], "lm_head": TWO["layer.weight"]}
    stored = anchor(write(tmp_path / "both", model(both)))
    single = anchor(write(tmp_path / "one", model({"embed": TWO["layer.weight"]})))
    tied: Manifest = single.replace(aliases=(Alias(component="", name="lm_head", tensor=0),))
    assert compare_manifests(stored, tied).tensors == (Change("aliased", "lm_head", "alias of embed"),)
    assert compare_manifests(tied, stored).tensors == (Change("aliased", "lm_head", "alias of embed"),)
    assert compare_manifests(stored, single).tensors == (
        Change("removed", "lm_head", "the same bytes as embed"),
    )


def test_case_13_tensors_that_cannot_be_read_are_not_said_to_be_missing(tmp_path: Path) -> None:
    stored = {"model.safetensors": safetensors(TWO), "vocabulary.txt": b"a"}
    pickled = {"pytorch_model.bin": b"PK\3\4", "vocabulary.txt": b"b"}
    difference = compare(tmp_path, pickled, stored)
    assert difference.unread == ("pytorch_model.bin",)
    assert compare(tmp_path / "again", stored | pickled, stored | pickled).unread == ()


def test_swapped_names_are_changes_not_renames(tmp_path: Path) -> None:
    pair = {"a": ("U8", [1], b"1"), "b": ("U8", [1], b"2")}
    swapped = {"a": pair["b"], "b": pair["a"]}
    assert [change.kind for change in compare(tmp_path, model(pair), model(swapped)).tensors] == [
        "changed"
    ] * 2


def test_many_renames_take_no_quadratic_time(tmp_path: Path) -> None:
    one: Tensors = {f"a.{n}": ("U32", [1], n.to_bytes(4, "little")) for n in range(3000)}
    other: Tensors = {f"b.{name}": tensor for name, tensor in one.items()}
    difference = compare(tmp_path, model(one), model(other))
    assert {change.kind for change in difference.tensors} == {"renamed"}
