"""Validators that leave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anchor.consensus.duties import Keyring
from anchor.errors import InvalidTransition, Misuse
from anchor.node.chain import Head
from anchor.node.remote import Seen
from anchor.node.validators.exits import find_pubkeys, sign_exit
from tests.node.validators.tools import make_network

LEAVABLE = 16
"""Epochs for which a validator must have been active (SHARD_COMMITTEE_PERIOD)."""


@dataclass
class Lab:
    """A network of two operators, at an epoch."""

    keys: Keyring
    seen: Seen


def make_lab(folder: Path, epoch: int) -> Lab:
    founded, keys = make_network(folder, "a", "b")
    state = founded.state.copy()
    founded.ledger.process_slots(state, epoch * 8)
    return Lab(keys["a"], Seen(founded.checkpoint.root, state, founded.ledger, epoch, 0))


def test_who_was_active_for_long_enough_may_leave(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, LEAVABLE)
    state: Any = lab.seen.get_head().state
    for pubkey in lab.keys.secret_keys:
        wish = sign_exit(lab.seen, lab.keys, pubkey)
        assert state.validators[wish.message.validator_index].pubkey == pubkey
        lab.seen.ledger.process_voluntary_exit(state, wish)
    assert isinstance(lab.seen.get_head(), Head)


def test_who_came_lately_may_not(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, LEAVABLE - 1)
    with pytest.raises(InvalidTransition):
        sign_exit(lab.seen, lab.keys, next(iter(lab.keys.secret_keys)))


def test_who_is_not_in_the_registry_cannot(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, 1)
    stranger = lab.keys.bls.sk_to_pk(5)
    with pytest.raises(InvalidTransition, match="no validator of this network"):
        sign_exit(lab.seen, Keyring(lab.keys.bls, {stranger: 5}), stranger)


def test_keys_are_named_as_their_files_are(tmp_path: Path) -> None:
    keys = make_lab(tmp_path, 1).keys
    names = [f"0x{pubkey.hex()}" for pubkey in keys.secret_keys]
    assert find_pubkeys(keys, names[::-1]) == list(keys.secret_keys)[::-1]
    for word in (names[0][2:], names[0].upper(), "0x", ""):
        with pytest.raises(Misuse, match="There is no key"):
            find_pubkeys(keys, [word])
