"""`anchor sync` as people run it: several endpoints, no trust, files, folders; cases 15, 18, 25."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import anchor.cli.sync
import anchor.cli.syncing
from anchor.chain.beacon.claims import Claim, count_agreement, find_conflict
from anchor.cli.main import main
from anchor.consensus.containers.phase0 import Checkpoint
from tests.chain.captures import ALTAIR, Capture
from tests.chain.nodes import Reply, giving, html, running

NEW, OLD = Capture(ALTAIR, 1), Capture(ALTAIR, 0)
FINALITY = "/eth/v1/beacon/states/head/finality_checkpoints"
Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command at the captures' time; its exit code, envelope and standard error."""
    clock = SimpleNamespace(time=lambda: NEW.now)
    monkeypatch.setattr(anchor.cli.sync, "time", clock)
    monkeypatch.setattr(anchor.cli.syncing, "time", clock)
    monkeypatch.chdir(tmp_path)

    async def start(*arguments: str) -> tuple[int, dict[str, Any], str]:
        code = await asyncio.to_thread(main, ["sync", *arguments, "--json"])
        shown = capsys.readouterr()
        return code, json.loads(shown.out), shown.err

    return start


def claiming(checkpoint: Checkpoint) -> Any:
    finalized = {"epoch": str(checkpoint.epoch), "root": f"0x{checkpoint.root.hex()}"}
    return giving(Reply(json.dumps({"data": {"finalized": finalized}}).encode()))


async def test_it_is_kept_and_verified_again(run: Run, tmp_path: Path) -> None:
    async with running(NEW.answers) as node:
        code, found, _ = await run(node.url, "--trust", NEW.trust)
        assert (code, found["result"]["trust"]) == (0, "given")
        asked = len(node.requests)
        assert (await run(node.url, "--trust", NEW.trust))[0] == 0
        assert not [path for path in node.paths[asked:] if "debug" in path]  # nothing is loaded twice
        folder = tmp_path / "anchor-sync"
        assert (folder / "state.ssz").read_bytes() == NEW.state
        code, found, _ = await run(node.url, "--trust", OLD.trust)
        assert code == 2 and "anchor-sync holds" in found["error"]["what"]
        state = bytearray(NEW.state)
        state[-1] ^= 1
        (folder / "state.ssz").write_bytes(state)
        code, found, _ = await run(node.url, "--trust", NEW.trust)
        assert code == 1 and found["error"]["what"].startswith("What anchor-sync keeps does not hold: ")
        (folder / "state.ssz").unlink()
        assert (await run(node.url, "--trust", NEW.trust))[0] == 3


async def test_an_empty_folder_is_as_good_as_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "anchor-sync").mkdir()
    async with running(NEW.answers) as node:
        assert (await run(node.url, "--trust", NEW.trust))[0] == 0
    assert (tmp_path / "anchor-sync/state.ssz").read_bytes() == NEW.state


@pytest.mark.parametrize("other", [NEW, OLD])
async def test_another_process_may_store_it_first(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Capture
) -> None:
    """The same: all is well. Another one: it stays, and that is told."""
    own = anchor.cli.sync.store_checkpoint

    def beaten(folder: Path, found: Any, *, is_trusted: bool) -> None:
        own(folder, other.verified, is_trusted=True)
        own(folder, found, is_trusted=is_trusted)

    monkeypatch.setattr(anchor.cli.sync, "store_checkpoint", beaten)
    async with running(NEW.answers) as node:
        code, found, _ = await run(node.url, "--trust", NEW.trust)
    assert code == (0 if other is NEW else 2), found
    assert (tmp_path / "anchor-sync/state.ssz").read_bytes() == other.state


