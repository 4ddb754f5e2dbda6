"""Founding a network, and keeping validators, through the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from anchor.node.folder import NETWORK
from anchor.node.founding import read_founded
from anchor.node.validators import keystores, protection
from anchor.node.validators.folder import open_validators
from tests.node.commands import Run, read_result
from tests.node.tools import NOW, PHRASE

START = "2027-01-15T08:10:00Z"
"""Ten minutes after NOW."""


@pytest.fixture
def lab(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands where an administrator, a draft and two operators' keys are."""
    monkeypatch.setattr(keystores, "SCRYPT_N", 1 << 4)
    set_time(monkeypatch, NOW)
    key = read_result(run, "keygen", "admin.key", "--administrator")["identity"]
    draft = ("--administrator", key, "--seconds-per-slot", "2", "-o", "draft.json")
    assert read_result(run, "network", "draft", "lab", *draft)["name"] == "lab"
    for name in ("a", "b"):
        make_keys(run, name, "draft.json")
    return run


def set_time(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    monkeypatch.setattr(time, "time", lambda: float(seconds))


def make_keys(run: Run, name: str, network: str) -> Any:
    words = ("--network", network, "--operator", f"Lab {name}", "--count", "2", "--out", name)
    return read_result(run, "validator", "keygen", *words)


def create(run: Run, *deposits: str, output: str = "genesis.json", start: str = START) -> Any:
    return read_result(run, "network", "create", "draft.json", *deposits, "--start", start, "-o", output)


def test_from_a_draft_to_a_folder(lab: Run, tmp_path: Path) -> None:
    created = create(lab, "a/deposits.json", "b/deposits.json")
    assert created["operators"] == [{"name": f"Lab {name}", "validators": 2} for name in ("a", "b")]
    assert created["starts"] == START
    again = create(lab, "b/deposits.json", "a/deposits.json", output="other.json")
    assert again["network_id"] == created["network_id"], "everyone can make it, and compare"
    assert (tmp_path / "other.json").read_bytes() == (tmp_path / "genesis.json").read_bytes()
    joined = read_result(lab, "network", "join", "genesis.json", "node")
    assert (joined["network_id"], joined["operators"]) == (created["network_id"], 2)
    status = read_result(lab, "status", "--ledger", "node")
    assert (status["operators"], status["validators"]) == (2, 4)
    assert "lab: 2 operators, 4 validators" in lab("status", "--ledger", "node")[1]
    network_id = read_founded(tmp_path / "genesis.json").network_id
    with open_validators(tmp_path / "a", PHRASE, network_id) as validators:
        assert len(validators.keyring.secret_keys) == 2


def test_words_say_who_could_do_what_alone(lab: Run) -> None:
    words = ("--start", START, "-o", "genesis.json")
    _, out, _ = lab("network", "create", "draft.json", "a/deposits.json", "b/deposits.json", *words)
    assert out.count("can stop finality alone.") == 2
    assert "STAKE" in out
    _, out, _ = lab(
        "network", "create", "draft.json", "a/deposits.json", "--start", START, "-o", "alone.json"
    )
    assert "Lab a can write its history alone." in out


def test_what_a_slot_costs_is_said(run: Run) -> None:
    key = read_result(run, "keygen", "admin.key", "--administrator")["identity"]
    code, out, _ = run("network", "draft", "lab", "--administrator", key, "-o", "draft.json")
    assert code == 0
    assert "A block every 12 s: an entry is final within 4.8 minutes, and a checkpoint" in out
    assert "can be trusted for 6.8 hours." in out


@pytest.mark.parametrize("start", ["2027-01-15T08:00:00Z", "2027-01-15T08:10:00", "tomorrow", "9999999"])
def test_a_network_starts_in_the_future(lab: Run, start: str) -> None:
    code, _, err = lab("network", "create", "draft.json", "a/deposits.json", "--start", start, "-o", "g")
    assert code == 2
    assert "is no time to come" in err


def test_a_network_starts_in_ten_minutes_unless_it_is_said(lab: Run, tmp_path: Path) -> None:
    assert lab("network", "create", "draft.json", "a/deposits.json", "-o", "g")[0] == 0
    assert read_founded(tmp_path / "g").genesis.genesis_time == NOW + 600


def test_nothing_is_overwritten(lab: Run, tmp_path: Path) -> None:
    create(lab, "a/deposits.json")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for words in (
        ("network", "create", "draft.json", "a/deposits.json", "--start", START, "-o", "genesis.json"),
        ("network", "join", "genesis.json", "a"),
        (
            "validator",
            "keygen",
            "--network",
            "draft.json",
            "--operator",
            "x",
            "--count",
            "1",
            "--out",
            "full",
        ),
        ("keygen", "admin.key", "--administrator"),
    ):
        code, _, err = lab(*words)
        assert code == 2
        assert "is there already" in err


def test_keys_are_made_whole_or_not_at_all(lab: Run, tmp_path: Path) -> None:
    words = ("--network", "draft.json", "--operator", "Lab c", "--out", "c")
    (tmp_path / "short").write_text("short\n")
    code, _, err = lab("validator", "keygen", *words, "--count", "2", "--passphrase-file", "short")
    assert (code, "at least 8 characters" in err) == (2, True)
    assert lab("validator", "keygen", *words, "--count", "5000")[0] == 2
    assert not (tmp_path / "c").exists()


def test_more_keys_go_into_the_same_folder(lab: Run, tmp_path: Path) -> None:
    made = make_keys(lab, "a", "draft.json")
    assert made["deposits"] == "a/deposits-2.json"
    assert make_keys(lab, "a", "draft.json")["deposits"] == "a/deposits-3.json"
    created = create(lab, "a/deposits.json", "a/deposits-2.json", "b/deposits.json")
    assert created["operators"] == [{"name": "Lab a", "validators": 4}, {"name": "Lab b", "validators": 2}]
    with open_validators(tmp_path / "a", PHRASE, bytes(32)) as validators:
        assert len(validators.keyring.secret_keys) == 6


def test_who_has_nothing_that_an_action_needs(lab: Run) -> None:
    for words, what in (
        (("network", "draft", "lab"), "needs --administrator"),
        (("network", "create", "draft.json", "-o", "g"), "takes DRAFT DEPOSITS … before"),
        (("network", "join", "genesis.json", "a", "b"), "takes GENESIS FOLDER before"),
        (("network", "join", "genesis.json", "x", "--start", START), "takes no --start"),
        (("validator", "keygen", "x"), "takes nothing before"),
        (("validator", "export"), "needs --keystores"),
        (("validator", "import", "x", "--keystores", "a", "--count", "1"), "takes no --count"),
        (("keygen", "x", "--administrator", "--ml-dsa"), "--administrator takes neither"),
    ):
        code, _, err = lab(*words)
        assert code == 2
        assert what in err


def test_a_record_goes_from_machine_to_machine(lab: Run, tmp_path: Path) -> None:
    network_id = read_founded_id(lab, tmp_path)
    root = b"r" * 32
    with open_validators(tmp_path / "a", PHRASE, network_id) as validators:
        pubkeys = list(validators.keyring.secret_keys)
        assert validators.protection.allow_attestation(pubkeys, 3, 4, root) == pubkeys
    code, _, err = lab("validator", "export", "--keystores", "a", "-o", "record.json")
    assert (code, err) == (0, "")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in (tmp_path / "a").glob("keystore-*"):
        (elsewhere / path.name).write_bytes(path.read_bytes())
    with pytest.raises(Exception, match="which tells what these keys have signed"):
        open_validators(elsewhere, PHRASE, network_id).__enter__()
    assert (
        read_result(lab, "validator", "import", "record.json", "--keystores", "elsewhere")["validators"] == 2
    )
    with open_validators(elsewhere, PHRASE, network_id) as validators:
        assert validators.protection.allow_attestation(pubkeys, 2, 5, b"o" * 32) == []
        assert validators.protection.allow_attestation(pubkeys, 4, 5, b"o" * 32) == pubkeys


def read_founded_id(lab: Run, folder: Path) -> bytes:
    create(lab, "a/deposits.json", "b/deposits.json")
    read_result(lab, "network", "join", "genesis.json", "node")
    return read_founded(folder / "genesis.json").network_id


def test_a_lost_record_waits_for_the_network(
    lab: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network_id, network = read_founded_id(lab, tmp_path), f"node/{NETWORK}"
    (tmp_path / "a" / protection.FILE).unlink()
    set_time(monkeypatch, NOW + 600 + 16 * 10)  # epoch 10
    words = ("validator", "resume", "--keystores", "a", "--network", network)
    assert read_result(lab, *words) == {"validators": 2, "epoch": 12, "justified": 11}
    with open_validators(tmp_path / "a", PHRASE, network_id) as validators:
        pubkeys, allow = list(validators.keyring.secret_keys), validators.protection.allow_attestation
        assert allow(pubkeys, 10, 12, b"r" * 32) == []
        assert allow(pubkeys, 11, 11, b"r" * 32) == []
        assert allow(pubkeys, 11, 12, b"r" * 32) == pubkeys
        assert not validators.protection.allow_block(pubkeys[0], 95, b"r" * 32)
        assert validators.protection.allow_block(pubkeys[0], 96, b"r" * 32)


def test_a_network_that_waits_for_the_lost_record_is_told(
    lab: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network_id = read_founded_id(lab, tmp_path)
    (tmp_path / "b" / protection.FILE).unlink()
    set_time(monkeypatch, NOW + 600 + 16 * 10)
    words = ("--keystores", "b", "--network", f"node/{NETWORK}", "--justified", "9")
    assert read_result(lab, "validator", "resume", *words)["justified"] == 9
    with open_validators(tmp_path / "b", PHRASE, network_id) as validators:
        pubkeys, allow = list(validators.keyring.secret_keys), validators.protection.allow_attestation
        assert allow(pubkeys, 8, 12, b"r" * 32) == []
        assert allow(pubkeys, 9, 12, b"r" * 32) == pubkeys


def test_new_validators_are_proposed_and_consented_to(lab: Run, tmp_path: Path) -> None:
    read_founded_id(lab, tmp_path)
    network = f"node/{NETWORK}"
    pubkeys = make_keys(lab, "c", network)["pubkeys"]
    words = ("--network", network, "-o", "proposal.json")
    proposed = read_result(lab, "validator", "propose", "c/deposits.json", *words)
    assert (proposed["pubkeys"], proposed["operator"]) == (pubkeys, "Lab c")
    words = ("--network", network, "--keystores", "a", "-o", "consent.json")
    consented = read_result(lab, "validator", "consent", "proposal.json", *words)
    assert (consented["pubkeys"], consented["keys"]) == (pubkeys, 2)
    signatures = json.loads((tmp_path / "consent.json").read_text())["signatures"]
    assert [len(signed) for signed in signatures.values()] == [2, 2]


def test_a_joined_folder_is_no_embedded_ledger(lab: Run, tmp_path: Path) -> None:
    read_founded_id(lab, tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert lab("keygen", "alice.key")[0] == 0
    words = ("--model", "acme/tiny", "--version", "1", "--key", "alice.key", "--ledger", "node")
    code, _, err = lab("publish", "model", *words)
    assert code != 0
    assert "Traceback" not in err
    assert "--node" in err
