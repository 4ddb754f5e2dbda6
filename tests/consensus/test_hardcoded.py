"""The tables of checkpoints: they never shrink, and no branch that conflicts with one is adopted."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.hardcoded import (
    BITCOIN_MAINNET,
    TABLES,
    Table,
    get_newest_position,
    get_table,
    look_back,
    verify_branch,
    verify_growth,
    verify_root,
)
from anchor.consensus.presets import get_preset
from anchor.errors import InvalidCheckpoint, Misuse
from anchor.merkle.scope import Scope

FROZEN = """
000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f
    0 000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f
    11111 0000000069e244f73d78e8fd29ba2fd2ed618bd6fa2ee92559f542fdb26e7c1d
    33333 000000002dd5588a74784eaa7ab0507a18ad16a236e7b1ce69f00d7ddfb5d0a6
    74000 0000000000573993a3c9e41ce34471c079dcf5f52a0e824a81e7f953b8661a20
    105000 00000000000291ce28027faea320c8d2b054b2e0fe44a773f3eefb151d6bdc97
    134444 00000000000005b12ffd4cd315cd34ffd4a594f430ac814c91184a0d42d2b0fe
    168000 000000000000099e61ea72015e79632f216fe6cb33d7899acb35b75c8303b763
    193000 000000000000059f452a5f7340de6682a977387c17010ff6e6c3bd83ca8b1317
    210000 000000000000048b95347e83192f69cf0366076336c639f9b7228e9ba171342e
    216116 00000000000001b4f4b433e81ee46494af945cf96014816a4e2370f11b23df4e
    225430 00000000000001c108384350f74090433e7fcf79a606b8e797f065b130575932
    250000 000000000000003887df1f29024b06fc2200b55f8af8f35453d7be294df2d214
    279000 0000000000000001ae8c72a0b0c301f67e3afca10e819efa9041e458e9bd7e40
    295000 00000000000000004d9b4ef50f0f9d686fd69db2e03af35a100370c64632a983
4b363db94e286120d76eb905340fdd4e54bfe9f06bf33ff6cf5ad27f511bfe95
    0 4d611d5b93fdab69013a7f0a2f961caca0c853f87cfe9595fe50038163079360
d8ea171f3c94aea21ebc42a1ed61052acf3f9209c00e4efbaaddac09ed9b8078
    0 fb9b64fe445f76696407e1e3cc390371edff147bf712db86db6197d4b31ede43
9143aa7c615a7f7115e2b6aac319c03529df8242ae705fba9df39b79c59fa8b1
    0 ab09edd9380f8451c3ff5c809821174a36dce606fea8b5ea35ea936915dbf889
212f13fc4df078b6cb7db228f1c8307566dcecf900867401a92023d7ba99cb5f
    0 376450cd7fb9f05ade82a7f88565ac57af449ac696b1a6ac5cc7dac7d467b7d6
"""
"""What was shipped. New entries are added here too; a line that is here is never changed or taken out."""

GENESIS_STATES = {
    "mainnet": ("phase0", "7e76880eb67bbdc86250aa578958e9d0675e64e714337855204fb5abaaf82c2b"),
    "sepolia": ("phase0", "fb9afe32150fa39f4b346be2519a67e2a4f5efcd50a1dc192c3f6b3d013d2798"),
    "holesky": ("bellatrix", "0ea3f6f9515823b59c863454675fefcd1d8b4f2dbe454db166206a41fda060a0"),
    "hoodi": ("deneb", "2683ebc120f91f740c7bed4c866672d01e1ba51b4cc360297138465ee5df40f0"),
}
"""By network, the fork and the state root of its genesis (github.com/eth-clients)."""

A, B, C = (bytes([number]) * 32 for number in (1, 2, 3))
TABLE = Table("test", bytes(32), {0: A, 10: B, 20: C})


def test_tables_never_shrink() -> None:
    network = b""
    for line in FROZEN.split("\n")[1:-1]:
        words = line.split()
        if len(words) == 1:
            network = bytes.fromhex(words[0])
        else:
            assert get_table(network).entries[int(words[0])].hex() == words[1]
    assert sum([len(table.entries) for table in TABLES]) == FROZEN.count("\n    "), (
        "freeze the new entries here"
    )


def test_tables_are_well_formed() -> None:
    assert len({table.network_id for table in TABLES}) == len({table.name for table in TABLES}) == len(TABLES)
    for table in TABLES:
        assert list(table.entries) == sorted(table.entries)
        assert 0 in table.entries
        assert len(set(table.entries.values())) == len(table.entries)
        assert {len(root) for root in [table.network_id, *table.entries.values()]} == {32}
    assert BITCOIN_MAINNET.entries[0] == BITCOIN_MAINNET.network_id


@pytest.mark.parametrize("name", GENESIS_STATES)
def test_genesis_roots_follow_from_the_genesis_states(name: str) -> None:
    """The block at genesis has an empty body, no parent, and the state's root."""
    fork, state_root = GENESIS_STATES[name]
    records = import_module(f"anchor.consensus.containers.{fork}").RECORDS
    scope = Scope(get_preset("mainnet"), records)
    body, header = scope.schema("BeaconBlockBody"), scope.schema("BeaconBlockHeader")
    body_root = body.hash_tree_root(body.default())
    block = header.default().replace(state_root=bytes.fromhex(state_root), body_root=body_root)
    table = next(table for table in TABLES if table.name == name)
    assert header.hash_tree_root(block) == table.entries[0]


