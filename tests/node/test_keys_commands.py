"""Who may sign and who must approve, through the command line, from the ledger's rules to the verdict."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from anchor.cli.log import WORDS
from anchor.consensus.containers.entries import KINDS, Entry, Key, RotateKeys, SignedEntry
from anchor.merkle.scope import schema_of
from anchor.merkle.union import Selected
from anchor.node.chain import Chain
from anchor.node.records import StoredEntry
from tests.node.commands import Run, publish_model, read_result

ROTATE = ("keys", "rotate", "--key", "alice-2.key", "--root-key", "alice.key.root")


@pytest.fixture
def published(ready: Run) -> tuple[Run, list[str], list[str]]:
    """Where acme/tiny@1 is published: with the commands that make its bundle anew, and that verify it."""
    result = read_result(ready, "publish", "model", "--model=acme/tiny", "--version=1", "--key=alice.key")
    bundle = ["bundle", "acme/tiny@1", "--for", result["trust"], "-o", "model/model.anchor"]
    return ready, bundle, result["verify"][1:]


def _identity(run: Run, name: str) -> str:
    """The identity of new keys in NAME.key, registered as a publisher."""
    identity = read_result(run, "keygen", f"{name}.key")["identity"]
    assert read_result(run, "keys", "register", "--key", f"{name}.key")["publisher"] == identity
    return str(identity)


# Keys


def test_a_lost_key_is_rotated_away(published: tuple[Run, list[str], list[str]], tmp_path: Path) -> None:
    run, bundle, check = published
    (tmp_path / "alice.key").rename(tmp_path / "lost.key")
    code, out, _ = run("keygen", "alice-2.key", "--root-key", "alice.key.root", "--ml-dsa")
    assert code == 0
    assert "anchor keys rotate --key alice-2.key --root-key alice.key.root" in out
    assert sorted(path.name for path in tmp_path.glob("*.key*")) == [
        "alice-2.key",
        "alice.key.root",
        "lost.key",
    ]
    rotated = read_result(run, *ROTATE)
    assert [(keys["valid_from"], keys["valid_until"]) for keys in rotated["key_sets"]] == [(2, 5), (5, None)]
    assert [key["scheme"] for key in rotated["key_sets"][1]["keys"]] == ["Ed25519", "ML-DSA-65"]
    assert run(*bundle)[0] == run(*check)[0] == 0  # what the lost key signed before still counts
    lost = ("--model", "acme/tiny", "--version", "2", "--key", "lost.key")
    code, _, err = run("publish", "model", *lost)
    assert code == 1
    assert "The signing key is not the publisher's: another one was set, valid from entry 5 on." in err
    assert run("revoke", "acme/tiny@1", "--key", "lost.key")[0] == 1
    assert publish_model(run, "2", "--key", "alice-2.key")[0] == 0
    code, _, err = run(*ROTATE)
    assert (code, "already, since entry 5" in err) == (1, True)


def test_what_a_thief_published_falls_and_the_rest_stands(
    published: tuple[Run, list[str], list[str]],
) -> None:
    run, bundle, check = published
    theirs = read_result(run, "publish", "model", "--model=acme/tiny", "--version=2", "--key=alice.key")
    assert run("keygen", "alice-2.key", "--root-key", "alice.key.root")[0] == 0
    assert run(*ROTATE)[0] == 0
    assert run(*theirs["verify"][1:])[0] == 0  # nothing has been taken back yet
    first = read_result(run, "log", "--last", "2")["entries"][0]
    assert (first["kind"], first["version"]) == ("publish", "2")
    revoke = ["keys", "revoke", "--since", str(first["entry"]), "--root-key", "alice.key.root"]
    revoked = read_result(run, *revoke, "--reason", "stolen")
    assert revoked["versions"] == ["acme/tiny@2"]
    assert [(keys["valid_from"], keys["valid_until"]) for keys in revoked["key_sets"]] == [(2, 4), (6, None)]
    assert run(*theirs["verify"][1:])[0] == 0  # as of then; later unknown
    assert run(*[word.replace("tiny@1", "tiny@2") for word in bundle])[0] == 0
    code, out, _ = run(*theirs["verify"][1:])
    assert code == 1
    assert "acme/tiny@2 was published in entry 4, and its publisher has revoked the keys" in out
    assert run(*bundle)[0] == run(*check)[0] == 0  # published before
    assert publish_model(run, "3", "--key", "alice-2.key")[0] == 0
    rows = {row["version"]: row["keys_count"] for row in read_result(run, "status")["versions"]}
    assert rows == {"1": True, "2": False, "3": True}
    assert "its keys revoked" in run("status")[1]
    out = run("log")[1]
    assert "revoke keys" in out
    assert "from entry 4 on: stolen" in out
    code, _, err = run("promote", "acme/tiny@2", "--to", "staging", "--key", "alice-2.key")
    assert (code, "published with keys that are revoked" in err) == (1, True)


def test_keys_that_sign_now_are_revoked_until_others_are_set(
    published: tuple[Run, list[str], list[str]],
) -> None:
    run, bundle, check = published
    revoke = ("keys", "revoke", "--since", "3", "--root-key", "alice.key.root")
    code, out, _ = run(*revoke)
    assert code == 0
    assert "  acme/tiny@1" in out
    assert "There is no signing key now. Set one with: anchor keys rotate" in out
    code, _, err = publish_model(run, "2")
    assert (code, "has no signing keys that count now." in err) == (1, True)
    code, _, err = run(*revoke)
    assert (code, "no signing keys that are valid in entry 3" in err) == (1, True)
    code, _, err = run(*[word.replace("3", "99") for word in revoke])
    assert (code, "There is no entry 99: the next one is 5." in err) == (1, True)
    assert run(*bundle)[0] == 0
    assert run(*check)[0] == 1
    assert run("keygen", "alice-2.key", "--root-key", "alice.key.root")[0] == 0
    assert run(*ROTATE)[0] == 0
    assert publish_model(run, "2", "--key", "alice-2.key")[0] == 0


def test_a_stolen_root_key_ends_a_publisher(published: tuple[Run, list[str], list[str]]) -> None:
    run, bundle, check = published
    end = ("keys", "revoke", "--everything", "--since", "4", "--root-key", "alice.key.root")
    code, out, _ = run(*end, "--reason", "root stolen")
    assert code == 0
    assert "From entry 4 on, nothing by this publisher counts" in out
    assert run(*bundle)[0] == run(*check)[0] == 0  # published before
    code, _, err = publish_model(run, "2")
    assert (code, "is revoked from entry 4 on" in err) == (1, True)
    assert run("keygen", "alice-2.key", "--root-key", "alice.key.root")[0] == 0
    assert run(*ROTATE)[0] == 1
    assert "revoked from entry 4 on" in run("keys", "list")[1]
    code, _, err = run(*end)
    assert (code, "is revoked from entry 4 on already." in err) == (1, True)
    assert run(*[word.replace("4", "0") for word in end])[0] == 0  # an earlier entry may follow
    assert run(*bundle)[0] == 0
    assert run(*check)[0] == 1


def test_keys_in_words(ready: Run) -> None:
    assert ready("keys", "list")[1] == "No publisher is registered yet.\n"
    bob = _identity(ready, "bob")
    code, _, err = ready("keys", "register", "--key", "bob.key")
    assert (code, f"Publisher {bob} is registered, and has signing keys." in err) == (1, True)
    assert ready("keygen", "bob-2.key", "--root-key", "bob.key.root")[0] == 0
    assert ready("keys", "rotate", "--key", "bob-2.key", "--root-key", "bob.key.root")[0] == 0
    code, out, _ = ready("keys", "list")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == bob
    assert lines[1].startswith("  entry 2        0x")
    assert lines[2].startswith("  entry 3 on     0x")
    assert lines[2].endswith("… Ed25519")
    assert max(map(len, lines)) <= 80


BAD_CALLS = [
    (["rotate", "--key", "alice.key"], 2, "`anchor keys rotate` needs --root-key."),
    (["rotate", "--root-key", "alice.key.root"], 2, "`anchor keys rotate` needs --key."),
    (["revoke", "--root-key", "alice.key.root"], 2, "`anchor keys revoke` needs --since."),
    (["list", "--key", "alice.key"], 2, "`anchor keys list` takes no --key."),
    (["register", "--key", "alice.key", "--everything"], 2, "takes no --everything."),
    (["register", "--key", "bob.key"], 3, "There is no key bob.key."),
    (["register", "--key", "alice.key", "--root-key", "eve.key.root"], 2, "of different publishers."),
    (["rotate", "--key", "alice.key.root", "--root-key", "alice.key.root"], 2, "is a root key"),
    (["rotate", "--key", "alice.key", "--root-key", "alice.key.root"], 1, "knows no publisher ed25519:"),
    (["revoke", "--since", "-1", "--root-key", "alice.key.root"], 2, "since"),
    (["revoke", "--since", "0", "--root-key", "alice.key.root"], 1, "anchor keys register"),
    (["register", "--key", "alice.key", "--root-passphrase-file", "wrong"], 2, "open alice.key.root."),
]


def test_a_bad_call_is_a_sentence_and_records_nothing(ready: Run, tmp_path: Path) -> None:
    assert ready("keygen", "eve.key")[0] == 0
    (tmp_path / "wrong").write_text("battery staple")
    for arguments, code, words in BAD_CALLS:
        found, out, err = ready("keys", *arguments)
        assert (found, out) == (code, ""), arguments
        assert words in err
        assert len(err.splitlines()) <= 2
    assert read_result(ready, "status")["entries"] == 0
    assert ready("keys", "register", "--key", "alice.key")[0] == 0
    revoke = ("keys", "revoke", "--since", "2", "--root-key", "alice.key.root")
    code, _, err = ready(*revoke, "--reason", "x" * 257)
    assert (code, "at most 256" in err) == (2, True)
    assert read_result(ready, "status")["entries"] == 2


def test_a_root_key_under_a_passphrase_of_its_own(ready: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("battery staple\n")
    assert ready("keygen", "bob.key", "--passphrase-file", "secret")[0] == 0
    assert ready("keygen", "bob-2.key", "--root-key", "bob.key.root")[0] == 0
    register = ("keys", "register", "--key", "bob-2.key", "--root-key", "bob.key.root")
    assert ready(*register)[0] == 2
    assert ready(*register, "--root-passphrase-file", "secret")[0] == 0


def _make_entry(position: int, kind: type) -> tuple[StoredEntry, SignedEntry]:
    body = schema_of(kind).default()
    if kind is RotateKeys:
        body = body.replace(keys=(Key(scheme=1, public_key=b"\1" * 32),))
    entry = schema_of(Entry).default().replace(body=Selected(KINDS.index(kind), body))
    return StoredEntry(position, bytes(32), 0, 0, b""), SignedEntry(entry=entry, signatures=())


def test_every_kind_of_entry_has_words(ready: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that no command writes, too."""
    entries = [_make_entry(position, kind) for position, kind in enumerate(KINDS)]
    monkeypatch.setattr(Chain, "get_status", lambda _: Mock(entries=len(KINDS), final_entries=0))
    monkeypatch.setattr(Chain, "get_entries", lambda *_: entries)
    kinds = [entry["kind"] for entry in read_result(ready, "log")["entries"]]
    code, out, _ = ready("log")
    assert code == 0
    lines = out.splitlines()[1:]
    assert max(map(len, lines)) <= 80
    for kind, line in zip(kinds, lines, strict=True):
        assert (WORDS.get(kind) or kind.split("-")[0]) in line


