"""Files that are there whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from anchor.errors import Misuse, Unavailable
from anchor.files import PRIVATE, new_folder, read_bounded, write_new, write_over


def _names(folder: Path) -> list[str]:
    return sorted([path.name for path in folder.iterdir()])


def test_a_new_file_is_whole_and_private(tmp_path: Path) -> None:
    write_new(tmp_path / "key", b"secret", mode=PRIVATE)
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert _names(tmp_path) == ["key"]


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"old")
    with pytest.raises(Misuse, match="is there already"):
        write_new(tmp_path / "key", b"new")
    assert (tmp_path / "key").read_bytes() == b"old"
    assert _names(tmp_path) == ["key"]


def test_writing_over_replaces(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(b"old")
    write_over(tmp_path / "bundle", b"new")
    assert (tmp_path / "bundle").read_bytes() == b"new"
    assert _names(tmp_path) == ["bundle"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be written: no such file"):
        write_new(tmp_path / "missing" / "key", b"")


def test_a_folder_appears_only_when_it_is_full(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "ledger") as folder:
        (folder / "half").write_bytes(b"")
        raise KeyboardInterrupt
    assert _names(tmp_path) == []
    (tmp_path / "ledger").mkdir()  # empty: as good as none
    with new_folder(tmp_path / "ledger") as folder:
        (folder / "whole").write_bytes(b"1")
        assert not (tmp_path / "ledger" / "whole").exists()
    assert _names(tmp_path / "ledger") == ["whole"]
    assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["file", "full folder", "link to an empty folder"])
def test_a_folder_never_replaces_anything(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "ledger"
    if kind == "file":
        place.write_bytes(b"1")
    elif kind == "full folder":
        place.mkdir()
        (place / "file").write_bytes(b"1")
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    before = _names(tmp_path)
    with pytest.raises(Misuse, match="is there already"), new_folder(place):
        pass
    assert _names(tmp_path) == before


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(11))
    assert read_bounded(tmp_path / "key", 11, "a key") == bytes(11)
    with pytest.raises(Misuse, match="too large to be a key: more than 10 bytes"):
        read_bounded(tmp_path / "key", 10, "a key")
    with pytest.raises(Unavailable, match="cannot be read: no such file"):
        read_bounded(tmp_path / "none", 10, "a key")


def test_where_one_stands_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misuse, match="the folder that you are in"), new_folder(Path()):
        pass
