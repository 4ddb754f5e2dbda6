"""Models on disk: what is listed, in which order, and within which bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anchor.errors import Misuse, Unavailable, Unsafe
from anchor.ml import source as source_module
from anchor.ml.build import build_manifest
from anchor.ml.source import open_source
from tests.ml.checkpoints import TWO, anchor, look, safetensors, write


def test_the_order_is_by_bytes_of_the_whole_path(tmp_path: Path) -> None:
    names = ["b", "a/z", "a.txt", "a-b", "ä", "Z", "a/b/c"]
    write(tmp_path, dict.fromkeys(names, b""))
    with open_source(tmp_path) as source:
        assert list(source.listing().files) == sorted(names, key=str.encode)


def test_one_file_is_a_model_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"one.bin": b"1", "other.bin": b"2"})
    assert [file.path for file in anchor(tmp_path / "one.bin").files] == ["one.bin"]


def test_the_users_own_path_may_lead_over_links(tmp_path: Path) -> None:
    write(tmp_path / "real", {"one.bin": b"1"})
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "one").symlink_to("real/one.bin")
    assert anchor(tmp_path / "link") == anchor(tmp_path / "real")
    assert [file.path for file in anchor(tmp_path / "one").files] == ["one.bin"]


@pytest.mark.parametrize("name", ["absent", "dangling", "loop", "file/below"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"file": b""})
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Unavailable):
        open_source(tmp_path / name)


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(Misuse, match="no file"):
        anchor(tmp_path)
    write(tmp_path, {".git/HEAD": b"ref"})
    with pytest.raises(Misuse, match="no file"):
        anchor(tmp_path)


def test_a_fifo_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Misuse, match="FIFO"):
        open_source(tmp_path / "fifo")


def test_a_name_that_is_not_utf_8_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    with pytest.raises(Unsafe, match="not UTF-8"):
        anchor(tmp_path)


def test_a_file_that_grows_between_survey_and_hashing_is_told(tmp_path: Path) -> None:
    found = look(write(tmp_path, {"model.safetensors": safetensors(TWO)}))
    write(tmp_path, {"model.safetensors": safetensors(TWO) + b"more"})
    with open_source(tmp_path) as source, pytest.raises(Unavailable, match="changed while"):
        build_manifest(source, found=found)


def test_counts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {f"{n}": b"" for n in range(9)} | {".git/a": b"", ".git/b": b""})
    monkeypatch.setattr(source_module, "MAX_FILES", 9)
    with open_source(tmp_path) as source:
        assert len(source.listing().files) == 9
    monkeypatch.setattr(source_module, "MAX_FILES", 8)
    with open_source(tmp_path) as source, pytest.raises(Unsafe, match="more than 8"):
        source.listing()
    monkeypatch.setattr(source_module, "MAX_ENTRIES", 11)
    with open_source(tmp_path) as source, pytest.raises(Unsafe, match="more than 11"):
        source.listing()


def test_depth_is_bounded(tmp_path: Path) -> None:
    write(tmp_path, {"d/" * source_module.MAX_DEPTH + "file": b""})
    with open_source(tmp_path) as source:
        assert len(source.listing().files) == 1
    write(tmp_path, {"d/" * (source_module.MAX_DEPTH + 1) + "file": b""})
    with open_source(tmp_path) as source, pytest.raises(Unsafe, match="deep"):
        source.listing()


def test_only_a_snapshot_inside_a_cache_may_link(tmp_path: Path) -> None:
    """A folder that is merely called `models--x`, or lies beside its snapshots, follows nothing."""
    for inside in ("models--x", "models--x/refs/main", "models--x/snapshots", "x/snapshots/rev"):
        folder = write(tmp_path / inside, {"real": b"r"})
        (folder / "link").symlink_to("real")
        with pytest.raises(Unsafe):
            anchor(folder)
        (folder / "link").unlink()