# Policies


def test_from_a_policy_to_a_verdict(published: tuple[Run, list[str], list[str]]) -> None:
    run, bundle, check = published
    bob, carol = _identity(run, "bob"), _identity(run, "carol")
    policy = ["policy", "acme/tiny", "--root-key", "alice.key.root", "--approver"]
    assert read_result(run, *policy, bob)["approvals_needed"] == 1
    assert run("promote", "acme/tiny@1", "--to", "staging", "--key", "alice.key")[0] == 1
    code, out, _ = run("approve", "acme/tiny@1", "--to", "staging", "--key", "bob.key")
    assert code == 0
    assert "  anchor promote acme/tiny@1 --to staging --key FILE" in out
    assert run("promote", "acme/tiny@1", "--to", "staging", "--key", "alice.key")[0] == 0
    assert run(*policy, bob, "--approver", carol)[0] == 0
    promote = ("promote", "acme/tiny@1", "--to", "production", "--key", "alice.key")
    approve = ("approve", "acme/tiny@1", "--to", "production", "--key")
    approved = read_result(run, *approve, "carol.key")
    assert (approved["approved_by"], approved["not_yet_by"]) == ([carol], [bob])
    code, _, err = run(*promote)
    assert code == 1
    assert err.splitlines()[-2] == (
        "anchor promote: 'acme/tiny@1' has 1 of the 2 approvals that a move to production needs; "
        f"not yet approved by {bob}."
    )
    assert "staging, 1 of 2 approved" in run("status")[1]
    production = [*check, "--require-stage", "production", "--max-age", "1h"]
    assert run(*bundle)[0] == 0
    code, out, _ = run(*production)
    assert (code, "stage is staging, and you require production" in out) == (1, True)
    assert run(*approve, "bob.key")[0] == 0
    assert read_result(run, *promote)["to_stage"] == "production"
    assert run(*bundle)[0] == run(*production)[0] == 0
    out = run("log")[1]
    for words in ("set policy", "acme/tiny: 2 of 2", "approve production", "move to production"):
        assert words in out


