"""What tests of the commands on a ledger share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., tuple[int, str, str]]
"""Runs `anchor` with these arguments; gives its exit code, its output, and what it told people."""


def publish_model(run: Run, version: str = "1", *more: str) -> tuple[int, str, str]:
    """`anchor publish` of acme/tiny@version, by Alice."""
    return run("publish", "model", "--model", "acme/tiny", "--version", version, "--key", "alice.key", *more)


def read_result(run: Run, *arguments: str) -> Any:
    """The result of a command that must succeed."""
    code, out, err = run(*arguments, "--json")
    envelope = json.loads(out)
    assert (code, envelope["error"], err) == (0, None, "")
    assert envelope["schema"] == "anchor/1"
    assert envelope["command"] == arguments[0]
    return envelope["result"]
