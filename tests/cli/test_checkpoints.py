"""`anchor hash`, `inspect` and `diff`, as a person and as a program sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anchor.cli.main import main
from anchor.ml.manifest import decode_manifest, manifest_root, weights_root
from tests.ml.checkpoints import TWO, anchor, safetensors, shards, write

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write(
        tmp_path / "model", {"model.safetensors": safetensors(TWO), "config.json": b"{}", ".DS_Store": b""}
    )


def run(capture: Capture, *arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON envelope."""
    code = main([*map(str, arguments), "--json"])
    envelope: dict[str, Any] = json.loads(capture.readouterr().out)
    assert envelope["command"] == arguments[0]
    return code, envelope


def test_hash_prints_the_roots(model: Path, capsys: Capture) -> None:
    manifest = anchor(model)
    assert main(["hash", str(model)]) == 0
    text = capsys.readouterr().out
    assert f"0x{manifest_root(manifest).hex()}" in text
    assert f"0x{weights_root(manifest).hex()}" in text
    assert "ignored   .DS_Store" in text
    assert max(map(len, text.splitlines())) <= 80
    code, envelope = run(capsys, "hash", model)
    assert code == 0
    assert envelope["result"]["manifest_root"] == f"0x{manifest_root(manifest).hex()}"
    assert envelope["result"]["tensors"] == 2


def test_hash_writes_the_manifest_once(model: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "model.manifest"
    lineage = tmp_path / "lineage.json"
    lineage.write_text('{"operation": "train", "step": 7}')
    assert main(["hash", str(model), "--manifest", str(target), "--lineage", str(lineage)]) == 0
    manifest = decode_manifest(target.read_bytes())
    assert manifest.lineage.step == (7,)
    assert manifest.files == anchor(model).files
    capsys.readouterr()
    code, envelope = run(capsys, "hash", model, "--manifest", target)
    assert (code, envelope["error"]["kind"]) == (2, "Misuse")


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        ({"model.safetensors": safetensors(TWO)[:-1]}, 1, "MALFORMED"),
        ({"model.safetensors": safetensors({"w": ("U3", [8], b"abc")})}, 0, "UNSUPPORTED"),
        ({"model.safetensors.index.json": shards(TWO, 2)["model.safetensors.index.json"]}, 1, "EXTRA"),
    ],
)
def test_hash_says_what_is_wrong(
    model: Path, capsys: Capture, change: dict[str, bytes], code: int, word: str
) -> None:
    write(model, change)
    assert main(["hash", str(model)]) == code
    assert word in capsys.readouterr().out


def test_a_missing_shard_is_incomplete(tmp_path: Path, capsys: Capture) -> None:
    files = shards(TWO, 2)
    del files["model-00001-of-00002.safetensors"]
    code, envelope = run(capsys, "hash", write(tmp_path, files))
    assert code == 4
    assert envelope["result"]["findings"][0]["answer"] == "MISSING"


def test_what_cannot_be_hashed_is_refused_in_words(model: Path, capsys: Capture) -> None:
    assert main(["hash", str(model / "nope")]) == 3
    (model / "link").symlink_to("config.json")
    assert main(["hash", str(model)]) == 1
    text = capsys.readouterr().err
    assert "There is no model at" in text
    assert "is a link outside a model cache" in text


def test_hostile_names_are_escaped(tmp_path: Path, capsys: Capture) -> None:
    name = "w\x1b[31m\u202eevil"
    write(tmp_path, {"model.safetensors": safetensors({name: ("U8", [1], b"1")})})
    assert main(["inspect", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31m\\u202eevil" in text


def test_inspect(model: Path, capsys: Capture) -> None:
    assert main(["inspect", str(model)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("weights only\n15 parameters in 2 tensors: F32 60 B")
    assert "no   optimizer" in text
    assert "layer.weight  F32      3x4  48 B" in text
    code, envelope = run(capsys, "inspect", model)
    assert code == 0
    assert envelope["result"]["kind"] == "weights only"
    assert envelope["result"]["tensors"][1]["shape"] == [3, 4]


def test_inspect_shows_at_most_a_screen(tmp_path: Path, capsys: Capture) -> None:
    many = {f"layers.{n:03}.with.a.long.name.that.does.not.fit": ("U8", [1], b"1") for n in range(60)}
    assert main(["inspect", str(write(tmp_path, {"model.safetensors": safetensors(many)}))]) == 0
    text = capsys.readouterr().out
    assert "and 36 more" in text
    assert max(map(len, text.splitlines())) <= 80


def test_diff(model: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["diff", str(model), str(model)]) == 0
    other = write(
        tmp_path / "other", {"model.safetensors": safetensors(TWO, padding=3), "config.json": b"{ }"}
    )
    capsys.readouterr()
    assert main(["diff", str(model), str(other)]) == 1
    text = capsys.readouterr().out
    assert "weights  same" in text
    assert "rewritten  model.safetensors  same weights, same metadata" in text
    code, envelope = run(capsys, "diff", model, other)
    assert code == 1
    assert envelope["result"]["weights_equal"] is True


def test_diff_takes_manifests(model: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "model.manifest"
    assert main(["hash", str(model), "--manifest", str(target)]) == 0
    assert main(["diff", str(target), str(model)]) == 0
    target.write_bytes(target.read_bytes() + b"\0")
    capsys.readouterr()
    assert main(["diff", str(target), str(model)]) == 1
    assert "is no whole manifest" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["hash", "inspect", "diff"])
def test_help_has_an_example(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"  anchor {command} " in capsys.readouterr().out
