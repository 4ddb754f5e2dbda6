"""`anchor bitcoin verify`: what it says, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anchor.cli import bitcoin
from anchor.cli.main import main
from anchor.consensus.bitcoin.network import MAINNET
from tests.consensus.bitcoin_chains import VECTORS, make_chain, make_network

GENESIS_ON = VECTORS / "headers-0.bin"
MIDDLE = VECTORS / "headers-824530.bin"


def verify(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main(["bitcoin", "verify", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_headers_from_genesis(capsys: pytest.CaptureFixture[str]) -> None:
    code, envelope = verify(capsys, GENESIS_ON)
    assert (code, envelope["status"], envelope["command"]) == (0, "ok", "bitcoin")
    assert envelope["result"] == {
        "network": "bitcoin",
        "count": 64,
        "start_height": 0,
        "end_height": 63,
        "hash": "00000000ebff91c88984bff39511f544a1c4ef6ec4f33e2ea531e47c2685628e",
        "work": f"0x{64 * 0x100010001:x}",
        "anchor_height": 0,
        "checkpoints": [0],
        "unknown_medians": 0,
        "unknown_bits": 0,
        "future_checked": False,
        "minimum_work_checked": False,
    }


def test_words_name_the_trust_and_the_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bitcoin", "verify", str(GENESIS_ON), "--now", "1231700000"]) == 0
    out = capsys.readouterr().out
    assert "64 headers of Bitcoin keep the rules: 0 to 63" in out
    assert "the checkpoint in the code at height 0" in out
    assert "--now" not in out
    assert "--minimum-work" in out


def test_headers_that_nothing_ties_are_qualified(capsys: pytest.CaptureFixture[str]) -> None:
    code, envelope = verify(capsys, MIDDLE, "--start-height", 824_530)
    assert (code, envelope["status"]) == (5, "qualified")
    result = envelope["result"]
    assert (result["anchor_height"], result["unknown_medians"], result["unknown_bits"]) == (None, 11, 2)
    assert main(["bitcoin", "verify", str(MIDDLE), "--start-height", "824530"]) == 5
    out = capsys.readouterr().out
    assert "rests on     nothing" in out
    assert "of these headers alone" in out
    assert "before them: 11" in out
    assert "before the file: 2" in out


def test_a_later_checkpoint_ties_a_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain(56, step=450)
    monkeypatch.setattr(bitcoin, "MAINNET", make_network(chain, [20, 47]))
    path = tmp_path / "headers.bin"
    path.write_bytes(b"".join(chain[22:]))
    code, envelope = verify(capsys, path, "--start-height", 22)
    assert (code, envelope["result"]["anchor_height"], envelope["result"]["checkpoints"]) == (0, 47, [47])
    path.write_bytes(b"".join(chain[48:]))  # a window's first header, whose window before isn't there
    code, envelope = verify(capsys, path, "--start-height", 48)
    assert (code, envelope["result"]["anchor_height"], envelope["result"]["unknown_bits"]) == (5, 47, 1)


def test_minimum_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys, GENESIS_ON, "--minimum-work", "4000400040")[0] == 0
    code, envelope = verify(capsys, GENESIS_ON, "--minimum-work", "4000400041")
    assert (code, envelope["error"]["kind"]) == (1, "InvalidHeader")
    code, envelope = verify(capsys, GENESIS_ON, "--minimum-work")
    assert code == 1
    assert f"{MAINNET.minimum_work:x}" in envelope["error"]["what"]
    assert verify(capsys, GENESIS_ON, "--minimum-work", "much")[0] == 2


def test_large_files_are_read_in_pieces(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = verify(capsys, GENESIS_ON)
    monkeypatch.setattr(bitcoin, "PIECE", 80 * 5)
    assert verify(capsys, GENESIS_ON) == (0, whole)


@pytest.mark.parametrize(
    ("content", "code", "kind"),
    [
        (b"", 2, "Misuse"),
        (GENESIS_ON.read_bytes()[:-1], 1, "MalformedHeader"),
        (b"<html>not here</html>", 1, "MalformedHeader"),
        (bytes(160), 1, "InvalidHeader"),
        (GENESIS_ON.read_bytes()[80:], 1, "InvalidHeader"),
        (MIDDLE.read_bytes(), 1, "InvalidHeader"),
    ],
)
def test_what_is_no_chain_from_genesis(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, code: int, kind: str
) -> None:
    path = tmp_path / "headers.bin"
    path.write_bytes(content)
    found, envelope = verify(capsys, path)
    assert (found, envelope["error"]["kind"], envelope["result"]) == (code, kind, None)
    assert envelope["error"]["fix"]


def test_a_file_must_be_there_and_be_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert verify(capsys, tmp_path / "none")[0] == 3
    assert verify(capsys, tmp_path)[0] == 2
    assert verify(capsys, GENESIS_ON, "--start-height", "-1")[0] == 2
