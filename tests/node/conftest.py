"""A ledger with one publication, made once; every test that asks for it gets a copy of its own."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from tests.node.tools import make_ledger, opened, publish


@pytest.fixture(scope="session")
def first_ledger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A folder that no test writes to, and its seed."""
    folder = tmp_path_factory.mktemp("ledgers") / "first"
    seed = make_ledger(folder)
    with opened(folder, seed) as service:
        publish(service, "1")
    return folder, seed


@pytest.fixture
def ledger(first_ledger: tuple[Path, bytes], tmp_path: Path) -> tuple[Path, bytes]:
    """A ledger with acme/tiny@1, and its seed."""
    folder, seed = first_ledger
    copytree(folder, tmp_path / "ledger")
    return tmp_path / "ledger", seed
