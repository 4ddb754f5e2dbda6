"""The official vectors: the subset in the repository, and the whole set where it is at hand."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from anchor.cli.main import main
from anchor.consensus.vectors.cases import find_cases
from anchor.consensus.vectors.runner import run_case
from tests.vectors.cut import ARCHIVE

WHOLE_SET = Path(__file__).parents[3] / "shared" / "vectors.tar.xz"


def _list_groups() -> list[str]:
    """PRESET/FORK/RUNNER of every case in the archive."""
    with tarfile.open(ARCHIVE) as archive:
        return sorted({"/".join(name.split("/")[1:4]) for name in archive.getnames()})


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The subset, unpacked."""
    folder = tmp_path_factory.mktemp("vectors")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "tests"


@pytest.mark.parametrize("group", _list_groups())
def test_subset(group: str, vectors: Path) -> None:
    results = [run_case(case) for case in find_cases(vectors / group)]
    assert [f"{result.case}: {result.difference}" for result in results if result.status != "passed"] == []


@pytest.mark.slow
def test_whole_set(tmp_path: Path) -> None:
    if not WHOLE_SET.exists():
        pytest.skip(f"the whole set is not at {WHOLE_SET}")
    with tarfile.open(WHOLE_SET) as archive:
        archive.extractall(tmp_path, filter="data")
    assert main(["vectors", str(tmp_path), "--jobs=2"]) == 0