def test_a_network_without_entries_has_an_empty_table() -> None:
    table = get_table(B)
    assert (table.network_id, dict(table.entries)) == (B, {})
    assert verify_branch(table, {0: A}.get) is None


def test_the_newest_entry_is_at_or_before() -> None:
    assert [get_newest_position(TABLE, position) for position in (-1, 0, 9, 10, 19, 20, 99)] == [
        None, 0, 0, 10, 10, 20, 20,
    ]  # fmt: skip


def test_another_root_at_an_entry_is_refused() -> None:
    verify_root(TABLE, 10, B)
    verify_root(TABLE, 11, A)
    with pytest.raises(InvalidCheckpoint, match="at 10,"):
        verify_root(TABLE, 10, A)


@given(st.dictionaries(st.integers(0, 25), st.sampled_from([A, B, C]), max_size=26))
def test_a_branch_is_refused_exactly_where_it_conflicts(branch: dict[int, bytes]) -> None:
    shown = [position for position in TABLE.entries if position in branch]
    if all(branch[position] == TABLE.entries[position] for position in shown):
        assert verify_branch(TABLE, branch.get) == (shown[-1] if shown else None)
    else:
        with pytest.raises(InvalidCheckpoint):
            verify_branch(TABLE, branch.get)


@given(st.integers(0, 60), st.integers(0, 8), st.integers(0, 20))
def test_a_state_shows_its_past_as_far_as_it_goes(slot: int, ahead: int, epoch: int) -> None:
    """Four slots an epoch, sixteen roots in a state; the block's root is A, that of slot s is s."""
    roots = [bytes(32)] * 16
    for past in range(max(slot - 16, 0), slot):
        roots[past % 16] = past.to_bytes(32, "big")
    checkpoint = Checkpoint(epoch=-(-slot // 4) + ahead, root=A)
    root = look_back(checkpoint, SimpleNamespace(slot=slot, block_roots=roots), 4)(epoch)
    start = 4 * epoch
    if start >= slot:
        assert root == (A if epoch <= checkpoint.epoch else None)
    else:
        assert root == (start.to_bytes(32, "big") if start >= slot - 16 else None)


@pytest.mark.parametrize(("epoch", "holds"), [(0, False), (10, False), (20, False), (21, True), (99, True)])
def test_a_table_grows_at_its_end(epoch: int, holds: bool) -> None:
    proposed = Checkpoint(epoch=epoch, root=C if epoch == 20 else B if epoch == 10 else A)
    branch = {0: A, 10: B, 20: C, epoch: proposed.root}
    if holds:
        verify_growth(TABLE, proposed, branch.get)
    else:
        with pytest.raises(Misuse, match="grows at its end"):
            verify_growth(TABLE, proposed, branch.get)


def test_nothing_is_proposed_on_a_branch_that_conflicts() -> None:
    with pytest.raises(InvalidCheckpoint):
        verify_growth(TABLE, Checkpoint(epoch=99, root=B), {10: A, 99: B}.get)
