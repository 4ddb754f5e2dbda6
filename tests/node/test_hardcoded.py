"""Rule 22 for ledgers: a chain that conflicts with a checkpoint in the code is not written to, nor served,
nor brought back; and the next checkpoint is proposed from one that does not.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import anchor.cli.checkpoint
import anchor.node.chain
from anchor.chain.beacon.folder import store_checkpoint
from anchor.cli.main import main
from anchor.consensus.hardcoded import Table
from anchor.errors import InvalidCheckpoint
from anchor.node.backup import export_ledger, import_ledger
from anchor.node.clock import ManualClock
from anchor.node.embedded import Embedded
from anchor.node.folder import open_reader
from anchor.node.node import Node
from tests.chain.captures import ALTAIR, Capture
from tests.node.tools import NOW, opened, publish

FORGED = b"\x66" * 32
Capture_ = pytest.CaptureFixture[str]


def shipping(monkeypatch: pytest.MonkeyPatch, network_id: bytes, entries: dict[int, bytes]) -> None:
    """Lets the code hold these checkpoints of the network."""

    def get_table(asked: bytes) -> Table:
        return Table("lab", network_id, entries) if asked == network_id else Table("other", asked, {})

    monkeypatch.setattr(anchor.node.chain, "get_table", get_table)
    monkeypatch.setattr(anchor.cli.checkpoint, "get_table", get_table)


def get_roots(folder: Path) -> tuple[bytes, dict[int, bytes]]:
    with open_reader(folder) as chain:
        status = chain.get_status()
        roots = {epoch: chain.get_checkpoint(epoch).root for epoch in range(status.epoch + 1)}
        return status.network_id, roots


async def test_no_ledger_against_the_code(
    ledger: tuple[Path, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, seed = ledger
    network_id, roots = get_roots(folder)
    backup = tmp_path / "backup"
    export_ledger(folder, backup)
    shipping(monkeypatch, network_id, {0: roots[0], 2: roots[2], 99: FORGED})  # 99 is yet to come
    with opened(folder, seed) as service:
        publish(service, "2")
    import_ledger(backup, tmp_path / "back", take_over=False, now=NOW)
    shipping(monkeypatch, network_id, {0: roots[0], 2: FORGED})
    with pytest.raises(InvalidCheckpoint, match="at 2, where"), opened(folder, seed):
        pass
    with pytest.raises(InvalidCheckpoint, match="at 2, where"):
        import_ledger(backup, tmp_path / "again", take_over=False, now=NOW)
    assert not (tmp_path / "again").exists()
    for own in (None, seed):
        clock = ManualClock(NOW)
        node = Node(folder, None if own is None else Embedded(folder, own, clock), clock)
        with pytest.raises(InvalidCheckpoint, match="at 2, where"):
            await node.start()
        await node.stop()


# Proposals


def propose(capsys: Capture_, *arguments: object) -> tuple[int, Any]:
    code = main(["checkpoint", "propose", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_ledgers_first_checkpoint(ledger: tuple[Path, bytes], capsys: Capture_) -> None:
    network_id, roots = get_roots(ledger[0])
    code, found = propose(capsys, "--ledger", ledger[0])
    result = found["result"]
    assert (code, result["network_id"]) == (0, f"0x{network_id.hex()}")
    assert result["checkpoint"] == f"0x{roots[2].hex()}:2"
    call = ast.parse(result["row"].strip().rstrip(",")).body[0]
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    name, own, entries = [ast.literal_eval(argument) for argument in call.value.args]
    assert (name, own) == ("lab", network_id.hex())
    assert entries == {0: roots[0].hex(), 2: roots[2].hex()}
    assert result["frozen"].splitlines() == [own, f"    0 {entries[0]}", f"    2 {entries[2]}"]
    assert main(["checkpoint", "propose", "--ledger", str(ledger[0])]) == 0
    assert result["row"] in capsys.readouterr().out


def test_a_ledgers_next_checkpoint(
    ledger: tuple[Path, bytes], capsys: Capture_, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, seed = ledger
    network_id, roots = get_roots(folder)
    shipping(monkeypatch, network_id, {0: roots[0], 2: roots[2]})
    code, found = propose(capsys, "--ledger", folder)
    assert code == 2 and "grows at its end" in found["error"]["what"]
    with opened(folder, seed) as service:
        publish(service, "2")
    root = get_roots(folder)[1][4]
    code, found = propose(capsys, "--ledger", folder)
    assert (code, found["result"]["row"]) == (0, f'        4: "{root.hex()}",')
    assert found["result"]["frozen"] == f"    4 {root.hex()}"
    shipping(monkeypatch, network_id, {0: roots[0], 1: FORGED})
    code, found = propose(capsys, "--ledger", folder)
    assert code == 1 and "at 1, where" in found["error"]["what"]
    shipping(monkeypatch, network_id, {0: roots[0], 99: FORGED})
    assert propose(capsys, "--ledger", folder)[0] == 2


def test_the_checkpoint_of_a_synced_network(
    tmp_path: Path, capsys: Capture_, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(ALTAIR, 1)
    network_id = capture.network.genesis_validators_root or b""
    monkeypatch.setattr(anchor.cli.checkpoint.time, "time", lambda: capture.now)
    store_checkpoint(tmp_path / "synced", capture.verified, is_trusted=True)
    store_checkpoint(tmp_path / "told", capture.verified, is_trusted=False)
    past = {epoch: bytes(capture.verified.state.block_roots[8 * epoch]) for epoch in range(4)}
    code, found = propose(capsys, "--data", tmp_path / "synced")
    assert (code, found["result"]["checkpoint"]) == (0, capture.trust)
    assert f'0: "{past[0].hex()}"' in found["result"]["row"]
    code, found = propose(capsys, "--data", tmp_path / "told")
    assert code == 2 and "nobody vouched for" in found["error"]["what"]
    shipping(monkeypatch, network_id, {0: past[0], 2: past[2]})
    code, found = propose(capsys, "--data", tmp_path / "synced")
    assert found["result"]["row"] == f'        4: "{capture.checkpoint.root.hex()}",'
    shipping(monkeypatch, network_id, {0: past[0], 3: FORGED})
    assert propose(capsys, "--data", tmp_path / "synced")[0] == 1
    state = bytearray(capture.state)
    state[-1] ^= 1
    (tmp_path / "synced/state.ssz").write_bytes(state)
    assert propose(capsys, "--data", tmp_path / "synced")[0] == 1
    assert propose(capsys, "--data", tmp_path / "nowhere")[0] == 3


def test_what_is_in_the_code_is_listed(capsys: Capture_) -> None:
    assert main(["checkpoint", "list"]) == 0
    text = capsys.readouterr().out
    assert "hoodi  0x212f13fc" in text and "  295,000  0x00000000" in text
    assert main(["checkpoint", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["bitcoin"]["entries"]["11111"].startswith("0x")
    assert main(["checkpoint", "list", "--data", "x"]) == 2
    assert main(["checkpoint", "propose", "--data", "x", "--ledger", "y"]) == 2
    capsys.readouterr()
