"""`anchor vectors` says what failed, where, and exits by it."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import cramjam
import pytest

from anchor.cli.main import main
from tests.vectors.cut import ARCHIVE

SHUFFLING = "minimal/phase0/shuffling"
EXIT = "minimal/phase0/operations/voluntary_exit/pyspec_tests"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of the vectors."""
    folder = tmp_path_factory.mktemp("pristine")
    with tarfile.open(ARCHIVE) as archive:
        wanted = (f"tests/{SHUFFLING}/", f"tests/{EXIT}/")
        members = [info for info in archive.getmembers() if info.name.startswith(wanted)]
        archive.extractall(folder, members, filter="data")
    return folder / "tests"


@pytest.fixture
def tree(pristine: Path, tmp_path: Path) -> Path:
    """A copy of them, to be tampered with."""
    return shutil.copytree(pristine, tmp_path / "tests")


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    status = main(["vectors", *map(str, arguments), "--json"])
    envelope: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, envelope["result"] or envelope["error"]


def _find(folder: Path, file: str, *, there: bool = True) -> Path:
    """The first case that has `file`, or that has not."""
    return next(case for case in sorted(folder.iterdir()) if (case / file).exists() == there)


def test_counts_by_handler(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, result = _run(capsys, tree, "--jobs", 2)
    assert (status, result["failed"], result["unsupported"]) == (0, 0, 0)
    assert result["passed"] == sum(row["passed"] for row in result["handlers"]) == 6
    assert {row["handler"] for row in result["handlers"]} == {"core", "voluntary_exit"}


def test_filter_narrows(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, result = _run(capsys, tree, "--filter", "shuffling/core")
    assert (status, result["passed"]) == (0, 2)


def test_places_the_first_difference(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = _find(tree / EXIT, "post.ssz_snappy")
    post = case / "post.ssz_snappy"
    state = bytearray(cramjam.snappy.decompress_raw(post.read_bytes()))
    state[0] ^= 1  # the lowest byte of genesis_time
    post.write_bytes(bytes(cramjam.snappy.compress_raw(bytes(state))))
    status, result = _run(capsys, tree)
    assert (status, result["failed"]) == (1, 1)
    [failure] = result["failures"]
    assert failure["path"] == "genesis_time"
    assert int(failure["expected"]) ^ int(failure["got"]) == 1
    assert main(["vectors", str(tree)]) == 1
    assert f"FAILED {EXIT}/{case.name}: genesis_time: expected" in capsys.readouterr().out


def test_a_missing_post_demands_a_refusal(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (_find(tree / EXIT, "post.ssz_snappy") / "post.ssz_snappy").unlink()
    status, result = _run(capsys, tree)
    assert status == 1
    assert result["failures"][0]["expected"] == "a refusal"


def test_a_post_demands_acceptance(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = _find(tree / EXIT, "post.ssz_snappy", there=False)
    (refused / "post.ssz_snappy").write_bytes((refused / "pre.ssz_snappy").read_bytes())
    status, result = _run(capsys, tree)
    assert status == 1
    assert "InvalidTransition" in result["failures"][0]["got"]


def test_broken_files_fail_their_case_alone(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [first, second] = sorted((tree / SHUFFLING).glob("core/shuffle/*"))
    (first / "mapping.yaml").write_text("{")
    (second / "mapping.yaml").write_text("seed: '0x00'\ncount: x\nmapping: []\n")
    status, result = _run(capsys, tree)
    assert (status, result["failed"], result["passed"]) == (1, 2, 4)


def test_a_bomb_is_not_unpacked(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = _find(tree / EXIT, "post.ssz_snappy")
    (case / "pre.ssz_snappy").write_bytes(b"\xff\xff\xff\xff\x0f" + bytes(8))  # says that it has 4 GiB
    status, result = _run(capsys, tree)
    assert status == 1
    assert "would unpack to" in result["failures"][0]["got"]


def test_unsupported_needs_leave(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    core = tree / SHUFFLING / "core"
    core.rename(core.with_name("other"))
    assert _run(capsys, tree)[0] == 1
    assert _run(capsys, tree, "--unsupported-ok", "shuffling/core")[0] == 1
    status, result = _run(capsys, tree, "--unsupported-ok", "shuffling/other")
    assert (status, result["unsupported"], result["passed"]) == (0, 2, 4)
    assert _run(capsys, tree, "--unsupported-ok", "shuffling")[0] == 0


def test_an_unknown_fork_is_unsupported(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "minimal/phase0").rename(tree / "minimal/someday")
    status, result = _run(capsys, tree)
    assert (status, result["unsupported"]) == (1, 6)


def test_no_vectors_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, error = _run(capsys, tmp_path)
    assert (status, error["kind"]) == (2, "Misuse")
    assert _run(capsys, tmp_path, "--jobs", 0)[0] == 2
