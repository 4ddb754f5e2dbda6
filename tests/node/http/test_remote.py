"""Entries given to a node by the commands that write them: signed here, final there, verified here again."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from anchor.chain import nodes
from anchor.cli.main import main
from anchor.cli.secrets import ADMINISTRATOR, ROOT, SIGNING
from anchor.consensus.containers.phase0 import SignedVoluntaryExit, VoluntaryExit
from anchor.consensus.text import format_checkpoint, format_identity
from anchor.errors import Misuse, WrongNetwork
from anchor.node import keys, remote
from anchor.node.clock import ManualClock
from anchor.node.keys import derive_administrator_key, derive_root_key, encode_key_file, encrypt_secret
from anchor.node.reading import Reader
from anchor.node.remote import Remote
from tests.node.http.conftest import Site
from tests.node.http.tools import get_genesis
from tests.node.tools import ALICE, NOW, PHRASE, Random


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Alice's keys, Bob's, and a model, on the day of Alice's publication."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("ANCHOR_PASSPHRASE", PHRASE)
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(keys, "SCRYPT_N", 1 << 4)
    monkeypatch.setattr(remote, "HEAD_START", 0.2)
    monkeypatch.setattr(remote, "POLL", 0.05)
    monkeypatch.chdir(tmp_path)
    for name in ("alice", "bob"):
        root, signing = (b"root", b"alice") if name == "alice" else (b"bob's root", b"bob")
        identity = format_identity(derive_root_key(root.ljust(32, b"\0")).public.public_key)
        write_key(f"{name}.key", signing.ljust(32, b"\0"), SIGNING, identity, (1,))
        write_key(f"{name}.key.root", root.ljust(32, b"\0"), ROOT, identity)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "note.txt").write_text("2")
    return tmp_path


def write_key(path: str, secret: bytes, kind: str, identity: str, schemes: tuple[int, ...] = ()) -> None:
    file = encrypt_secret(secret, PHRASE, Random(), kind=kind, identity=identity, schemes=schemes)
    Path(path).write_bytes(encode_key_file(file))


class Asker:
    """Runs commands against a site."""

    def __init__(self, site: Site, genesis: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.site, self.genesis, self._capsys = site, genesis, capsys

    async def __call__(self, *words: str, node: bool = True) -> tuple[int, Any]:
        """The exit code and the envelope."""
        more = ("--node", self.site.url, "--trust", self.genesis) if node else ()
        code = await asyncio.to_thread(main, [*words, *more, "--json"])
        return code, json.loads(self._capsys.readouterr().out)

    async def publish(
        self, version: str = "2", name: str = "alice", model: str = "acme/tiny"
    ) -> tuple[int, Any]:
        return await self("publish", "model", "--model", model, "--version", version, "--key", f"{name}.key")


@pytest.fixture
async def ask(site: Site, capsys: pytest.CaptureFixture[str]) -> Asker:
    return Asker(site, format_checkpoint(await get_genesis(site)), capsys)


async def test_what_is_published_at_a_node_verifies_here(ask: Asker, place: Path) -> None:
    code, envelope = await ask.publish()
    assert (code, envelope["error"]) == (0, None)
    assert envelope["result"]["trust"] == ask.genesis
    assert (place / "model" / "model.anchor").is_file()
    code, envelope = await ask(*envelope["result"]["verify"][1:], node=False)
    assert (code, envelope["status"]) == (0, "ok")
    code, envelope = await ask.publish()
    assert code == 1
    assert "is published already" in envelope["error"]["what"]
    assert f"--url {ask.site.url}" in envelope["error"]["fix"]


async def test_a_versions_life_at_a_node(ask: Asker) -> None:
    move = ("acme/tiny@1", "--key", "alice.key")
    code, envelope = await ask("promote", *move, "--to", "staging")
    assert (code, envelope["result"]["to_stage"]) == (0, "staging")
    code, envelope = await ask("promote", *move, "--to", "staging")
    assert code == 1
    assert "cannot move from staging to staging" in envelope["error"]["what"]
    policy = ("acme/tiny", "--approver", format_identity(ALICE.identity), "--root-key", "alice.key.root")
    assert (await ask("policy", *policy))[0] == 0
    assert (await ask("policy", "acme/tiny"))[1]["result"]["approvals_needed"] == 1
    code, envelope = await ask("promote", *move, "--to", "production")
    assert "has 0 of the 1 approvals" in envelope["error"]["what"]
    assert (await ask("approve", *move, "--to", "production"))[0] == 0
    assert (await ask("promote", *move, "--to", "production"))[0] == 0
    assert (await ask("revoke", "acme/tiny@1", "--key", "alice.key"))[0] == 0


async def test_an_administrator_registers_who_may_publish(ask: Asker) -> None:
    write_key("admin.key", ask.site.seed, ADMINISTRATOR, get_administrator(ask))
    code, envelope = await ask.publish("1", "bob", "bobs/own")
    bob = format_identity(derive_root_key(b"bob's root".ljust(32, b"\0")).public.public_key)
    assert code == 1
    assert envelope["error"]["what"] == f"This ledger knows no publisher {bob}."
    assert f"anchor network register {bob}" in envelope["error"]["fix"]
    code, envelope = await ask("network", "register", bob, "--key", "admin.key")
    assert (code, envelope["result"]["publishers"]) == (0, [bob])
    code, envelope = await ask.publish("1", "bob", "bobs/own")
    assert (code, envelope["error"]) == (0, None)
    listed = (await ask("keys", "list"))[1]["result"]["publishers"]
    assert [len(publisher["key_sets"]) for publisher in listed] == [1, 1]
    assert (await ask("keys", "register", "--key", "bob.key"))[0] == 1


def get_administrator(ask: Asker) -> str:
    return format_identity(derive_administrator_key(ask.site.seed).public.public_key)


async def test_who_is_no_administrator_registers_nobody(ask: Asker) -> None:
    write_key("admin.key", b"x" * 32, ADMINISTRATOR, format_identity(ALICE.identity))
    code, envelope = await ask(
        "network", "register", format_identity(b"\x01" + bytes(31)), "--key", "admin.key"
    )
    assert code == 2
    code, envelope = await ask("network", "register", get_administrator(ask), "--key", "alice.key")
    assert (code, envelope["error"]["what"]) == (
        2,
        "alice.key is a signing key, and an administrator key is needed.",
    )
    code, envelope = await ask("network", "register", get_administrator(ask), "--key", "admin.key")
    assert (code, envelope["error"]["kind"]) == (1, "InvalidEntry")


async def test_a_node_without_a_trusted_checkpoint_is_not_written_to(ask: Asker) -> None:
    for more in ((), ("--trust", ask.genesis, "--ledger", "ledger")):
        words = ("revoke", "acme/tiny@1", "--key", "alice.key", "--node", ask.site.url, *more)
        code, envelope = await ask(*words, node=False)
        assert (code, envelope["error"]["what"]) == (2, "--node takes --trust, and no --ledger.")


# Nodes that lie


async def test_no_entry_is_signed_for_another_network(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of network B that is taken for one of A must get nothing that holds on either."""
    sent: list[bytes] = []
    monkeypatch.setattr(remote, "send", lambda *_, **__: sent.append(b""))
    other = Remote(ask.site.url, await get_genesis(ask.site), b"m" * 32, ManualClock(NOW))
    with pytest.raises(WrongNetwork, match="serves network 0x"):
        await asyncio.to_thread(other.look)
    wrong = "0x" + "11" * 32 + ":0"
    code, envelope = await ask(
        "revoke", "acme/tiny@1", "--key", "alice.key", "--node", ask.site.url, "--trust", wrong, node=False
    )
    assert (code, envelope["error"]["kind"]) == (3, "NotServed")
    assert not sent


