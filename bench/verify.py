"""`anchor verify` as a whole process, beside `model_signing verify` and hashing the files with hashlib alone.

Both verifiers run as their users run them, with their defaults: they start, read what was signed, check its
signatures, and compare every file of the folder with it. `model_signing` checks one ECDSA signature by a key
that is given; anchor walks from a trusted checkpoint to the publication.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from anchor.bundle.api import BUNDLE_NAME
from anchor.bundle.evidence import Expectations
from anchor.bundle.finality import signatures
from anchor.bundle.trust import resolve_trust
from anchor.bundle.verify import verify_bundle
from bench.checkpoints import write_checkpoint
from bench.harness import Comparison, Sample, compare

SMALL = 90_000_000
HASH = """\
import hashlib, pathlib, sys
for path in pathlib.Path(sys.argv[1]).iterdir():
    hashlib.file_digest(path.open("rb", buffering=0), "sha256")
"""
Commands = dict[str, list[str] | None]
"""Command lines by what is measured; None for a peer that is not installed."""
ANCHOR = [sys.executable, "-m", "anchor.cli.main"]


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """Publishes two models on a ledger of their own, then verifies them again and again."""
    with tempfile.TemporaryDirectory(prefix="anchor-bench-") as name:
        folder = Path(name)
        small, large = folder / "small", folder / "large"
        write_checkpoint(small, SMALL, 1)
        write_checkpoint(large, int(options.gigabytes * 1e9), 5)
        trust, publisher = _found(folder)
        commands = {model: _publish(model, trust, publisher) for model in (small, large)}
        for model in (small, large):
            commands[model] = _sign(model, options.model_signing) | commands[model]
        commands[small]["anchor --help"] = [*ANCHOR, "--help"]
        return [
            _compare(small, commands[small], options.rounds, "anchor verify in 0.3 s, --help in 0.15 s"),
            _compare(large, commands[large], options.rounds, "2.5 wall x of model_signing"),
            _compare_bundle(small, trust, options.rounds),
        ]


def _compare(model: Path, commands: Commands, rounds: int, asked: str) -> Comparison:
    size = sum(path.stat().st_size for path in model.iterdir())
    candidates = {name: command and partial(_run, command) for name, command in commands.items()}
    peak = _measure_peak(commands["anchor verify"] or [])
    title = f"Whole processes on a model of {size / 1e6:.0f} MB; peak memory of anchor verify {peak} MB"
    return compare(title, candidates, rounds=rounds, asked=asked)


def _compare_bundle(model: Path, trust: str, rounds: int) -> Comparison:
    """The keys of its validators are parsed every time."""
    data, checkpoint = (model / BUNDLE_NAME).read_bytes(), resolve_trust(trust).checkpoint
    now = int(time.time())

    def check() -> None:
        signatures.cache_clear()
        verify_bundle(data, checkpoint, Expectations(), now=now)

    title = f"A bundle of {len(data)} bytes, without files"
    return compare(title, {"anchor": check}, rounds=rounds, asked="50 ms")


def _found(folder: Path) -> tuple[str, str]:
    """A ledger and a publisher: the checkpoint to trust, and the publisher's identity."""
    os.environ["ANCHOR_PASSPHRASE"] = "for the bench only"  # noqa: S105
    ledger, key = folder / "ledger", folder / "publisher.key"
    _run([*ANCHOR, "init", str(ledger)])
    _run([*ANCHOR, "keygen", str(key)])
    genesis = json.loads((ledger / "network.json").read_text())["genesis"]
    return genesis, json.loads(key.read_text())["identity"]


def _publish(model: Path, trust: str, publisher: str) -> Commands:
    """Publishes a model; what verifies it, and what just hashes it."""
    name, beside = f"bench/{model.name}", model.parent
    keys = ["--key", str(beside / "publisher.key"), "--ledger", str(beside / "ledger")]
    _run([*ANCHOR, "publish", str(model), "--model", name, "--version", "1", *keys])
    verify = ["verify", str(model), "--model", name, "--trust", trust, "--publisher", publisher]
    return {
        "hashlib, one stream a file": [sys.executable, "-c", HASH, str(model)],
        "anchor hash": [*ANCHOR, "hash", str(model)],
        "anchor verify": [*ANCHOR, *verify],
    }


def _sign(model: Path, interpreter: str | None) -> Commands:
    """Signs a model with `model_signing`, where it is installed; what verifies it."""
    if interpreter is None:
        return {"model_signing verify key": None}
    private, public = (model.parent / f"{model.name}.{part}" for part in ("private", "public"))
    key = ec.generate_private_key(ec.SECP256R1())
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    info = PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, info))
    program = [interpreter, "-m", "model_signing"]
    words = ["key", str(model), "--signature", str(model.parent / f"{model.name}.sig")]
    _run([*program, "sign", *words, "--private_key", str(private)])
    return {"model_signing verify key": [*program, "verify", *words, "--public_key", str(public)]}


def _run(command: Sequence[str]) -> Sample:
    """Wall and processor seconds of a whole process, its children included."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Sample(wall, used)


def _measure_peak(command: Sequence[str]) -> int:
    """Megabytes that a process had resident at most."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return usage.ru_maxrss // 1000
