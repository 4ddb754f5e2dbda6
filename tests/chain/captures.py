"""Recorded answers of real beacon nodes, and nodes that replay them.

One small capture is part of the repository; the others are read where the shared data is.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from anchor.chain.beacon.answers import Answer, to_block_bytes
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint, verify_block, verify_checkpoint
from anchor.chain.beacon.networks import Network, identify
from anchor.consensus.containers.phase0 import Checkpoint
from tests.chain.nodes import MISSING, SSZ, Reply

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[2].parent / "shared"
ALTAIR = "altair-npm151-8val"
CAPELLA = "capella-npm151-12val"
DENEB = "deneb-mainnet-preset-16val"
DENEB_DRIFTED = "deneb-8val"
ELECTRA = "electra-genesis-8val"
ELECTRA_DRIFTED = "electra-at-epoch2-8val"
FULU = "fulu-spec-16val"


@cache
def read_archive(path: Path) -> Mapping[str, bytes]:
    """The files of an archive, by name without the folder that all stand in."""
    files = {}
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                files[member.name.removeprefix("captures-beacon/")] = file.read()
    return files


def read_files(name: str) -> Mapping[str, bytes]:
    """The files of one capture; the test is skipped where there is none."""
    path = DATA / "altair.tar.xz" if name == ALTAIR else SHARED / "captures-beacon.tar.xz"
    if not path.exists():
        pytest.skip(f"no shared data at {path}")
    return {
        key.partition("/")[2]: value
        for key, value in read_archive(path).items()
        if key.startswith(f"{name}/")
    }


@dataclass(frozen=True)
class Capture:
    """One node when its `number`-th checkpoint was final."""

    name: str
    number: int = 0

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        return read_files(self.name)

    def file(self, name: str) -> bytes:
        return self.files[f"cp{self.number}_{name}"]

    def data(self, name: str) -> Any:
        return json.loads(self.files[name])["data"]

    @cached_property
    def checkpoint(self) -> Checkpoint:
        known = json.loads(self.file("finality_checkpoints_head.json"))["data"]["finalized"]
        return Checkpoint(epoch=int(known["epoch"]), root=bytes.fromhex(known["root"][2:]))

    @property
    def trust(self) -> str:
        return f"0x{self.checkpoint.root.hex()}:{self.checkpoint.epoch}"

    @cached_property
    def network(self) -> Network:
        genesis = self.data("genesis.json")
        root = bytes.fromhex(genesis["genesis_validators_root"][2:])
        return identify(self.data("config_spec.json"), root, int(genesis["genesis_time"]))

    @property
    def now(self) -> float:
        """A time at which the checkpoint was the newest."""
        spec, genesis = self.data("config_spec.json"), self.data("genesis.json")
        slots = (self.checkpoint.epoch + 3) * int(spec["SLOTS_PER_EPOCH"])
        return int(genesis["genesis_time"]) + slots * int(spec["SECONDS_PER_SLOT"])

    @cached_property
    def state(self) -> bytes:
        return self.file("state_finalized.ssz")

    @cached_property
    def block(self) -> bytes:
        return to_block_bytes(self.network, self.answer("block_finalized.ssz"))

    def answer(self, name: str) -> Answer:
        reply = _to_reply(self.files, f"cp{self.number}_{name}")
        return Answer(name, reply.body, reply.content_type, reply.version)

    @cached_property
    def verified(self) -> VerifiedCheckpoint:
        block = verify_block(self.network, self.checkpoint, self.block)
        return verify_checkpoint(self.network, self.checkpoint, block, self.state, now=self.now)

    def answers(self, path: str, headers: Mapping[str, str]) -> Reply:
        """What the node answered, by path and by the Accept that fits best."""
        if path == "/eth/v1/beacon/states/head/finality_checkpoints":
            return Reply(self.file("finality_checkpoints_head.json"))
        found = self._replies.get(self._alias(path), [])
        accept = headers.get("accept", "")
        exact = [reply for asked, reply in found if asked == accept]
        likely = [reply for asked, reply in found if asked == accept.split(";")[0]]
        return next(iter([*exact, *likely, *[reply for _, reply in found]]), MISSING)

    def _alias(self, path: str) -> str:
        """Asked for by its root, the finalised block or state is the one recorded as `finalized`."""
        root = json.loads(self.file("state_root_finalized.json"))["data"]["root"]
        return path.replace(f"0x{self.checkpoint.root.hex()}", "finalized").replace(root, "finalized")

    @cached_property
    def _replies(self) -> Mapping[str, list[tuple[str, Reply]]]:
        found: dict[str, list[tuple[str, Reply]]] = {}
        for name in self.files:
            recorded = self.files.get(f"{name}.headers.json")
            is_another = name.startswith("cp") and not name.startswith(f"cp{self.number}_")
            if recorded is None or is_another or name == "state_finalized_accept_q.bin":
                continue
            request = json.loads(recorded)["request"]
            path = self._alias(request["path"])
            found.setdefault(path, []).append((request["accept"], _to_reply(self.files, name)))
        return found


def _to_reply(files: Mapping[str, bytes], name: str) -> Reply:
    recorded = json.loads(files[f"{name}.headers.json"])
    headers = {key.lower(): value for key, value in recorded["headers"].items()}
    kind = headers.get("content-type", SSZ).split(";")[0]
    return Reply(files[name], kind, headers.get("eth-consensus-version", ""), recorded["status"])