async def test_a_state_that_is_not_the_trusted_blocks_is_refused(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the node would name the network."""
    fetch = nodes.fetch
    status = json.loads(await asyncio.to_thread(fetch, ask.site.url, "status", "x", 9999, media=nodes.JSON))
    head = status["data"]["head"]["root"]

    def lie(url: str, path: str, what: str, limit: int, **more: Any) -> bytes:
        return fetch(url, f"states/{head}" if path.startswith("states") else path, what, limit, **more)

    monkeypatch.setattr(remote, "fetch", lie)
    trusted = await get_genesis(ask.site)
    with pytest.raises(WrongNetwork, match="gave a state that is not of block 0x"):
        await asyncio.to_thread(lambda: Remote(ask.site.url, trusted, None, ManualClock(NOW)).network_id)


@pytest.mark.parametrize("answer", ["null", "[]", '{"position": 1}', '{"position": [], "final": "x"}'])
async def test_answers_that_are_none(ask: Asker, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(remote, "send", lambda *_, **__: json.loads(answer))
    code, envelope = await ask("revoke", "acme/tiny@1", "--key", "alice.key")
    assert (code, envelope["error"]["kind"]) in ((1, "MalformedAnswer"), (2, "Misuse"))


async def test_a_bundle_that_proves_nothing_is_not_written(
    ask: Asker, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setattr(remote, "fetch_bundle", lambda *_: b"bundle")
    code, envelope = await ask.publish()
    assert code == 3
    assert "acme/tiny@2 is published, but its bundle is not written" in envelope["error"]["what"]
    assert not (place / "model" / "model.anchor").exists()


async def test_who_was_interrupted_before_finality_waits_on(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is recorded and not final yet is not published twice."""
    assert (await ask.publish())[0] == 0
    count = await ask.site.node.read(lambda reader: len(reader.chain.get_head().state.entries))
    look = Remote.look

    def look_back(self: Remote) -> Any:
        seen = look(self)
        return remote.Seen(seen.root, seen.state, seen.ledger, seen.epoch, count - 1)

    monkeypatch.setattr(Remote, "look", look_back)
    code, envelope = await ask.publish()
    assert (code, envelope["error"]) == (0, None)
    assert await ask.site.node.read(lambda reader: len(reader.chain.get_head().state.entries)) == count


async def test_a_node_that_never_makes_it_final(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PATIENCE", 0.3)
    monkeypatch.setattr(remote, "send", lambda *_, **__: {"position": 9, "final": None})
    code, envelope = await ask("revoke", "acme/tiny@1", "--key", "alice.key")
    assert (code, envelope["error"]["what"]) == (3, "An entry is not final yet.")
    assert "/health" in envelope["error"]["fix"]


async def test_who_waits_is_told_how_the_ledger_stands(
    ask: Asker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    final, answers = "0x" + "11" * 32 + ":3", [9, 9, 9]

    def send(*_: Any, **__: Any) -> dict[str, object]:
        time.sleep(0.05)
        answers.pop()
        return {"position": 9, "final": None if answers else final}

    monkeypatch.setattr(remote, "HEAD_START", 0.01)
    monkeypatch.setattr(remote, "POLL", 0.01)
    monkeypatch.setattr(remote, "TELL_SECONDS", 0.01)
    monkeypatch.setattr(remote, "send", send)
    told: list[str] = []
    asked = Remote(ask.site.url, await get_genesis(ask.site), None, ManualClock(NOW))
    entry = (await ask.site.node.read(Reader.get_entry, 0)).signed
    recorded = await asyncio.to_thread(asked.record, [entry], told.append)
    assert [position for position, _ in recorded] == [9]
    status = ask.site.node.status
    assert told[0] == f"Slot {status.slot}, epoch {status.epoch}; final is epoch {status.finalized.epoch}."


async def test_nobody_leaves_a_ledger_of_one_operator(site: Site) -> None:
    wish = SignedVoluntaryExit(message=VoluntaryExit(epoch=0, validator_index=3), signature=bytes(96))
    asked = Remote(site.url, await get_genesis(site), None, ManualClock(NOW))
    with pytest.raises(Misuse, match="Validator 3 does not leave: one operator keeps this ledger"):
        await asyncio.to_thread(asked.send_exit, wish)


async def test_a_state_is_served_by_its_blocks_root(site: Site) -> None:
    root = await site.node.read(lambda reader: reader.chain.get_head().root)
    data = await asyncio.to_thread(nodes.fetch, site.url, f"states/0x{root.hex()}", "state", 1 << 20)
    assert data == await site.node.read(Reader.get_state, root)
