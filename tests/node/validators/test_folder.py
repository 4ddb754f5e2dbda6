"""A folder of validators: made, opened by one process, and never without its record."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from anchor.errors import Misuse, Unavailable, WrongNetwork
from anchor.node.validators import keystores, protection
from anchor.node.validators.folder import PATTERN, add_validators, make_validators, open_validators
from anchor.node.validators.protection import Protection

NETWORK = b"n" * 32


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three validators."""
    monkeypatch.setattr(keystores, "SCRYPT_N", 1 << 4)
    made = make_validators(tmp_path, 3, "password", os.urandom)
    assert len(made.secret_keys) == 3
    return tmp_path


def test_what_was_made_opens_and_may_sign(folder: Path) -> None:
    for number in (1, 2):
        with open_validators(folder, "password", NETWORK) as validators:
            pubkeys = sorted(validators.keyring.secret_keys)
            root = number.to_bytes(32, "big")
            expected = pubkeys if number == 1 else []
            assert validators.protection.allow_attestation(pubkeys, 0, 1, root) == expected


def test_more_keys_are_added_under_the_same_password(folder: Path) -> None:
    with open_validators(folder, "password", NETWORK) as validators:
        old = set(validators.keyring.secret_keys)
        with pytest.raises(Unavailable, match="still in use"):
            add_validators(folder, 2, "password", os.urandom)
    with pytest.raises(Misuse, match="does not open"):
        add_validators(folder, 2, "passwords", os.urandom)
    with pytest.raises(Misuse, match="1 to 4096 keys, not 4099"):
        add_validators(folder, 4096, "password", os.urandom)
    assert len(list(folder.glob(PATTERN))) == 3
    new = set(add_validators(folder, 2, "password", os.urandom).secret_keys)
    found = [keystores.decode_keystore(path.read_bytes(), "k") for path in folder.glob(PATTERN)]
    assert len({keystore.kdf for keystore in found}) == 1, "they still open with one derivation"
    assert len({keystore.iv for keystore in found}) == 5
    with open_validators(folder, "password", NETWORK) as validators:
        assert set(validators.keyring.secret_keys) == old | new
        assert set(validators.protection.allow_attestation(list(new), 0, 1, b"r" * 32)) == new


def test_everything_but_the_public_part_is_private(folder: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert len({path.read_bytes() for path in folder.glob(PATTERN)}) == 3


def test_starts_of_the_cipher_differ_under_one_salt(folder: Path) -> None:
    found = [keystores.decode_keystore(path.read_bytes(), "k") for path in folder.glob(PATTERN)]
    assert len({keystore.kdf for keystore in found}) == 1
    assert len({keystore.iv for keystore in found}) == 3


def test_the_default_cost_is_the_proposals() -> None:
    assert keystores.SCRYPT_N == 262144


def test_one_process_has_the_keys(folder: Path) -> None:
    with (
        open_validators(folder, "password", NETWORK),
        pytest.raises(Unavailable, match="still in use"),
        open_validators(folder, "password", NETWORK),
    ):
        pytest.fail("opened twice")


def test_keys_of_one_network_sign_on_no_other(folder: Path) -> None:
    with open_validators(folder, "password", NETWORK):
        pass
    with pytest.raises(WrongNetwork), open_validators(folder, "password", b"m" * 32):
        pytest.fail("opened for another network")


def test_a_lost_record_is_not_taken_for_an_empty_one(folder: Path) -> None:
    (folder / protection.FILE).unlink()
    with (
        pytest.raises(Unavailable, match="what these keys have signed"),
        open_validators(folder, "password", NETWORK),
    ):
        pytest.fail("opened without a record")
    Protection.create(folder / protection.FILE).close()
    with (
        pytest.raises(Unavailable, match="of 3 such keys, signed"),
        open_validators(folder, "password", NETWORK),
    ):
        pytest.fail("opened with a record of other keys")


def test_a_wrong_password_changes_nothing(folder: Path) -> None:
    with pytest.raises(Misuse, match="does not open"), open_validators(folder, "wrong", NETWORK):
        pytest.fail("opened")
    with open_validators(folder, "password", b"m" * 32):
        pass


def test_a_folder_without_keys(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no keystore in"), open_validators(tmp_path, "password", NETWORK):
        pytest.fail("opened")
    with pytest.raises(Misuse, match="1 to 4096 keys, not 0"):
        make_validators(tmp_path, 0, "password", os.urandom)
