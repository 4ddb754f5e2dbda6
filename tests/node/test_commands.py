"""The commands on a ledger, through the command line, in this process."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from anchor.cli import publish as publish_command
from anchor.cli.main import COMMANDS, build_parser
from anchor.node.store import Store
from tests.node.commands import Run, publish_model, read_result

OURS = (
    *("init", "keygen", "keys", "publish", "status", "log", "policy", "approve", "promote", "revoke"),
    *("export", "import"),
)


def test_from_nothing_to_a_verified_model(ready: Run, tmp_path: Path) -> None:
    code, out, err = publish_model(ready)
    assert code == 0
    assert out.startswith("acme/tiny@1 is final.")
    assert err.count("■") == 16
    assert err.count("justified") == 2
    assert "epoch 2    is final" in err
    command = out.split("offline:")[1].replace("\\\n", " ").split()
    code, out, _ = ready(*command[1:])
    assert code == 0
    assert "as it was published" in out
    (tmp_path / "model" / "config.json").write_text("[]")
    code, out, _ = ready(*command[1:])
    assert code == 1
    assert "TAMPERED" in out


def test_a_versions_life(ready: Run) -> None:
    published = read_result(ready, "publish", "model", "--model=acme/tiny", "--version=1", "--key=alice.key")
    check, trust = published["verify"][1:], published["trust"]
    assert ready(*check)[0] == 0
    code, _, err = ready("promote", "acme/tiny@1", "--to", "production", "--key", "alice.key")
    assert code == 1
    assert "cannot move from development to production" in err
    assert "From development it can move to staging or archived." in err
    promoted = read_result(ready, "promote", "acme/tiny@1", "--to", "staging", "--key", "alice.key")
    assert (promoted["from_stage"], promoted["to_stage"]) == ("development", "staging")
    bundle = ["bundle", "acme/tiny@1", "--for", trust, "--ledger", "ledger", "-o", "model/model.anchor"]
    assert ready(*bundle)[0] == 0
    assert ready(*check, "--require-stage", "staging", "--max-age", "1h")[0] == 0
    assert ready(*check, "--require-stage", "production", "--max-age", "1h")[0] == 1
    read_result(ready, "revoke", "acme/tiny@1", "--reason", "wrong split", "--key", "alice.key")
    assert ready(*check)[0] == 0  # as of then; later unknown
    assert ready(*bundle)[0] == 0
    code, out, _ = ready(*check)
    assert code == 1
    assert "revoked" in out
    kinds = [entry["kind"] for entry in read_result(ready, "log")["entries"]]
    assert kinds[-3:] == ["publish", "promote", "revoke-version"]
    assert read_result(ready, "status")["versions"][0]["revoked"]


def test_publishing_again_is_refused_before_anything_is_hashed(
    ready: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publish_model(ready)[0] == 0
    monkeypatch.setattr(publish_command, "_hash", lambda *_: pytest.fail("hashed"))
    code, out, err = publish_model(ready)
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "anchor publish: 'acme/tiny@1' is published already."


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--model", "Acme/tiny"], 2, "'Acme' is not a name"),
        (["--model", "acme"], 2, "not of the form organisation/name"),
        (["--model", "acme/\udcff"], 2, "is not a name"),
        (["--version", "1/2"], 2, "'1/2' is not a name"),
        (["--ledger", "nowhere"], 3, "There is no ledger in nowhere."),
        (["--key", "nowhere"], 3, "There is no key nowhere."),
        (["--key", "alice.key.root"], 2, "alice.key.root is a root key, and a signing key is needed."),
        (["--key", "model/config.json"], 1, "model/config.json is no key file"),
        (["--root-key", "nowhere"], 2, "needs its root key, and nowhere is not there."),
        (["--root-key", "alice.key"], 2, "alice.key is a signing key, and a root key is needed."),
        (["--passphrase-file", "nowhere"], 3, "nowhere cannot be read"),
        (["--passphrase-file", "empty"], 2, "The first line of empty is no passphrase."),
        (["--passphrase-file", "wrong"], 2, "The passphrase does not open ledger/keys."),
        (["--key-passphrase-file", "wrong"], 2, "The passphrase does not open alice.key."),
        (["--lineage", "nowhere"], 3, "nowhere cannot be read"),
        (["--lineage", "wrong"], 2, "ineage"),
    ],
)
def test_a_bad_call_is_one_sentence_and_leaves_nothing(
    ready: Run, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    (tmp_path / "empty").write_text("\nsecond line")
    (tmp_path / "wrong").write_text("battery staple")
    found, out, err = publish_model(ready, "1", *arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert len(err.splitlines()) <= 2
    assert not (tmp_path / "model" / "model.anchor").exists()
    assert read_result(ready, "status")["entries"] == 0


def test_an_unfit_checkpoint_is_not_published(ready: Run, tmp_path: Path) -> None:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],'
    header += b'"data_offsets":[0,4]}}'
    data = len(header).to_bytes(8, "little") + header + bytes(4)
    (tmp_path / "model" / "model.safetensors").write_bytes(data)
    code, _, err = publish_model(ready)
    assert code == 1
    assert "not fit to be published: model.safetensors" in err
    assert read_result(ready, "status")["entries"] == 0


def test_a_bundle_that_cannot_be_written_does_not_hide_the_publication(ready: Run) -> None:
    code, _, err = publish_model(ready, "1", "-o", "nowhere/bundle")
    assert code == 3
    assert "acme/tiny@1 is published and final, but its bundle is not written" in err
    command = err.splitlines()[-1].split("with: ")[1].replace("FILE", "model/model.anchor").split()
    assert ready(*command[1:], "--ledger", "ledger")[0] == 0


def test_a_bundle_elsewhere(ready: Run, tmp_path: Path) -> None:
    code, out, _ = publish_model(ready, "1", "-o", "my bundle")
    assert code == 0
    assert "--bundle 'my bundle'" in out
    assert (tmp_path / "my bundle").is_file()


def test_killed_before_the_bundle_is_there_the_rest_can_be_told(
    ready: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        (tmp_path / "model" / f".model.anchor.{'0' * 16}.new").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("anchor.files.write_over", killed)
        assert publish_model(ready)[0] == 130
    code, _, err = publish_model(ready, "1", "--ledger", "ledger")
    assert code == 1
    assert err.startswith("anchor publish: 'acme/tiny@1' is published already.")
    command = err.split("make that with: ")[1].split()
    assert command[:3] == ["anchor", "bundle", "acme/tiny@1"]
    assert command[-4:] == ["--ledger", "ledger", "-o", "model/model.anchor"]
    trust, publisher = command[4], json.loads((tmp_path / "alice.key").read_text())["identity"]
    check = ("verify", "model", "--trust", trust, "--model", "acme/tiny@1", "--publisher", publisher)
    assert ready(*command[1:-2], "-o", "bundle")[0] == 0
    code, out, _ = ready(*check, "--bundle", "bundle")
    assert code == 1
    assert "EXTRA" in out
    assert "An interrupted `anchor publish` or `anchor bundle` left it" in out
    assert ready(*command[1:])[0] == ready(*check)[0] == 0


def test_what_an_interrupted_writer_left_is_not_published(ready: Run, tmp_path: Path) -> None:
    (tmp_path / "model" / f".model.anchor.{'0' * 16}.new").write_bytes(b"half")
    published = read_result(ready, "publish", "model", "--model=acme/tiny", "--version=1", "--key=alice.key")
    assert ready(*published["verify"][1:])[0] == 0
    shown = json.loads(ready("bundle", "--show", "model/model.anchor")[1])
    assert [file["path"] for file in shown["manifest"]["files"]] == ["config.json"]


def test_two_passphrases(ready: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bob's").write_text("battery staple\r\n")
    assert ready("keygen", "bob.key", "--passphrase-file", "bob's")[0] == 0
    publish = ["publish", "model", "--model", "b/x", "--version", "1", "--key", "bob.key"]
    assert ready(*publish)[0] == 2
    assert ready(*publish, "--key-passphrase-file", "bob's")[0] == 0
    monkeypatch.setenv("ANCHOR_KEY_PASSPHRASE", "battery staple")
    assert ready("promote", "b/x@1", "--to", "staging", "--key", "bob.key")[0] == 0


def test_the_root_key_is_needed_once(ready: Run, tmp_path: Path) -> None:
    (tmp_path / "alice.key.root").rename(tmp_path / "offline")
    assert publish_model(ready)[0] == 2
    assert publish_model(ready, "1", "--root-key", "offline")[0] == 0
    (tmp_path / "offline").unlink()
    assert publish_model(ready, "2")[0] == 0


def test_keys_for_decades(ready: Run) -> None:
    assert ready("keygen", "old.key", "--ml-dsa")[0] == 0
    publish = ["publish", "model", "--model", "b/x", "--version", "1", "--key", "old.key"]
    check = read_result(ready, *publish)["verify"]
    code, out, _ = ready(*check[1:])
    assert code == 0
    assert "Ed25519 and ML-DSA-65" in out


def test_another_publishers_organisation_is_not_taken(ready: Run) -> None:
    assert publish_model(ready)[0] == 0
    assert ready("keygen", "bob.key")[0] == 0
    code, _, err = ready("publish", "model", "--model", "acme/x", "--version", "1", "--key", "bob.key")
    assert code == 1
    assert "The organisation 'acme' is ed25519:" in err
    assert "publisher 0" not in err


def test_keys_are_private_and_never_overwritten(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("keygen", "alice.key")
    assert code == 0
    assert out.startswith("ed25519:")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(before) == ["alice.key", "alice.key.root"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    assert run("keygen", "alice.key")[0] == 2
    (tmp_path / "alice.key").unlink()
    code, _, err = run("keygen", "alice.key")
    assert code == 2
    assert "alice.key.root is there already" in err
    assert (tmp_path / "alice.key.root").read_bytes() == before["alice.key.root"]


def test_a_new_ledger_says_what_it_proves(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("init", "ledger", "--name", "our lab")
    assert code == 0
    assert "What it proves" in out
    assert "does not prove: that independent parties agreed" in out
    assert (tmp_path / "ledger").stat().st_mode & 0o777 == 0o700
    network = json.loads((tmp_path / "ledger" / "network.json").read_text())
    assert network["name"] == "our lab"
    assert network["genesis"] in out
    code, _, err = run("init", "ledger")
    assert code == 2
    assert "not an empty folder" in err
    assert run("init", "x", "--name", "a\nb")[0] == 2
    assert run("init", "x", "--name", "é" * 200)[0] == 2
    assert not (tmp_path / "x").exists()


def test_a_passphrase_is_asked_for(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANCHOR_PASSPHRASE")
    code, _, err = run("init", "ledger")
    assert code == 2
    assert "there is nobody to ask" in err
    answers = ["correct horse", "correct house", "correct horse", "correct horse", "short", "short"]
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return answers[len(asked) - 1]

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", ask)
    assert run("init", "ledger")[0] == 2  # two spellings
    assert run("init", "ledger")[0] == 0
    assert run("keygen", "alice.key")[0] == 2  # too short
    assert asked[:2] == ["Passphrase of the ledger in ledger: ", "The same again: "]
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_the_ledgers_place_from_the_environment(ready: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHOR_LEDGER", "elsewhere")
    assert ready("status")[0] == 3
    monkeypatch.setenv("ANCHOR_LEDGER", "ledger")
    assert ready("status")[0] == 0


def test_status_and_log_in_words(ready: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nothing is published yet." in ready("status")[1]
    assert "Nothing is recorded yet." in ready("log")[1]
    name = "an-organisation-with-a-long-name-indeed/" + "m" * 80
    publish = ["publish", "model", "--model", name, "--version", "v" * 64, "--key", "alice.key"]
    assert ready(*publish)[0] == 0
    assert publish_model(ready, "2")[0] == 0
    reason = "\x1b[31mred\u202e and a good deal longer than eighty columns" * 3
    assert ready("revoke", "acme/tiny@2", "--reason", reason, "--key", "alice.key")[0] == 0
    for command in (["status"], ["log"], ["log", "--model", "acme/tiny"], ["status", "--last", "1"]):
        code, out, _ = ready(*command)
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80
        assert "\x1b" not in out
        assert "\u202e" not in out
    assert "… and 1 older" in out
    entries = read_result(ready, "log", "--model", "acme/tiny", "--last", "1")["entries"]
    assert [entry["kind"] for entry in entries] == ["revoke-version"]
    assert entries[0]["reason"] == reason
    assert ready("log", "--last", "0")[0] == ready("status", "--last", "-1")[0] == 2
    assert ready("log", "--model", "acme/other")[1] == "Nothing is recorded of acme/other.\n"
    assert read_result(ready, "log", "--last", "2")["entries_total"] == 7


def test_there_and_back(ready: Run, tmp_path: Path) -> None:
    assert publish_model(ready)[0] == 0
    assert ready("export", "-o", "backup")[0] == 0
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    code, out, _ = ready("import", "backup", "copy")
    assert code == 0
    assert "It only reads." in out
    assert "a copy that only reads" in ready("status", "--ledger", "copy")[1]
    code, _, err = publish_model(ready, "2", "--ledger", "copy")
    assert code == 2
    assert "only reads" in err
    assert ready("import", "backup", "ledger")[0] == 2
    assert read_result(ready, "import", "backup", "successor", "--take-over")["may_sign"]
    assert publish_model(ready, "2", "--ledger", "successor")[0] == 0
    assert ready("import", "nowhere", "copy2")[0] == 3
    code, _, err = ready("export", "--ledger", "nowhere", "-o", "backup2")
    assert code == 3
    assert "There is no ledger in nowhere." in err
    assert ready("import", "alice.key", "copy2")[0] == 1
    assert not (tmp_path / "copy2").exists()


def test_a_copied_folder_does_not_sign_against_its_original(ready: Run, tmp_path: Path) -> None:
    assert publish_model(ready)[0] == 0
    copytree(tmp_path / "ledger", tmp_path / "copy")
    code, _, err = publish_model(ready, "2", "--ledger", "copy")
    assert code == 2
    assert "This ledger's folder is a copy, or moved to another disk, and only reads" in err
    assert "anchor export -o FILE, then anchor import FILE FOLDER --take-over" in err
    assert "a copy that only reads" in ready("status", "--ledger", "copy")[1]
    (tmp_path / "ledger").rename(tmp_path / "moved")
    assert publish_model(ready, "2", "--ledger", "moved")[0] == 0
    rmtree(tmp_path / "moved")
    assert ready("export", "--ledger", "copy", "-o", "backup")[0] == 0
    assert ready("import", "backup", "ledger", "--take-over")[0] == 0
    assert publish_model(ready, "3")[0] == 0


@pytest.mark.parametrize("command", OURS)
def test_help_has_an_example_and_fits(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert command in COMMANDS
    text = build_parser(command).format_help()
    assert f"\n  anchor {command}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_interrupted_revocation_is_final_before_it_is_refused(
    ready: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count() -> tuple[int, int]:
        status = read_result(ready, "status")
        return status["entries"], status["final_entries"]

    revoke = ("revoke", "acme/tiny@1", "--key", "alice.key")
    assert publish_model(ready)[0] == 0
    reserve, calls = Store.reserve, iter([False, True])

    def interrupted(store: Store, epoch: int) -> None:
        if next(calls, False):
            raise KeyboardInterrupt
        reserve(store, epoch)

    monkeypatch.setattr(Store, "reserve", interrupted)
    assert ready(*revoke)[0] == 130
    assert count() == (5, 4)
    code, _, err = ready(*revoke)
    assert (code, "is revoked, for good" in err) == (1, True)
    assert count() == (5, 5)