async def test_a_block_before_its_epoch_is_noted(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether the slots between are empty is not for a state to show."""
    root = NEW.trust.partition(":")[0]
    async with running(NEW.answers) as node:
        arguments = ["sync", node.url, "--trust", f"{root}:5"]
        assert await asyncio.to_thread(main, arguments) == 0
    assert "of that epoch if the 8 slots from the block on are empty" in capsys.readouterr().out


async def test_nothing_is_kept_of_what_fails(run: Run, tmp_path: Path) -> None:
    async with running(NEW.answers, {"/eth/v2/debug": html}) as node:
        assert (await run(node.url, "--trust", NEW.trust))[0] == 1
    assert not list(tmp_path.iterdir())


async def test_files_instead_of_endpoints(run: Run, tmp_path: Path) -> None:
    for name, data in (("s", NEW.state), ("b", NEW.block), ("o", OLD.block)):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "spec.json").write_bytes(NEW.files["config_spec.json"])
    yaml = [f"{key}: {value!r}  # x" for key, value in NEW.data("config_spec.json").items()]
    (tmp_path / "config.yaml").write_text(
        "\n".join([*yaml, "BLOB_SCHEDULE:", "  - EPOCH: 9", "    MAX_BLOBS_PER_BLOCK: 3"])
    )
    files = ["--state", "s", "--trust", NEW.trust]
    for network in ("spec.json", "config.yaml"):
        code, found, _ = await run(*files, "--block", "b", "--network", network, "--data", f"d-{network}")
        assert code == 0, found
    code, found, _ = await run(*files, "--block", "o", "--network", "spec.json", "--data", "d")
    assert code == 1 and "the trusted one is" in found["error"]["what"]
    code, found, _ = await run(*files, "--block", "b", "--network", "sepolia", "--data", "d")
    assert code == 1 and "another network" in found["error"]["what"]
    os.mkfifo(tmp_path / "pipe")
    code, found, _ = await run("--state", "pipe", *files[2:], "--block", "b", "--network", "spec.json")
    assert code == 3 and found["error"]["what"] == "pipe is not a regular file."
    (tmp_path / "config.yaml").write_text("no configuration")
    assert (await run(*files, "--block", "b", "--network", "config.yaml"))[0] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--state", "s", "--trust", NEW.trust],
        ["--state", "s", "--block", "b"],
        ["--state", "s", "--block", "b", "--trust", NEW.trust],
        ["--state", "s", "--block", "b", "--trust", NEW.trust, "--network", "no-such"],
        ["--state", "s", "--block", "b", "--trust", NEW.trust, "--light"],
        ["http://h", "--state", "s", "--block", "b", "--trust", NEW.trust],
        ["http://h", "--trust", "0x12:3"],
        ["http://h", "--trust", NEW.trust, "--light", "--serve", "1"],
        ["http://h", "--trust", NEW.trust, "--timeout", "0"],
        ["gopher://h", "--trust", NEW.trust],
    ],
)
async def test_what_makes_no_sense(run: Run, arguments: list[str]) -> None:
    assert (await run(*arguments))[0] == 2


async def test_25_without_trust_it_reports_and_stops(run: Run) -> None:
    other = Checkpoint(epoch=3, root=OLD.checkpoint.root)
    async with (
        running(NEW.answers) as a,
        running(NEW.answers) as b,
        running(NEW.answers, {FINALITY: claiming(other)}) as c,
    ):
        code, found, _ = await run(a.url, b.url, c.url)
        assert code == 2
        assert f"{NEW.trust}  2 of 3" in found["error"]["what"]
        assert "unverified trust" in found["error"]["what"]
        code, found, _ = await run(a.url, b.url, c.url, "--unverified")
    assert (code, found["status"], found["result"]["trust"]) == (5, "qualified", "unverified")
    assert found["result"]["anchor"]["checkpoint"] == NEW.trust


async def test_15_two_roots_at_one_epoch_stop_it(run: Run, tmp_path: Path) -> None:
    split = Checkpoint(epoch=NEW.checkpoint.epoch, root=b"\x55" * 32)
    async with (
        running(NEW.answers) as a,
        running(NEW.answers, {FINALITY: claiming(split)}) as b,
    ):
        for more in (["--unverified"], ["--trust", OLD.trust]):
            code, found, _ = await run(a.url, b.url, *more)
            assert code == 1 and "contradict each other" in found["error"]["what"]
        [kept] = tmp_path.glob("conflict-4-*.json")
        claims = json.loads(kept.read_text())["claims"]
        assert claims == {a.url: NEW.trust, b.url: f"0x{'55' * 32}:4"}
        assert not (tmp_path / "anchor-sync").exists()


async def test_15_a_majority_never_outweighs_the_trusted_root(run: Run, tmp_path: Path) -> None:
    """Two of three say another root at the trusted epoch: they are left out, and that is kept."""
    split = Checkpoint(epoch=NEW.checkpoint.epoch, root=b"\x55" * 32)
    async with (
        running(NEW.answers, {FINALITY: claiming(split)}) as a,
        running(NEW.answers, {FINALITY: claiming(split)}) as b,
        running(NEW.answers) as c,
    ):
        code, found, _ = await run(a.url, b.url, c.url, "--trust", NEW.trust)
        assert code == 0
        assert found["result"]["anchor"]["checkpoint"] == NEW.trust
        assert {*a.paths, *b.paths} == {FINALITY}
        assert len(list(tmp_path.glob("conflict-4-*.json"))) == 1
        code, found, _ = await run(a.url, b.url, "--trust", NEW.trust, "--data", "other")
    assert code == 1 and "Every endpoint contradicts" in found["error"]["what"]


def test_15_a_newer_claim_alone_is_no_majority() -> None:
    claims = [
        Claim("a", NEW.checkpoint),
        Claim("b", NEW.checkpoint),
        Claim("c", Checkpoint(epoch=9, root=b"9" * 32)),
    ]
    assert count_agreement(claims)[0] == (NEW.checkpoint, 2)
    assert find_conflict(claims) is None
    assert (
        find_conflict([*claims, Claim("d", None, "silent")], Checkpoint(epoch=9, root=b"8" * 32)) is not None
    )


async def test_the_light_client_alone(run: Run, tmp_path: Path) -> None:
    async with running(NEW.answers) as node:
        code, found, _ = await run(node.url, "--trust", NEW.trust, "--light")
        assert not [path for path in node.paths if "debug" in path]
    assert (code, found["result"]["finalized"], found["result"]["anchor"]) == (0, [NEW.trust], None)
    assert not list(tmp_path.iterdir())


async def test_what_the_light_client_refused_is_in_the_result(run: Run) -> None:
    update = giving(Reply(NEW.file("lc_bootstrap.json")))
    async with running(NEW.answers, {"/eth/v1/beacon/light_client/finality_update": update}) as node:
        code, found, _ = await run(node.url, "--trust", NEW.trust, "--light")
    assert (code, found["result"]["finalized"]) == (0, [NEW.trust])  # nothing newer than what is trusted
    [warning] = found["result"]["warnings"]
    assert warning.startswith(node.url)


async def test_failing_over_by_the_command(run: Run) -> None:
    async with running(NEW.answers, {"/eth/v2/debug": html}) as bad, running(NEW.answers) as good:
        assert (await run(bad.url, good.url, "--trust", NEW.trust))[0] == 0


async def test_unreachable_is_3(run: Run) -> None:
    async with running(NEW.answers) as node:
        url = node.url
    assert (await run(url, "--trust", NEW.trust))[0] == 3