def test_a_policy_is_shown_changed_and_taken_away(published: tuple[Run, list[str], list[str]]) -> None:
    run = published[0]
    assert run("policy", "acme/tiny")[1] == "acme/tiny moves up without approvals now.\n"
    bob, carol = _identity(run, "bob"), _identity(run, "carol")
    sign = ("--root-key", "alice.key.root")
    either = ("--approver", bob, "--approver", carol, "--approvals", "1")
    code, out, _ = run("policy", "acme/tiny", *either, *sign)
    assert code == 0
    assert out.startswith("From now on, 1 of these 2 must approve before a version of acme/tiny moves up:")
    assert run("policy", "acme/tiny")[1].splitlines()[2:] == [f"  {bob}", f"  {carol}"]
    assert run("policy", "acme/tiny", "--no-approvals", *sign)[0] == 0
    shown = read_result(run, "policy", "acme/tiny")
    assert shown == {"model": "acme/tiny", "approvers": [], "approvals_needed": 0}
    assert run("promote", "acme/tiny@1", "--to", "staging", "--key", "alice.key")[0] == 0


def test_an_approval_by_a_key_that_was_revoked_there_does_not_count(
    published: tuple[Run, list[str], list[str]],
) -> None:
    run = published[0]
    bob = _identity(run, "bob")
    assert run("policy", "acme/tiny", "--approver", bob, "--root-key", "alice.key.root")[0] == 0
    approval = read_result(run, "approve", "acme/tiny@1", "--to", "staging", "--key", "bob.key")
    since = str(approval["entry"])
    assert run("keys", "revoke", "--since", since, "--root-key", "bob.key.root")[0] == 0
    code, _, err = run("promote", "acme/tiny@1", "--to", "staging", "--key", "alice.key")
    assert (code, f"not yet approved by {bob}" in err) == (1, True)


