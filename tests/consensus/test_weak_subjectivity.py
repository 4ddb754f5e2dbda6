"""How long a checkpoint can be trusted: the specifications' own tables, and rule 21."""

from __future__ import annotations

import pytest

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.presets import LEDGER, MAINNET, MAINNET_CONFIG
from anchor.consensus.weak_subjectivity import (
    compute_expiry_by_slot,
    compute_expiry_by_timestamp,
    compute_period_by_balance,
    compute_period_by_count,
    compute_weak_subjectivity_period,
    get_checkpoint_root,
    is_within_weak_subjectivity_period,
)
from anchor.errors import InvalidTransition
from tests.consensus.ledgers import GENESIS_TIME, Chain

ETH = 10**9


@pytest.mark.parametrize(
    ("average", "count", "period"),
    [
        (28, 32768, 504),
        (28, 65536, 752),
        (28, 131072, 1248),
        (28, 262144, 2241),
        (28, 1048576, 2241),
        (32, 32768, 665),
        (32, 65536, 1075),
        (32, 131072, 1894),
        (32, 262144, 3532),
        (32, 1048576, 3532),
    ],
)
def test_the_table_of_phase0(average: int, count: int, period: int) -> None:
    churn = max(MAINNET_CONFIG.MIN_PER_EPOCH_CHURN_LIMIT, count // MAINNET_CONFIG.CHURN_LIMIT_QUOTIENT)
    total = average * count * ETH
    assert compute_period_by_count(MAINNET, MAINNET_CONFIG, count, total, churn) == period


def test_a_low_average_stake_counts_differently() -> None:
    """Top-ups dominate: 3·N·D·t / (200·Δ·(T - t)) with N = 65536, t = 20."""
    expected = 256 + 3 * 65536 * 10 * 20 // (200 * 512 * 12)
    assert compute_period_by_count(MAINNET, MAINNET_CONFIG, 65536, 20 * 65536 * ETH, 4) == expected


def test_without_validators_there_is_no_period() -> None:
    with pytest.raises(InvalidTransition, match="No validator is active"):
        compute_period_by_count(MAINNET, MAINNET_CONFIG, 0, ETH, 4)


@pytest.mark.parametrize(
    ("total", "period"),
    [(1_048_576, 665), (2_097_152, 1075), (4_194_304, 1894), (8_388_608, 3532), (33_554_432, 3532)],
)
def test_the_table_of_electra(total: int, period: int) -> None:
    churn = max(128 * ETH, total * ETH // 65536)
    assert compute_period_by_balance(MAINNET_CONFIG, total * ETH, churn - churn % ETH) == period


def test_a_checkpoint_is_trusted_for_its_period() -> None:
    chain = Chain()
    ledger = chain.ledger
    for _ in range(20):
        chain.add_block()
    state = chain.state
    checkpoint = Checkpoint(epoch=2, root=get_checkpoint_root(ledger, state))
    assert checkpoint.root == ledger.hash_tree_root(chain.blocks[15].message)  # of slot 16
    period = compute_weak_subjectivity_period(ledger, state)
    last = (2 + period + 1) * LEDGER.SLOTS_PER_EPOCH - 1
    assert is_within_weak_subjectivity_period(ledger, state, checkpoint, last)
    assert not is_within_weak_subjectivity_period(ledger, state, checkpoint, last + 1)


def test_an_old_root_with_a_recent_epoch_is_refused() -> None:
    chain = Chain()
    ledger = chain.ledger
    for _ in range(20):
        chain.add_block()
    old = ledger.get_block_root_at_slot(chain.state, 8)
    with pytest.raises(InvalidTransition, match="not at the checkpoint"):
        is_within_weak_subjectivity_period(ledger, chain.state, Checkpoint(epoch=2, root=old), 20)
    with pytest.raises(InvalidTransition, match="not at the checkpoint"):
        root = get_checkpoint_root(ledger, chain.state)
        is_within_weak_subjectivity_period(ledger, chain.state, Checkpoint(epoch=3, root=root), 20)


def test_a_checkpoints_root_is_its_first_slots_also_there() -> None:
    chain = Chain()
    for _ in range(8):
        chain.add_block()
    at_start = get_checkpoint_root(chain.ledger, chain.state)
    assert at_start == chain.ledger.hash_tree_root(chain.blocks[7].message)
    chain.add_block()
    assert get_checkpoint_root(chain.ledger, chain.state) == at_start


def test_age_by_the_wall_clock_comes_from_the_slot() -> None:
    """Epoch 2, trusted up to the end of epoch 258."""
    expiry = compute_expiry_by_slot(20, 256, GENESIS_TIME, 12, 8)
    assert expiry == GENESIS_TIME + 259 * 8 * 12
    assert compute_expiry_by_slot(16, 256, GENESIS_TIME, 12, 8) == expiry
    assert compute_expiry_by_slot(24, 256, GENESIS_TIME, 12, 8) > expiry


def test_age_by_a_logical_clock_comes_from_the_timestamp() -> None:
    """With a nominal hour a slot, 256 epochs are some 85 days, however few blocks were made in them."""
    expiry = compute_expiry_by_timestamp(GENESIS_TIME, 256, 3600, 8)
    assert round((expiry - GENESIS_TIME) / 86400) == 85
