"""Kills are simulated here, so nothing has to reach the disk."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchor.node.sqlite.PRAGMAS", ("journal_mode = WAL", "synchronous = OFF"))
