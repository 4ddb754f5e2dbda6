"""What kind of checkpoint a folder is, and what it lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anchor.errors import Misuse
from anchor.ml.inspect import PARTS, Inspection, inspect_model
from anchor.ml.source import open_source
from anchor.ml.survey import survey
from tests.ml.checkpoints import TWO, safetensors, write

MOMENTS = {f"{moment}.{name}": tensor for moment in ("exp_avg", "exp_avg_sq") for name, tensor in TWO.items()}
STATE = {"step": 36, "lr_scheduler": {"type": "cosine"}, "rng_state": {"bit_generator": "PCG64"}}
OURS = {
    "model.safetensors": safetensors(TWO),
    "optimizer.safetensors": safetensors(MOMENTS),
    "trainer_state.json": json.dumps(STATE).encode(),
    "config.json": b"{}",
}
TRAINER = {
    "model.safetensors": safetensors(TWO),
    "optimizer.pt": b"PK\x03\x04",
    "scheduler.pt": b"PK\x03\x04",
    "rng_state.pth": b"PK\x03\x04",
    "trainer_state.json": b'{"global_step": 500, "log_history": []}',
    "training_args.bin": b"PK\x03\x04",
    "config.json": b"{}",
}


def look(folder: Path) -> Inspection:
    with open_source(folder) as source:
        return inspect_model(source, survey(source))


@pytest.mark.parametrize("files", [OURS, TRAINER], ids=["ours", "trainer"])
def test_complete(tmp_path: Path, files: dict[str, bytes]) -> None:
    seen = look(write(tmp_path, files))
    assert seen.kind == "training checkpoint, complete"
    assert seen.missing == ()
    assert seen.parameters == 15
    assert [part.name for part in seen.parts] == list(PARTS)


@pytest.mark.parametrize(
    ("files", "without", "missing"),
    [
        (OURS, "optimizer.safetensors", ("optimizer",)),
        (OURS, "trainer_state.json", ("step", "schedule", "random state")),
        (OURS, "config.json", ("configuration",)),
        (TRAINER, "optimizer.pt", ("optimizer",)),
        (TRAINER, "scheduler.pt", ("schedule",)),
        (TRAINER, "rng_state.pth", ("random state",)),
        (TRAINER, "trainer_state.json", ("step",)),
    ],
)
def test_incomplete(tmp_path: Path, files: dict[str, bytes], without: str, missing: tuple[str, ...]) -> None:
    seen = look(write(tmp_path, {path: data for path, data in files.items() if path != without}))
    assert seen.kind == "training checkpoint, incomplete"
    assert seen.missing == missing


def test_weights_only(tmp_path: Path) -> None:
    seen = look(write(tmp_path, {"model.safetensors": safetensors(TWO), "config.json": b"{}"}))
    assert seen.kind == "weights only"
    assert seen.missing == ("optimizer", "step", "schedule", "random state")
    assert seen.bytes_by_dtype == {"F32": 60}


def test_opaque_weights_are_weights(tmp_path: Path) -> None:
    seen = look(write(tmp_path, {"model.gguf": b"GGUF", "config.json": b"{}"}))
    assert seen.kind == "weights only"
    assert seen.parts[0].where == "model.gguf"
    assert seen.files[1] == ("model.gguf", 4, "GGUF")


def test_an_optimizer_alone_is_no_model(tmp_path: Path) -> None:
    assert look(write(tmp_path, {"optimizer.pt": b"PK\x03\x04"})).kind == "no weights"


def test_an_adapter(tmp_path: Path) -> None:
    files = {"adapter_model.safetensors": safetensors(TWO), "adapter_config.json": b"{}"}
    assert look(write(tmp_path, files)).kind == "adapter"


def test_moments_that_leave_weights_out_are_told(tmp_path: Path) -> None:
    half = {name: tensor for name, tensor in MOMENTS.items() if "bias" not in name}
    seen = look(write(tmp_path, OURS | {"optimizer.safetensors": safetensors(half)}))
    assert "no moments of 1 of 2 tensors: layer.bias" in seen.parts[1].what


@pytest.mark.parametrize("state", [b"{", b"[" * 100_000, b"[]", b"\xff", b'{"step": null}'])
def test_a_broken_state_shows_nothing(tmp_path: Path, state: bytes) -> None:
    seen = look(write(tmp_path, OURS | {"trainer_state.json": state}))
    assert seen.missing == ("step", "schedule", "random state")


def test_the_nearest_configuration_counts(tmp_path: Path) -> None:
    seen = look(write(tmp_path, OURS | {"1_Pooling/config.json": b"{}"}))
    assert [part.where for part in seen.parts if part.name == "configuration"] == ["config.json"]


def test_json_has_everything(tmp_path: Path) -> None:
    seen = look(write(tmp_path, OURS)).to_json()
    assert json.loads(json.dumps(seen))["tensors"][0] == {
        "component": "",
        "path": "model.safetensors",
        "name": "layer.bias",
        "dtype": "F32",
        "shape": [3],
        "length": 12,
    }


def test_shards_are_counted(tmp_path: Path) -> None:
    seen = look(write(tmp_path, {"a.safetensors": safetensors(TWO), "b.safetensors": safetensors(TWO)}))
    assert (seen.parts[0].where, seen.parts[0].what) == ("a.safetensors", "and 1 more")


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=f"There is no file in '{tmp_path}'"):
        look(tmp_path)
