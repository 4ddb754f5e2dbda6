"""The whole main job, start to end: `make demo`, or `make demo MODEL=path` for a checkpoint of your own.

Trains a small network, publishes its checkpoints on an embedded ledger, watches them become final, verifies
the last one in a process that has neither the ledger nor a network, then flips one bit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "demo-out"
ANCHOR = [sys.executable, "-m", "anchor.cli.main"]
SETTINGS = {
    "PYTHONPATH": str(ROOT),
    "ANCHOR_PASSPHRASE": "for the demo only",
    "XDG_CONFIG_HOME": str(OUT / "config"),
}
MODEL_NAME = "demo/spiral"


@dataclass(frozen=True)
class Published:
    """A checkpoint that the ledger knows."""

    path: Path
    version: str


def main() -> int:
    """Runs the demo; returns the exit code."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    start = time.monotonic()
    say("A ledger of one operator, and a publisher's keys")
    anchor("init", OUT / "ledger", "--name", "demo")
    anchor("keygen", OUT / "publisher.key")
    published = publish_given(Path(sys.argv[1])) if len(sys.argv) > 1 else publish_trained()
    say("Verify offline: a second process, without the ledger's store, without a network")
    code = verify_apart(published)
    if code != 0:
        return code
    say("Flip one bit, and verify again")
    flip_bit(published.path)
    code = verify_apart(published)
    say(f"Done in {time.monotonic() - start:.1f} s. Everything is in {OUT.relative_to(ROOT)}/")
    return 0 if code == 1 else 1


def publish_trained() -> Published:
    """Trains, publishes every checkpoint; returns what was said of the last one."""
    from train import Config, Trainer

    say("Train a small network, and publish every checkpoint")
    for folder, metrics in Trainer(Config()).run(OUT / "run"):
        say(f"{folder.name}: {json.dumps(metrics)}", level=2)
        published = publish(folder, f"epoch-{metrics['epoch']:.0f}")
    return published


def publish_given(source: Path) -> Published:
    """Publishes a copy of the checkpoint at `source`."""
    if not source.exists():
        sys.exit(f"There is nothing at {source}. Name a checkpoint with: make demo MODEL=path")
    say(f"Publish {source}")
    copy = OUT / "model" / source.name
    copy.parent.mkdir()
    shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    return publish(copy if source.is_dir() else copy.parent, "1")


def publish(folder: Path, version: str) -> Published:
    """`anchor publish`."""
    place = ["--ledger", OUT / "ledger", "--key", OUT / "publisher.key"]
    anchor("publish", folder, "--model", MODEL_NAME, "--version", version, *place)
    return Published(folder, version)


def verify_apart(published: Published) -> int:
    """Verifies in an empty home, while the ledger's folder is away and, where possible, without a network."""
    away = OUT / "ledger-put-away"
    (OUT / "ledger").rename(away)
    checkpoint = json.loads((away / "network.json").read_text())["genesis"]
    publisher = json.loads((OUT / "publisher.key").read_text())["identity"]
    try:
        command = ["verify", published.path, "--model", f"{MODEL_NAME}@{published.version}"]
        command += ["--publisher", publisher, "--trust", checkpoint]
        return run(*command, prefix=without_network()).returncode
    finally:
        away.rename(OUT / "ledger")


def without_network() -> list[str]:
    """A prefix that takes the network away from a command, where this machine lets us."""
    prefix = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare"):
        tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
        if tried.returncode == 0:
            return prefix
    print("(this machine does not let the demo take the network away; nothing uses it all the same)")
    return []


def flip_bit(folder: Path) -> None:
    """Flips one bit in the middle of the largest safetensors file, or else of the largest file."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "model.anchor"]
    tensors = [path for path in files if path.name == "model.safetensors"]
    path = max(tensors or files, key=lambda file: file.stat().st_size)
    place = path.stat().st_size // 2
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    print(f"bit 0 of byte {place:,} of {path.name}: {byte:#04x} is now {byte ^ 1:#04x}\n", flush=True)


def anchor(*arguments: object) -> None:
    """Runs a command that must succeed."""
    done = run(*arguments)
    if done.returncode:
        sys.exit(done.returncode)


def run(
    *arguments: object, capture: bool = False, prefix: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `anchor` with these arguments, showing the command unless its output is captured."""
    words = [str(argument) for argument in arguments]
    if not capture:
        shown = [word.replace(f"{ROOT}/", "") for word in words]
        print(f"$ anchor {' '.join(shown)}", flush=True)
    command, environment = [*(prefix or []), *ANCHOR, *words], {**os.environ, **SETTINGS}
    return subprocess.run(command, env=environment, text=True, capture_output=capture, check=False)


def say(text: str, level: int = 1) -> None:
    """A heading."""
    print(f"\n{'─' * 3 if level == 1 else ' '} {text}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
