"""Several operators found a network: a draft, deposits, one genesis, everyone's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anchor.bundle.trust import read_network_id
from anchor.consensus.containers.ledger import Genesis
from anchor.errors import InvalidEntry, InvalidSignature, MalformedFile, Misuse, WrongNetwork
from anchor.merkle.scope import schema_of
from anchor.node.folder import open_reader
from anchor.node.founding import (
    draw_draft,
    found_network,
    read_description,
    read_draft,
    read_fork_version,
    read_founded,
    start_folder,
    write_draft,
    write_founded,
)
from anchor.node.validators.deposits import Deposits, read_deposits, write_deposits
from anchor.params import WALL_CLOCK
from tests.node.tools import NOW, Random
from tests.node.validators.tools import ADMINISTRATOR, make_draft, make_network, make_operator

KEY = ADMINISTRATOR.public.public_key


def test_from_a_draft_to_everyones_folder(tmp_path: Path) -> None:
    write_draft(tmp_path / "draft", make_draft())
    draft = read_draft(tmp_path / "draft")
    assert draft == make_draft()
    for name in ("a", "b"):
        write_deposits(tmp_path / f"{name}.json", make_operator(tmp_path / name, name, draft)[1])
    given = [read_deposits(tmp_path / f"{name}.json") for name in ("b", "a")]
    write_founded(tmp_path / "genesis", found_network(draft, given, NOW))
    founded = read_founded(tmp_path / "genesis")
    assert founded.operators == (("a", 2), ("b", 2))
    assert (founded.genesis.clock, founded.genesis.genesis_time) == (WALL_CLOCK, NOW)
    network = start_folder(tmp_path / "node", founded)
    assert (network["operators"], network["validators"]) == (2, 4)
    assert read_network_id(tmp_path / "node" / "network.json") == founded.network_id
    with open_reader(tmp_path / "node") as chain:
        assert chain.get_status().network_id == founded.network_id
        assert chain.get_checkpoint(0) == founded.checkpoint


def test_the_order_of_files_makes_no_other_network(tmp_path: Path) -> None:
    draft = make_draft()
    given = [make_operator(tmp_path / name, name, draft)[1] for name in ("c", "a", "b")]
    ids = {
        found_network(draft, order, NOW).network_id for order in (given, given[::-1], given[1:] + given[:1])
    }
    assert len(ids) == 1
    assert found_network(draft, given, NOW + 1).network_id not in ids
    assert found_network(draft, given[:2], NOW).network_id not in ids


def test_two_drafts_share_nothing() -> None:
    one, other = make_draft(b"one"), make_draft(b"other")
    assert one.fork_version != other.fork_version
    assert one.nonce != other.nonce


def test_deposits_for_another_draft_are_refused(tmp_path: Path) -> None:
    _, deposits = make_operator(tmp_path / "a", "a", make_draft(b"other"))
    with pytest.raises(WrongNetwork, match="The deposits of 'a' are for the network of fork version"):
        found_network(make_draft(), [deposits], NOW)


def test_a_key_that_is_not_possessed_is_refused(tmp_path: Path) -> None:
    """A rogue key, the sum of others negated, would let one sign for all."""
    draft = make_draft()
    _, deposits = make_operator(tmp_path / "a", "a", draft)
    _, other = make_operator(tmp_path / "b", "b", draft)
    stolen = other.deposits[0].replace(signature=deposits.deposits[0].signature)
    with pytest.raises(InvalidSignature, match="Possession of the validator key"):
        found_network(draft, [deposits, Deposits("b", draft.fork_version, (stolen,))], NOW)
    relabelled = Deposits(
        "c", draft.fork_version, make_operator(tmp_path / "c", "c", make_draft(b"x"))[1].deposits
    )
    with pytest.raises(InvalidSignature, match="Possession"):
        found_network(draft, [relabelled], NOW)


def test_a_key_that_two_operators_give_is_refused(tmp_path: Path) -> None:
    draft = make_draft()
    _, deposits = make_operator(tmp_path / "a", "a", draft)
    with pytest.raises(InvalidEntry, match="is given twice: by 'a', and by 'b'"):
        found_network(draft, [deposits, Deposits("b", draft.fork_version, deposits.deposits[:1])], NOW)


def test_a_network_without_validators_is_refused() -> None:
    with pytest.raises(InvalidEntry, match="at least one validator"):
        found_network(make_draft(), [], NOW)


@pytest.mark.parametrize(
    ("name", "keys", "seconds"),
    [("lab", [], 12), ("lab", [KEY, KEY], 12), ("lab", [KEY], 0), ("lab", [KEY], 1 << 20), ("\n", [KEY], 12)],
)
def test_drafts_that_nobody_can_mean(name: str, keys: list[bytes], seconds: int) -> None:
    with pytest.raises(Misuse):
        draw_draft(name, keys, seconds, Random())


@pytest.fixture
def genesis(tmp_path: Path) -> Path:
    """A genesis file."""
    write_founded(tmp_path / "genesis", make_network(tmp_path, "a", "b")[0])
    return tmp_path / "genesis"


def _change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_genesis_that_is_not_what_it_says_is_refused(genesis: Path) -> None:
    """Who was told a network over the telephone compares what this file says: it must be true."""
    _change(genesis, network_id="0x" + "00" * 32)
    with pytest.raises(WrongNetwork, match="The file says that its genesis is of network"):
        read_founded(genesis)


@pytest.mark.parametrize("field", ["name", "operators", "genesis", "schema"])
@pytest.mark.parametrize("value", [None, 1, "", "0x00", "\x1b", [{"name": "a", "validators": 3}]])
def test_what_is_no_genesis_is_refused(genesis: Path, field: str, value: object) -> None:
    _change(genesis, **{field: value})
    if (field, value) == ("name", "0x00"):
        assert read_founded(genesis).name == "0x00"
        return
    with pytest.raises(MalformedFile, match="does not hold the genesis of a network"):
        read_founded(genesis)


def test_an_embedded_ledgers_genesis_founds_no_network(genesis: Path) -> None:
    document = json.loads(genesis.read_text())
    schema = schema_of(Genesis)
    data = schema.decode(bytes.fromhex(document["genesis"][2:])).replace(clock=1)
    _change(genesis, genesis=f"0x{schema.encode(data).hex()}")
    with pytest.raises(MalformedFile, match="does not hold the genesis"):
        read_founded(genesis)


def test_files_are_taken_for_nothing_else(genesis: Path, tmp_path: Path) -> None:
    for read in (read_draft, read_deposits, read_description, read_fork_version):
        with pytest.raises(MalformedFile, match="does not hold"):
            read(genesis)
    write_draft(tmp_path / "draft", make_draft())
    assert read_fork_version(tmp_path / "draft") == make_draft().fork_version
    with pytest.raises(MalformedFile, match="description of a network"):
        read_description(tmp_path / "draft")


def test_the_description_tells_the_time(genesis: Path, tmp_path: Path) -> None:
    start_folder(tmp_path / "node", read_founded(genesis))
    described = read_description(tmp_path / "node" / "network.json")
    assert (
        described.fork_version
        == make_draft().fork_version
        == read_fork_version(tmp_path / "node/network.json")
    )
    assert [described.get_epoch(NOW + seconds) for seconds in (-1, 0, 95, 96, 960)] == [0, 0, 0, 1, 10]
