"""Verified loading: what is handed out is what was hashed, whatever happens to the file (rule 24)."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from anchor.errors import MissingFile, Misuse, TamperedFile, Unavailable
from anchor.ml import load as load_module
from anchor.ml.load import open_verified
from anchor.ml.manifest import Manifest
from tests.ml.checkpoints import TWO, Tensors, anchor, safetensors, shards, write

MIXED: Tensors = {
    **TWO,
    "bf16": ("BF16", [3], b"abcdef"),
    "empty": ("I64", [0, 2], b""),
    "flags": ("BOOL", [2], b"\0\1"),
    "scalar": ("F64", [], bytes(8)),
}
NAME = "model.safetensors"


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, Manifest]:
    files = {NAME: safetensors(MIXED, metadata={"format": "pt"}), "config.json": b'{"a": 1}'}
    return tmp_path, anchor(write(tmp_path, files))


def test_the_same_as_safe_open(model: tuple[Path, Manifest]) -> None:
    path, manifest = model
    with open_verified(path, manifest) as ours, safe_open(path / NAME, framework="numpy") as theirs:
        assert ours.keys() == sorted(theirs.keys())
        assert ours.metadata() == theirs.metadata()
        for name in ("layer.bias", "layer.weight", "empty", "flags", "scalar"):
            one, other = ours.get_tensor(name), theirs.get_tensor(name)
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert np.array_equal(one, other)
        one, other = ours.get_slice("layer.weight"), theirs.get_slice("layer.weight")
        assert one.get_shape() == other.get_shape()
        assert one.get_dtype() == other.get_dtype()
        assert np.array_equal(one[1:, :2], other[1:, :2])


def test_a_dtype_that_numpy_lacks_comes_as_bytes(model: tuple[Path, Manifest]) -> None:
    with open_verified(*model) as opened:
        array = opened.get_tensor("bf16")
    assert array.dtype == np.uint8
    assert array.tobytes() == b"abcdef"


def test_shards_are_one_model(tmp_path: Path) -> None:
    manifest = anchor(write(tmp_path, shards(MIXED, 3)))
    with open_verified(tmp_path, manifest) as opened:
        assert opened.keys() == sorted(MIXED)
        for name, (_, _, data) in MIXED.items():
            assert opened.get_bytes(name) == data


def test_components(tmp_path: Path) -> None:
    files = {NAME: safetensors(TWO), "optimizer.safetensors": safetensors({"m": ("U8", [1], b"m")})}
    manifest = anchor(write(tmp_path, files))
    with open_verified(tmp_path, manifest, component="optimizer") as opened:
        assert opened.keys() == ["m"]
    with pytest.raises(Misuse, match="no component 'unet'"):
        open_verified(tmp_path, manifest, component="unet")


def test_a_changed_tensor_is_not_handed_out(model: tuple[Path, Manifest]) -> None:
    path, manifest = model
    data = (path / NAME).read_bytes()
    with open_verified(path, manifest) as opened:
        (path / NAME).write_bytes(data[:-1] + b"\1")  # after the header was verified
        with pytest.raises(TamperedFile, match="'scalar'"):
            opened.get_tensor("scalar")
        assert opened.get_tensor("layer.bias")[0] == 1
        os.truncate(path / NAME, len(data) - 4)
        with pytest.raises(TamperedFile, match="ends"):
            opened.get_tensor("scalar")


def test_what_was_handed_out_does_not_change_with_the_file(model: tuple[Path, Manifest]) -> None:
    path, manifest = model
    with open_verified(path, manifest) as opened:
        array = opened.get_tensor("layer.weight")
        before = array.copy()
        data = (path / NAME).read_bytes()
        with (path / NAME).open("r+b") as file:
            file.write(bytes(len(data)))
        assert np.array_equal(array, before)
        array[0, 0] = 99  # it is the caller's own
    assert array[0, 0] == 99


@pytest.mark.parametrize("change", ["header", "size", "gone", "other"])
def test_a_changed_header_is_not_opened(model: tuple[Path, Manifest], change: str) -> None:
    path, manifest = model
    data = (path / NAME).read_bytes()
    if change == "gone":
        (path / NAME).unlink()
    else:
        new = {"header": data.replace(b'"pt"', b'"np"'), "size": data + b"\0", "other": safetensors(TWO)}
        (path / NAME).write_bytes(new[change])
    with pytest.raises(MissingFile if change == "gone" else TamperedFile):
        open_verified(path, manifest)


def test_a_manifest_that_misdescribes_is_refused(model: tuple[Path, Manifest]) -> None:
    path, manifest = model
    weights = tuple(
        tensor.replace(shape=(4, 3)) if tensor.name == "layer.weight" else tensor
        for tensor in manifest.weights
    )
    with pytest.raises(TamperedFile, match="describes other tensors"):
        open_verified(path, manifest.replace(weights=weights))


def test_files_without_tensors(model: tuple[Path, Manifest]) -> None:
    path, manifest = model
    with open_verified(path, manifest) as opened:
        assert opened.get_file("config.json") == b'{"a": 1}'
        for wrong in ("absent.json", NAME):
            with pytest.raises(Misuse):
                opened.get_file(wrong)
        (path / "config.json").write_bytes(b'{"a": 2}')
        with pytest.raises(TamperedFile):
            opened.get_file("config.json")


def test_what_the_manifest_does_not_name_is_never_read(model: tuple[Path, Manifest]) -> None:
    path, manifest = model
    write(path, {"adapter_config.json": b"{}", "stray.safetensors": safetensors(MIXED)})
    with open_verified(path, manifest) as opened:
        assert opened.keys() == sorted(MIXED)
        with pytest.raises(Misuse):
            opened.get_file("adapter_config.json")


def test_unknown_names(model: tuple[Path, Manifest]) -> None:
    with open_verified(*model) as opened:
        for get in (opened.get_bytes, opened.get_tensor, opened.get_slice):
            with pytest.raises(Misuse, match="no tensor 'nope'"):
                get("nope")


def test_a_large_skeleton_is_not_taken_into_memory(
    model: tuple[Path, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "MAX_SKELETON", 8)
    with pytest.raises(Misuse):
        open_verified(*model)


def test_without_numpy_there_are_bytes(model: tuple[Path, Manifest], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with open_verified(*model) as opened:
        assert bytes(opened.get_bytes("flags")) == b"\0\1"
        with pytest.raises(Unavailable, match="NumPy"):
            opened.get_tensor("flags")
