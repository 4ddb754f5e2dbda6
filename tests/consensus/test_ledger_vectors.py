"""The ledger's own vectors: they pass, and their script makes the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchor.consensus.vectors.cases import find_cases
from anchor.consensus.vectors.runner import run_case
from tests.vectors.make_ledger import DESTINATION, main

RANDOMISED = "lasting"
"""ML-DSA's signatures differ from run to run."""


@pytest.mark.parametrize("handler", ["genesis/ledger", "operations/entry", "sanity/blocks", "ssz_static"])
def test_the_vectors_pass(handler: str) -> None:
    results = [run_case(case) for case in find_cases(DESTINATION / "ledger" / handler)]
    assert [f"{result.case}: {result.difference}" for result in results if result.status != "passed"] == []


def test_the_script_makes_the_same_vectors(tmp_path: Path) -> None:
    main(tmp_path / "ledger")
    fresh, kept = [_read(root) for root in (tmp_path / "ledger", DESTINATION)]
    assert fresh.keys() == kept.keys()
    assert [name for name in kept if fresh[name] != kept[name] and RANDOMISED not in name] == []


def _read(root: Path) -> dict[str, bytes]:
    files = [(case, file) for case in find_cases(root) for file in case.path.iterdir()]
    return {f"{case}/{file.name}": file.read_bytes() for case, file in files}
