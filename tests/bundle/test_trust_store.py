"""The user's trust store: what is written is read back, and nothing else is taken for one."""

from __future__ import annotations

import json
import multiprocessing
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.bundle.trust import (
    Trust,
    add_trust,
    decode_store,
    get_store_path,
    load_store,
    read_network_id,
    remove_trust,
    resolve_trust,
    to_json,
)
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import Misuse, Unavailable
from tests.consensus.ledgers import BOB_ROOT, ROOT, identity

CHECKPOINT = Checkpoint(epoch=12, root=b"\xab" * 32)
LAB = Trust(
    CHECKPOINT,
    name="lab",
    network_id=b"\7" * 32,
    operator="three universities",
    publishers={"acme": identity(ROOT), "evil": identity(BOB_ROOT)},
)


def test_what_is_added_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "anchor" / "trust.json"
    assert load_store(path) == {}
    add_trust(path, LAB)
    add_trust(path, Trust(CHECKPOINT, name="bare"))
    assert load_store(path) == {"bare": Trust(CHECKPOINT, name="bare"), "lab": LAB}
    assert resolve_trust("lab", path) == LAB
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    remove_trust(path, "lab")
    assert set(load_store(path)) == {"bare"}
    assert sorted(file.name for file in path.parent.iterdir()) == ["lock", "trust.json"]


def test_adding_again_replaces(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    add_trust(path, LAB)
    add_trust(path, Trust(CHECKPOINT, name="lab"))
    assert load_store(path) == {"lab": Trust(CHECKPOINT, name="lab")}


def test_a_checkpoint_needs_no_store(tmp_path: Path) -> None:
    text = f"0x{'ab' * 32}:12"
    assert resolve_trust(text, tmp_path / "nowhere") == Trust(CHECKPOINT)
    assert resolve_trust(text.upper().replace("0X", "0x"), tmp_path / "nowhere") == Trust(CHECKPOINT)


@pytest.mark.parametrize("name", ["nobody", "", "../lab"])
def test_an_unknown_name_is_misuse(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misuse):
        resolve_trust(name, tmp_path / "trust.json")
    with pytest.raises(Misuse):
        remove_trust(tmp_path / "trust.json", name)


@pytest.mark.parametrize(
    "trust",
    [
        Trust(CHECKPOINT),
        Trust(CHECKPOINT, name="a b"),
        Trust(CHECKPOINT, name="a" * 65),
        Trust(CHECKPOINT, name="lab:1"),
        Trust(CHECKPOINT, name="lab", operator="\x1b[2J"),
        Trust(CHECKPOINT, name="lab", operator="x" * 201),
        Trust(CHECKPOINT, name="lab", publishers={"Acme": identity(ROOT)}),
    ],
    ids=range(7),
)
def test_what_is_no_trust_is_not_added(tmp_path: Path, trust: Trust) -> None:
    with pytest.raises(Misuse):
        add_trust(tmp_path / "trust.json", trust)
    assert not (tmp_path / "trust.json").exists()


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
        max_leaves=5,
    )
)
def test_no_other_json_is_a_store(document: object) -> None:
    for content in (
        document,
        {"schema": "anchor-trust/1", "trust": document},
        {"schema": document, "trust": {}},
    ):
        try:
            known = decode_store(json.dumps(content).encode(), "it")
        except Misuse:
            continue
        assert known == {}, "only an empty store can be hit upon"


@given(st.binary())
def test_no_other_bytes_are_a_store(data: bytes) -> None:
    with pytest.raises(Misuse):
        decode_store(data, "it")


@pytest.mark.parametrize("field", ["checkpoint", "network_id", "operator", "publishers"])
@pytest.mark.parametrize("value", [7, None, "x", {}, []])
def test_a_damaged_entry_is_not_taken(tmp_path: Path, field: str, value: object) -> None:
    path = tmp_path / "trust.json"
    add_trust(path, LAB)
    document = json.loads(path.read_bytes())
    document["trust"]["lab"][field] = value
    path.write_text(json.dumps(document))
    if (field, value) in (("network_id", None), ("publishers", {}), ("operator", "x")):
        assert load_store(path)
    else:
        with pytest.raises(Misuse):
            load_store(path)


def test_a_store_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    path.write_bytes(b" " * (1 << 20) + b"{}")
    with pytest.raises(Misuse, match="too large"):
        load_store(path)


def test_a_store_that_cannot_be_read_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        load_store(tmp_path)


def test_the_stores_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert get_store_path() == tmp_path / "anchor" / "trust.json"
    monkeypatch.setenv("HOME", str(tmp_path))
    for given_place in ("", "relative"):  # as the specification of base directories says
        monkeypatch.setenv("XDG_CONFIG_HOME", given_place)
        assert get_store_path() == tmp_path / ".config" / "anchor" / "trust.json"


def test_a_networks_description_gives_its_identity(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    path.write_text(json.dumps({"schema": "anchor-network/1", "network_id": f"0x{'07' * 32}", "name": "lab"}))
    assert read_network_id(path) == b"\7" * 32
    for content in ("{}", '{"schema": "anchor-network/1", "network_id": "0x07"}', "[]", "\xff", "[" * 10**5):
        path.write_text(content, encoding="latin-1")
        with pytest.raises(Misuse):
            read_network_id(path)


def test_a_name_that_stands_twice_is_not_taken() -> None:
    one, other = ({"lab": to_json(Trust(Checkpoint(epoch=n, root=bytes(32)), name="lab"))} for n in (1, 2))
    twice = f"{json.dumps(one)[:-1]}, {json.dumps(other)[1:]}"
    with pytest.raises(Misuse, match="not a trust store"):
        decode_store(f'{{"schema": "anchor-trust/1", "trust": {twice}}}'.encode(), "it")


def test_without_a_home_there_is_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))
    with pytest.raises(Misuse, match="home"):
        get_store_path()


def _add_many(path: Path, letter: str) -> None:
    for number in range(6):
        add_trust(path, Trust(CHECKPOINT, name=f"{letter}{number}"))
        if number % 2:
            remove_trust(path, f"{letter}{number}")


def test_what_many_add_at_once_is_all_there(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "anchor" / "trust.json"
    writers = [context.Process(target=_add_many, args=(path, letter)) for letter in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert set(load_store(path)) == {f"{letter}{number}" for letter in "abc" for number in range(0, 6, 2)}
