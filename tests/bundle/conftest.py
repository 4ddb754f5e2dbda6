"""One small ledger a session: eight validators, a few publications, six epochs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bundle.chains import Published, make_published
from tests.ml.checkpoints import Tensors, anchor, safetensors, write

TINY: Tensors = {
    "layers.0.weight": ("F32", [4, 2], bytes(range(32))),
    "layers.1.weight": ("U8", [8], b"\7" * 8),
}


def write_original(folder: Path) -> Path:
    """The files of acme/tiny 1.0."""
    return write(folder, {"model.safetensors": safetensors(TINY), "config.json": b'{"layers": 2}'})


def write_other(folder: Path) -> Path:
    """The files of acme/tiny 1.1."""
    return write(folder, {"model.safetensors": safetensors(TINY)})


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that was published as acme/tiny 1.0; not to be written to."""
    return write_original(tmp_path_factory.mktemp("published") / "tiny")


@pytest.fixture(scope="session")
def published(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The ledger, on which everything is final."""
    other = write_other(tmp_path_factory.mktemp("published") / "other")
    return make_published(anchor(original), anchor(other))


@pytest.fixture
def model(published: Published, original: Path, tmp_path: Path) -> Path:
    """A copy of the published folder, with its bundle for the genesis in it."""
    copy = shutil.copytree(original, tmp_path / "tiny")
    (copy / "model.anchor").write_bytes(published.older)
    return copy
