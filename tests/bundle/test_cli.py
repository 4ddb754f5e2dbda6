"""`anchor verify`, `anchor trust`, `anchor bundle`: what people see, and what programs read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anchor.bundle import api
from anchor.cli.main import main
from anchor.cli.verify import WEIGHTS_EQUAL, parse_duration
from anchor.consensus.text import format_checkpoint, format_identity
from anchor.errors import Misuse
from tests.bundle.chains import Published
from tests.consensus.ledgers import ROOT, identity
from tests.ml.checkpoints import write
from tests.node.tools import ALICE as AUTHOR
from tests.node.tools import make_ledger, opened, publish

ALICE_ID = format_identity(identity(ROOT))


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, published: Published) -> Path:
    """A configuration folder of one's own, at a minute after the newest block."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(api, "time", SimpleNamespace(time=lambda: published.now))
    return tmp_path


def stated(published: Published) -> list[str]:
    return ["--trust", format_checkpoint(published.genesis), "--model", "acme/tiny", "--publisher", ALICE_ID]


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert printed.err == ""
    return code, json.loads(printed.out)


def test_verify_prints_what_was_shown(
    published: Published, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(model), *stated(published)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Verified: this is acme/tiny@1.0, as it was published.\n")
    for words in ("votes of 8 of 8 validators", "one operator", "later unknown", "the publisher's claim"):
        assert words in text
    assert "checked    2 files, 2 tensors" in text and "Not shown:" in text


def test_verify_names_what_it_passed_over(
    published: Published, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / ".git").mkdir()
    for name in "abcd\x1b":
        (model / ".git" / name).write_bytes(b"")
    assert main(["verify", str(model), *stated(published)]) == 0
    assert "  ignored    .git/\\x1b, .git/a, .git/b, .git/c and 2 more\n" in capsys.readouterr().out


def test_verify_names_the_tensor_and_the_chunk(
    published: Published, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    (model / "evil\x1b[2J.json").write_text("{}")
    assert main(["verify", str(model), *stated(published)]) == 1
    text = capsys.readouterr().out
    assert re.search(r"^TAMPERED    layers\.1\.weight +0 +\d+-\d+$", text, re.MULTILINE)
    assert "EXTRA" in text and "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines() if line.startswith(("TAMPERED", "EXTRA")))


def test_what_is_not_there_was_not_checked(
    published: Published, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "config.json").unlink()
    (model / "more.json").write_text("{}")
    assert main(["verify", str(model), *stated(published)]) == 1
    assert "  checked    1 file, 2 tensors, " in capsys.readouterr().out


def test_verify_says_that_it_will_take_its_time(
    published: Published, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (main(["verify", str(model), *stated(published)]), capsys.readouterr().err) == (0, "")
    monkeypatch.setattr("anchor.cli.verify.get_backend_name", lambda: "py_ecc")
    assert main(["verify", str(model), *stated(published)]) == 0
    assert "pip install 'anchor-ledger[ledger]'" in capsys.readouterr().err


def test_verify_says_alike_things_once(
    published: Published, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "model.safetensors").rename(model / "renamed.safetensors")
    assert main(["verify", str(model), *stated(published)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "layers.0.weight and 1 more: Its file is not there." in lines
    assert WEIGHTS_EQUAL in lines


def test_a_refusal_says_what_to_do_on_a_line_of_its_own(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = f"0x{'05' * 32}:0"
    assert main(["verify", str(model), "--trust", checkpoint]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Refused: The bundle starts at block 0x")
    assert lines[1] == f"Make one that starts there: anchor bundle MODEL@VERSION --for {checkpoint}"


def test_verify_in_json(published: Published, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, envelope = run_json(capsys, "verify", str(model), *stated(published))
    assert (code, envelope["schema"], envelope["status"]) == (0, "anchor/1", "ok")
    result = envelope["result"]
    assert (result["verdict"], result["evidence"]["model"]) == ("verified", "acme/tiny")
    assert result["evidence"]["links"][0]["voters"] == 8 and result["refusal"] is None
    code, envelope = run_json(capsys, "verify", str(model), *stated(published)[:2])
    assert (code, envelope["status"], envelope["result"]["verdict"]) == (5, "qualified", "qualified")
    code, envelope = run_json(capsys, "verify", str(model), *stated(published)[:2], "--model", "evil/tiny")
    assert (code, envelope["status"]) == (1, "failed")
    assert envelope["result"]["refusal"]["kind"] == "RefusedModel" and envelope["result"]["evidence"] is None


def test_wrong_usage_has_an_envelope_too(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, envelope = run_json(capsys, "verify", str(model), "--trust", "nobody")
    assert (code, envelope["status"], envelope["error"]["kind"]) == (2, "usage", "Misuse")
    code, envelope = run_json(capsys, "verify", str(model))
    assert (code, envelope["status"]) == (2, "usage")
    code, envelope = run_json(capsys, "verify", str(model / "no"), "--trust", f"0x{'05' * 32}:1")
    assert (code, envelope["status"]) == (3, "unavailable")


def test_a_name_in_the_trust_store(
    published: Published, model: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = f"0x{published.chain.state.genesis_validators_root.hex()}"
    network = place / "network.json"
    network.write_text(json.dumps({"schema": "anchor-network/1", "network_id": own}))
    checkpoint = format_checkpoint(published.genesis)
    pin = ["--publisher", f"acme={ALICE_ID}", "--operator", "three universities", "--network", str(network)]
    code, envelope = run_json(capsys, "trust", "add", "lab", checkpoint, *pin)
    entry = {
        "checkpoint": checkpoint,
        "network_id": own,
        "operator": "three universities",
        "publishers": {"acme": ALICE_ID},
    }
    assert (code, envelope["result"]) == (0, {"lab": entry})
    assert run_json(capsys, "trust", "list")[1]["result"] == {"lab": entry}
    assert main(["verify", str(model), "--trust", "lab", "--model", "acme/tiny@1.0"]) == 0
    assert "three universities" in capsys.readouterr().out
    assert main(["trust", "list"]) == 0
    assert "acme = ed25519:" in capsys.readouterr().out
    assert run_json(capsys, "trust", "remove", "lab")[1]["result"] == {"removed": "lab"}
    assert main(["trust", "list"]) == 0
    assert "empty" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["add"],
        ["add", "lab"],
        ["add", "lab", "0x00:1"],
        ["add", "lab", f"0x{'05' * 32}:1", "--publisher", "acme"],
        ["add", "lab", f"0x{'05' * 32}:1", "--publisher", "acme=ed25519:00"],
        ["list", "lab"],
        ["remove"],
        ["remove", "lab"],
        ["remove", "lab", "more"],
        ["show", "lab"],
    ],
    ids=" ".join,
)
def test_trust_used_wrongly(arguments: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "trust", *arguments)[0] == 2
    assert not (place / "config").exists()


def test_show_prints_a_bundle(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "--show", str(model / "model.anchor")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["publication"]["entry"]["body"]["kind"] == "Publish"
    assert shown["status"]["version"]["model"] == "acme/tiny"
    assert shown["manifest"]["files"][0]["path"] == "config.json"
    assert shown["hops"][0]["finalising"]["votes"][0]["participants"].count("1") == 1
    (model / "model.anchor").write_bytes(b"\1")
    assert run_json(capsys, "bundle", "--show", str(model / "model.anchor"))[0] == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["acme/tiny"], ["acme/tiny@1.0"], ["acme/tiny@1.0", "--for", "x"], ["acme/tiny@1.0", "--show", "x"]],
    ids=" ".join,
)
def test_bundle_used_wrongly(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "bundle", *arguments)[0] == 2


def test_a_bundle_from_an_embedded_ledger(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made for a trust that is older, then for one that is newer; verified; and what cannot be made."""
    folder, model = place / "ledger", write(place / "model", {"note.txt": b"1"})
    seed = make_ledger(folder)
    with opened(folder, seed) as service:
        older = service.chain.get_checkpoint(0)
        publish(service, "1")
        newest = service.chain.get_finalized_checkpoint()
    publisher = format_identity(AUTHOR.identity)
    for trusted in (older, newest):
        text, bundle = format_checkpoint(trusted), str(place / f"{trusted.epoch}.anchor")
        made = ["acme/tiny@1", "--for", text, "--ledger", str(folder), "-o", bundle]
        code, envelope = run_json(capsys, "bundle", *made)
        assert (code, envelope["result"]["bytes"]) == (0, Path(bundle).stat().st_size)
        stated = ["--bundle", bundle, "--trust", text, "--model", "acme/tiny@1", "--publisher", publisher]
        code, envelope = run_json(capsys, "verify", str(model), *stated)
        assert (code, envelope["result"]["verdict"]) == (0, "verified")
    unknown = ["bundle", "acme/tiny@1", "--for", f"0x{'05' * 32}:1", "--ledger", str(folder)]
    assert run_json(capsys, *unknown, "-o", str(place / "x"))[0] == 3
    unpublished = ["bundle", "acme/tiny@9", "--for", format_checkpoint(older), "--ledger", str(folder)]
    assert run_json(capsys, *unpublished, "-o", str(place / "x"))[0] == 3
    assert not (place / "x").exists()


def test_lengths_of_time() -> None:
    assert [parse_duration(text) for text in ("90s", "30m", "12h", "7d")] == [90, 1800, 43200, 604800]
    for text in ("", "7", "d", "-1d", "7 d", "1.5h", "7w", "9" * 30 + "d"):
        with pytest.raises(Misuse):
            parse_duration(text)


def test_verifying_loads_nothing_heavy(published: Published, model: Path) -> None:
    """Neither NumPy, nor HTTP, nor the slow signatures where the fast ones are there."""
    code = f"""
import sys, anchor
verdict = anchor.verify({str(model)!r}, None, {format_checkpoint(published.genesis)!r},
                        model="acme/tiny", publisher={ALICE_ID!r}, now={published.now})
assert verdict, verdict.summary
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "pyblst" in loaded
    assert not loaded & {"numpy", "aiohttp", "web3", "yaml", "cramjam", "py_ecc", "sqlite3", "asyncio", "ssl"}


def test_a_fifo_in_the_place_of_the_bundle_is_not_waited_for(
    published: Published, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "model.anchor").unlink()
    os.mkfifo(model / "model.anchor")
    assert main(["verify", str(model), *stated(published)]) == 3
    assert "not a regular file" in capsys.readouterr().err
