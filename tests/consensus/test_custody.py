"""Custody of columns: laws, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.consensus.custody import compute_columns_for_custody_group, get_custody_groups
from anchor.consensus.presets import MAINNET, MAINNET_CONFIG
from anchor.errors import Misuse

COUNT = MAINNET_CONFIG.NUMBER_OF_CUSTODY_GROUPS
node_ids = st.integers(0, 2**256 - 1) | st.integers(2**256 - 300, 2**256 - 1)


@given(node_ids, st.integers(1, COUNT))
def test_who_keeps_more_keeps_what_it_kept(node_id: int, count: int) -> None:
    groups = get_custody_groups(MAINNET_CONFIG, node_id, count)
    assert groups == sorted(set(groups))
    assert len(groups) == count
    assert set(get_custody_groups(MAINNET_CONFIG, node_id, count - 1)) < set(groups)


@pytest.mark.parametrize("count", [1, 2, 64, 128])
def test_the_groups_share_out_all_columns(count: int) -> None:
    config = MAINNET_CONFIG.replace(NUMBER_OF_CUSTODY_GROUPS=count)
    parts = [compute_columns_for_custody_group(MAINNET, config, group) for group in range(count)]
    assert sorted([column for part in parts for column in part]) == list(range(MAINNET.NUMBER_OF_COLUMNS))
    assert {len(part) for part in parts} == {MAINNET.NUMBER_OF_COLUMNS // count}


def test_what_is_not_there_is_refused() -> None:
    for node_id, count in ((0, COUNT + 1), (0, -1), (2**256, 1), (-1, 1)):
        with pytest.raises(Misuse, match="cannot keep"):
            get_custody_groups(MAINNET_CONFIG, node_id, count)
    for group in (-1, COUNT):
        with pytest.raises(Misuse, match="no custody group"):
            compute_columns_for_custody_group(MAINNET, MAINNET_CONFIG, group)
