"""`anchor verify` of a 90 MB model as a whole process, beside hashing the file with hashlib alone."""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.harness import Comparison, Sample, compare

SIZE = 90_000_000
HASH = "import hashlib, sys; print(hashlib.file_digest(open(sys.argv[1], 'rb'), 'sha256').hexdigest())"
ANCHOR = [sys.executable, "-m", "anchor.cli.main"]


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """Publishes a model on a ledger of its own, then verifies it again and again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model" / "model.safetensors"
        write_model(model)
        verify = _publish(folder)
        candidates = {
            "hashlib, whole process": lambda: _run([sys.executable, "-c", HASH, str(model)]),
            "anchor --help": lambda: _run([*ANCHOR, "--help"]),
            "anchor verify": lambda: _run(verify),
        }
        return [compare(f"a model of {SIZE // 10**6} MB, whole processes", candidates, rounds=options.rounds)]


def write_model(path: Path) -> None:
    """A safetensors file of SIZE bytes of weights in one tensor."""
    header = f'{{"weight":{{"dtype":"U8","shape":[{SIZE}],"data_offsets":[0,{SIZE}]}}}}'.encode()
    path.parent.mkdir()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.write(os.urandom(1 << 20) * (SIZE >> 20) + bytes(SIZE % (1 << 20)))


def _publish(folder: Path) -> list[str]:
    """Publishes the model; the command that verifies it."""
    os.environ["ANCHOR_PASSPHRASE"] = "for the bench only"  # noqa: S105
    ledger, key, model = folder / "ledger", folder / "publisher.key", folder / "model"
    for words in (
        ["init", ledger],
        ["keygen", key],
        ["publish", model, "--model", "bench/model", "--version", "1", "--key", key, "--ledger", ledger],
    ):
        subprocess.run([*ANCHOR, *map(str, words)], check=True, capture_output=True)  # noqa: S603
    return [*ANCHOR, "verify", str(model), "--model", "bench/model", *_read_trust(ledger, key)]


def _read_trust(ledger: Path, key: Path) -> list[str]:
    genesis = json.loads((ledger / "network.json").read_text())["genesis"]
    return ["--trust", genesis, "--publisher", json.loads(key.read_text())["identity"]]


def _run(command: Sequence[str]) -> Sample:
    """Wall and processor seconds of a whole process, its children included."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Sample(wall, used)
