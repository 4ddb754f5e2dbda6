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
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ANCHOR = [sys.executable, "-m", "anchor.cli.main"]
MODEL_NAME = "demo/spiral"


@dataclass(frozen=True)
class Published:
    """A checkpoint that the ledger knows."""

    path: Path
    version: str


class Demo:
    """One run, in a folder of its own."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._ledger, self._key = out / "ledger", out / "publisher.key"
        self._settings = {
            "PYTHONPATH": str(ROOT),
            "ANCHOR_PASSPHRASE": "for the demo only",
            "XDG_CONFIG_HOME": str(out / "config"),
        }

    def run(self, model: Path | None) -> int:
        """Everything in order; 0 when both verdicts are as they should be."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        start = time.monotonic()
        say("A ledger of one operator, and a publisher's keys")
        self._anchor("init", self._ledger, "--name", "demo")
        self._anchor("keygen", self._key)
        published = self._publish_trained() if model is None else self._publish_given(model)
        say("Verify offline: a second process, without the ledger's store, without a network")
        code = self._verify_apart(published)
        if code != 0:
            return code
        say("Flip one bit, and verify again")
        flip_bit(published.path)
        code = self._verify_apart(published)
        say(f"Done in {time.monotonic() - start:.1f} s. Everything is in {shorten(str(self.out))}/")
        return 0 if code == 1 else 1

    def _publish_trained(self) -> Published:
        """Trains, publishes every checkpoint; returns the last one."""
        from train import Config, Trainer

        say("Train a small network, and publish every checkpoint")
        for folder, metrics in Trainer(Config()).run(self.out / "run"):
            say(f"{folder.name}: {json.dumps(metrics)}", level=2)
            published = self._publish(folder, f"epoch-{metrics['epoch']:.0f}")
        return published

    def _publish_given(self, source: Path) -> Published:
        """Publishes a copy of the checkpoint at `source`."""
        if not source.exists():
            sys.exit(f"There is nothing at {source}. Name a checkpoint with: make demo MODEL=path")
        say(f"Publish {source}")
        copy = self.out / "model" / source.resolve().name
        copy.parent.mkdir()
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
        return self._publish(copy if source.is_dir() else copy.parent, "1")

    def _publish(self, folder: Path, version: str) -> Published:
        """`anchor publish`."""
        place = ["--ledger", self._ledger, "--key", self._key]
        self._anchor("publish", folder, "--model", MODEL_NAME, "--version", version, *place)
        return Published(folder, version)

    def _verify_apart(self, published: Published) -> int:
        """Verifies while the ledger's folder is away and, where possible, without a network."""
        away = self.out / "ledger-put-away"
        self._ledger.rename(away)
        checkpoint = json.loads((away / "network.json").read_text())["genesis"]
        publisher = json.loads(self._key.read_text())["identity"]
        try:
            command = ["verify", published.path, "--model", f"{MODEL_NAME}@{published.version}"]
            command += ["--publisher", publisher, "--trust", checkpoint]
            return self._run(*command, prefix=without_network())
        finally:
            away.rename(self._ledger)

    def _anchor(self, *arguments: object) -> None:
        """Runs a command that must succeed."""
        code = self._run(*arguments)
        if code:
            sys.exit(code)

    def _run(self, *arguments: object, prefix: Sequence[str] = ()) -> int:
        """Shows and runs `anchor` with these arguments; returns its exit code."""
        words = [str(argument) for argument in arguments]
        print(f"$ anchor {' '.join(map(shorten, words))}", flush=True)
        environment = {**os.environ, **self._settings}
        return subprocess.run([*prefix, *ANCHOR, *words], env=environment, check=False).returncode


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


def shorten(word: str) -> str:
    """A path below the project as it is seen from there."""
    return word.replace(f"{ROOT}/", "")


def say(text: str, level: int = 1) -> None:
    """A heading."""
    print(f"\n{'─' * 3 if level == 1 else ' '} {text}\n", flush=True)


def main() -> int:
    """Runs the demo; returns the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, help="a checkpoint of your own")
    parser.add_argument("--out", type=Path, default=ROOT / "demo-out", help="where to write; made anew")
    options = parser.parse_args()
    demo = Demo(options.out.resolve())
    if options.model is not None and demo.out in options.model.resolve().parents:
        parser.error(f"{demo.out} is made anew: move your checkpoint out of it")
    return demo.run(options.model)


if __name__ == "__main__":
    sys.exit(main())