BAD_POLICIES = [
    (["acme/tiny"], 2, "Nothing says what the policy is."),
    (["acme/tiny", "--approvals", "1"], 2, "1 approvals cannot be had from 0 approvers."),
    (["acme/tiny", "--approver", "BOB", "--approvals", "2"], 2, "cannot be had from 1 approvers."),
    (["acme/tiny", "--approver", "BOB", "--no-approvals"], 2, "takes neither"),
    (["acme/tiny", "--approver", "bob"], 2, "'bob' names no publisher."),
    (["acme/tiny", "--approver", "EVE"], 1, "is no publisher of this ledger."),
    (["evil/tiny", "--no-approvals"], 1, "Nobody has claimed the organisation 'evil'."),
    (["tiny", "--no-approvals"], 1, "not of the form organisation/name"),
]


def test_a_bad_policy_is_a_sentence(ready: Run) -> None:
    names = {"BOB": read_result(ready, "keygen", "bob.key")["identity"], "EVE": "ed25519:" + "66" * 32}
    assert publish_model(ready)[0] == 0
    for arguments, code, words in BAD_POLICIES:
        given = [names.get(word, word) for word in arguments]
        found, out, err = ready("policy", *given, "--root-key", "alice.key.root")
        assert (found, out) == (code, ""), arguments
        assert words in err
        assert len(err.splitlines()) <= 2


def test_a_policy_needs_a_model_and_a_root_key(ready: Run) -> None:
    assert ready("policy", "acme/tiny")[0] == 3
    code, _, err = ready("policy", "acme/tiny", "--no-approvals")
    assert (code, "takes the publisher's root key" in err) == (2, True)


def test_nobody_approves_what_needs_no_approval(published: tuple[Run, list[str], list[str]]) -> None:
    run = published[0]
    for stage, words in (("archived", "needs no approval"), ("staging", "is no approver of 'acme/tiny'")):
        code, _, err = run("approve", "acme/tiny@1", "--to", stage, "--key", "alice.key")
        assert (code, words in err) == (1, True)
    assert run("approve", "acme/tiny@9", "--to", "staging", "--key", "alice.key")[0] == 3
    assert run("approve", "acme/tiny@1", "--to", "heaven", "--key", "alice.key")[0] == 2
