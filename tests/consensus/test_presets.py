"""Presets and configurations: immutable, and read strictly from files and nodes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from anchor.consensus.presets import (
    MAINNET,
    MAINNET_CONFIG,
    MINIMAL,
    MINIMAL_CONFIG,
    Config,
    get_config,
    get_preset,
)
from anchor.errors import Misuse


def test_constants_are_attributes_and_entries() -> None:
    assert MINIMAL.SLOTS_PER_EPOCH == MINIMAL["SLOTS_PER_EPOCH"] == 8
    assert MAINNET.SLOTS_PER_EPOCH == 32
    assert MAINNET.keys() == MINIMAL.keys()
    assert MAINNET_CONFIG.keys() == MINIMAL_CONFIG.keys()
    assert len(MINIMAL) == len(list(MINIMAL))
    assert repr(MINIMAL) == "Preset(minimal)"
    assert MAINNET.SYNC_SUBCOMMITTEE_SIZE * 4 == MAINNET.SYNC_COMMITTEE_SIZE
    with pytest.raises(AttributeError):
        _ = MINIMAL.NOTHING
    with pytest.raises(AttributeError):
        MINIMAL.SLOTS_PER_EPOCH = 1


def test_replace_makes_another() -> None:
    own = MAINNET.replace("own", SLOTS_PER_EPOCH=4)
    assert (own.name, own.SLOTS_PER_EPOCH, MAINNET.SLOTS_PER_EPOCH) == ("own", 4, 32)
    assert own.MAX_DEPOSITS == MAINNET.MAX_DEPOSITS


def test_names() -> None:
    assert get_preset("minimal") is MINIMAL
    assert get_config("mainnet") is MAINNET_CONFIG
    with pytest.raises(Misuse):
        get_preset("maximal")


def test_a_file_is_read() -> None:
    """YAML takes an unquoted 0x00000001 for a number, and a quoted one for a string."""
    text = """
        PRESET_BASE: 'minimal'
        CONFIG_NAME: devnet-7
        GENESIS_FORK_VERSION: 0x10000038
        ALTAIR_FORK_VERSION: '0x20000038'
        ALTAIR_FORK_EPOCH: 5
        SOMETHING_NEW: 7
        BLOB_SCHEDULE: [{EPOCH: 10, MAX_BLOBS_PER_BLOCK: 15}]
    """
    config = Config.from_mapping(yaml.safe_load(text))
    assert (config.name, config.CONFIG_NAME) == ("devnet-7", "devnet-7")
    versions = [config.GENESIS_FORK_VERSION.hex(), config.ALTAIR_FORK_VERSION.hex()]
    assert versions == ["10000038", "20000038"]
    assert config.ALTAIR_FORK_EPOCH == 5
    assert config.BLOB_SCHEDULE == ({"EPOCH": 10, "MAX_BLOBS_PER_BLOCK": 15},)
    assert config.CHURN_LIMIT_QUOTIENT == MINIMAL_CONFIG.CHURN_LIMIT_QUOTIENT
    assert "SOMETHING_NEW" not in config


def test_a_nodes_answer_is_read() -> None:
    """All values of /eth/v1/config/spec are strings, and older nodes tell seconds."""
    spec = {
        "PRESET_BASE": "mainnet",
        "SECONDS_PER_SLOT": "5",
        "GENESIS_FORK_VERSION": "0x00000064",
        "TERMINAL_TOTAL_DIFFICULTY": str(2**255),
        "BLOB_SCHEDULE": [{"EPOCH": "10", "MAX_BLOBS_PER_BLOCK": "2"}],
        "DEPOSIT_CONTRACT_ADDRESS": "0x0B98057eA310F4d31F2a452B414647007d1645d9",
    }
    config = Config.from_mapping(spec)
    assert (config.SLOT_DURATION_MS, config.seconds_per_slot) == (5000, 5)
    assert config.TERMINAL_TOTAL_DIFFICULTY == 2**255
    assert config.BLOB_SCHEDULE[0]["EPOCH"] == 10
    assert len(config.DEPOSIT_CONTRACT_ADDRESS) == 20


@pytest.mark.parametrize(
    "values",
    [
        {"PRESET_BASE": "maximal"},
        {"ALTAIR_FORK_EPOCH": "soon"},
        {"ALTAIR_FORK_EPOCH": None},
        {"ALTAIR_FORK_EPOCH": -1},
        {"ALTAIR_FORK_EPOCH": True},
        {"ALTAIR_FORK_EPOCH": 1.5},
        {"GENESIS_FORK_VERSION": "0x0001"},
        {"GENESIS_FORK_VERSION": "0xzz000001"},
        {"GENESIS_FORK_VERSION": 2**32},
        {"GENESIS_FORK_VERSION": -1},
        {"GENESIS_FORK_VERSION": [1]},
        {"BLOB_SCHEDULE": 5},
        {"BLOB_SCHEDULE": [5]},
        {"BLOB_SCHEDULE": [{"EPOCH": "x"}]},
        {"SECONDS_PER_SLOT": "x"},
    ],
    ids=str,
)
def test_what_a_name_cannot_hold_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        Config.from_mapping(values)
