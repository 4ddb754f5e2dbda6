"""The OpenAPI document against the node that serves it: generated requests, and no difference found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anchor.node.clock import SystemClock
from tests.node.http.conftest import TOKEN
from tests.node.http.test_command import running
from tests.node.tools import make_ledger, opened, publish

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
SKIPPED = "positive_data_acceptance"
"""A body that fits the document may still break a rule of the ledger, which no schema can say."""


@pytest.mark.slow
def test_no_difference_is_found(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    folder, clock = tmp_path / "ledger", SystemClock()
    seed = make_ledger(folder, clock)
    with opened(folder, seed, clock) as service:
        publish(service, "1")
    tokens = tmp_path / "operators"
    tokens.write_text(TOKEN)
    tokens.chmod(0o600)
    with running(folder, "--rate", "0", "--operators", str(tokens)) as (_, line):
        command = [str(SCHEMATHESIS), "run", f"http://127.0.0.1:{line['port']}/openapi.json", "--no-color"]
        command += ["--max-examples", "20", "--phases", "examples,coverage,fuzzing", "--seed", "1"]
        command += ["--exclude-checks", SKIPPED, "--continue-on-failure"]
        command += ["--exclude-path", "/eth/v1/events"]  # it goes on for ever: see test_description
        command += ["--header", f"Authorization: Bearer {TOKEN}"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False, env=os.environ
        )
    found = [text[:200] for text in done.stdout.splitlines() if text.startswith(("- ST", "___"))]
    assert done.returncode == 0, "\n".join(found)
