"""No two things that a validator signs are slashable, in whatever order they are asked for."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.consensus.containers.phase0 import AttestationData, Checkpoint
from anchor.consensus.forks.ledger import Ledger
from anchor.errors import CorruptedLedger, Misuse, Unavailable, WrongNetwork
from anchor.node import sqlite
from anchor.node.validators import protection as module
from anchor.node.validators.interchange import MAX_NUMBER, decode_interchange
from anchor.node.validators.protection import Protection

NETWORK = b"n" * 32
ALICE, BOB = b"a" * 48, b"b" * 48


def root(number: int) -> bytes:
    return number.to_bytes(32, "big")


def made(folder: Path, *pubkeys: bytes) -> Protection:
    protection = Protection.create(folder / "protection.sqlite")
    protection.bind(NETWORK)
    protection.register(pubkeys or [ALICE])
    return protection


@pytest.fixture
def protection(tmp_path: Path) -> Iterator[Protection]:
    with closing(made(tmp_path)) as opened:
        yield opened


# Single cases


def test_a_block_is_signed_once_a_slot(protection: Protection) -> None:
    assert protection.allow_block(ALICE, 5, root(1))
    assert not protection.allow_block(ALICE, 5, root(2))
    assert protection.allow_block(ALICE, 5, root(1)), "the same again"
    assert protection.allow_block(ALICE, 4, root(3)), "a slot in which nothing was signed"


@pytest.mark.parametrize(("source", "target"), [(3, 6), (4, 6), (3, 5), (2, 7), (4, 4), (0, 9), (7, 6)])
def test_what_conflicts_with_a_vote_is_refused(protection: Protection, source: int, target: int) -> None:
    assert protection.allow_attestation([ALICE], 3, 6, root(1)) == [ALICE]
    assert protection.allow_attestation([ALICE], 4, 5, root(2)) == []
    expected = {(3, 5): [ALICE]}.get((source, target), [])  # beside it: neither surrounds the other
    assert protection.allow_attestation([ALICE], source, target, root(3)) == expected


def test_the_same_vote_again_is_allowed(protection: Protection) -> None:
    for _ in range(2):
        assert protection.allow_attestation([ALICE], 3, 6, root(1)) == [ALICE]


def test_some_of_many_may_vote(tmp_path: Path) -> None:
    with closing(made(tmp_path, ALICE, BOB)) as protection:
        assert protection.allow_attestation([BOB], 0, 1, root(1)) == [BOB]
        assert protection.allow_attestation([ALICE, b"c" * 48, BOB, ALICE], 0, 1, root(2)) == [ALICE]


def test_who_is_not_registered_signs_nothing(protection: Protection) -> None:
    assert not protection.allow_block(BOB, 5, root(1))
    assert not protection.allow_attestation([BOB], 0, 1, root(1))


def test_who_is_registered_late_signs_what_comes_later(protection: Protection) -> None:
    protection.register([ALICE, BOB], slot=80, source=9, target=10)
    assert protection.allow_block(ALICE, 80, root(1)), "registered before: as it was"
    assert not protection.allow_block(BOB, 80, root(1))
    assert protection.allow_block(BOB, 81, root(1))
    assert not protection.allow_attestation([BOB], 9, 10, root(1))
    assert not protection.allow_attestation([BOB], 8, 11, root(1))
    assert protection.allow_attestation([BOB], 9, 11, root(1))


def test_numbers_beyond_all_are_refused(protection: Protection) -> None:
    assert not protection.allow_block(ALICE, MAX_NUMBER + 1, root(1))
    assert not protection.allow_attestation([ALICE], 0, MAX_NUMBER + 1, root(1))
    assert protection.allow_attestation([ALICE], 0, MAX_NUMBER, root(1))


def test_a_network_is_bound_once(protection: Protection, tmp_path: Path) -> None:
    protection.bind(NETWORK)
    with pytest.raises(WrongNetwork, match="is about network 0x6e6e"):
        protection.bind(b"m" * 32)
    protection.close()
    with closing(Protection.open(tmp_path / "protection.sqlite")) as opened:
        assert opened.find_network_id() == NETWORK


def test_records_grow_no_further_than_they_are_kept(
    protection: Protection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "KEPT_EPOCHS", 4)
    monkeypatch.setattr(module, "KEPT_SLOTS", 4)
    for number in range(1, 60):
        assert protection.allow_attestation([ALICE], number - 1, number, root(number))
        assert protection.allow_block(ALICE, number, root(number))
    (history,) = decode_interchange(protection.export_interchange(), "x")[1]
    assert len(history.votes) == len(history.blocks) == 6, "five, and the floor"
    assert not protection.allow_attestation([ALICE], 1, 30, root(0))
    assert not protection.allow_block(ALICE, 30, root(30))


def test_what_is_kept_no_more_still_counts(
    protection: Protection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "KEPT_EPOCHS", 2)
    for source, target in ((5, 6), (6, 9)):
        assert protection.allow_attestation([ALICE], source, target, root(target))
    with closing(Protection.create(tmp_path / "other")) as other:
        other.import_interchange(protection.export_interchange(), "x")
        for place in (protection, other):
            assert not place.allow_attestation([ALICE], 4, 8, root(8)), (
                "it surrounds 5 to 6, of which nothing is left"
            )
            assert place.allow_attestation([ALICE], 5, 8, root(8))


# The law

NUMBER = st.integers(0, 9)
REQUEST = st.one_of(
    st.tuples(st.just("block"), NUMBER, NUMBER, st.integers(0, 1)),
    st.tuples(st.just("vote"), NUMBER, NUMBER, st.integers(0, 1)),
    st.tuples(st.sampled_from(["restart", "crash", "move", "merge"]), NUMBER, NUMBER, NUMBER),
)
Signed = tuple[str, int, int, bytes]


def is_offence(one: Signed, other: Signed) -> bool:
    """The specification's own predicates."""
    if one[0] != other[0]:
        return False
    if one[0] == "block":
        return one[1] == other[1] and one[3] != other[3]
    first, second = [
        AttestationData(
            slot=0,
            index=0,
            beacon_block_root=vote[3],
            source=Checkpoint(epoch=vote[1], root=bytes(32)),
            target=Checkpoint(epoch=vote[2], root=bytes(32)),
        )
        for vote in (one, other)
    ]
    return any(
        Ledger.is_slashable_attestation_data(None, *pair)  # type: ignore[arg-type]
        for pair in ((first, second), (second, first))
    )


FAST = (*sqlite.PRAGMAS, "synchronous = OFF")
"""The laws are about what is remembered; that it is on disk is for the tests of the file."""


class Signer:
    """Signs all that it may, and starts anew whenever it is told to."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._folder.joinpath("0").mkdir()
        self._protection = made(folder / "0")
        self._past: list[bytes] = []
        self.signed: list[Signed] = []

    def close(self) -> None:
        self._protection.close()

    def do(self, what: str, first: int, second: int, salt: int) -> None:
        if what == "block":
            if self._protection.allow_block(ALICE, first, root(salt)):
                self.signed.append((what, first, 0, root(salt)))
        elif what == "vote":
            message = root(1000 * first + salt)  # a root is of one vote
            if self._protection.allow_attestation([ALICE], first, second, message):
                self.signed.append((what, first, second, message))
        else:
            getattr(self, f"_{what}")(first)

    def _restart(self, _: int) -> None:
        self._protection.close()
        self._protection = Protection.open(self._folder / str(self._count) / "protection.sqlite")

    def _crash(self, number: int) -> None:
        """Dies before what it asked for is on disk: it signs nothing."""
        database = self._protection._database
        with pytest.raises(ZeroDivisionError), database.transaction():
            database.run("INSERT INTO blocks VALUES (1, ?, ?)", number, root(77))
            raise ZeroDivisionError
        self._restart(0)

    def _move(self, _: int) -> None:
        """Goes on elsewhere with an export."""
        self._past.append(self._protection.export_interchange())
        self._protection.close()
        self._count += 1
        self._folder.joinpath(str(self._count)).mkdir()
        self._protection = Protection.create(self._folder / str(self._count) / "protection.sqlite")
        self._protection.import_interchange(self._past[-1], "the export")

    def _merge(self, number: int) -> None:
        """Imports what it exported once."""
        if self._past:
            self._protection.import_interchange(self._past[number % len(self._past)], "an export")


@settings(max_examples=100)
@given(requests=st.lists(REQUEST, max_size=30), kept=st.integers(0, 10))
def test_whatever_is_asked_nothing_slashable_is_signed(
    requests: list[tuple[str, int, int, int]], kept: int
) -> None:
    with (
        TemporaryDirectory() as folder,
        mock.patch.multiple(module, KEPT_EPOCHS=kept, KEPT_SLOTS=kept),
        mock.patch.object(sqlite, "PRAGMAS", FAST),
        closing(Signer(Path(folder))) as signer,
    ):
        for request in requests:
            signer.do(*request)
        assert not [pair for pair in combinations(signer.signed, 2) if is_offence(*pair)]


@settings(max_examples=30)
@given(requests=st.lists(REQUEST.filter(lambda request: request[0] in ("block", "vote")), max_size=25))
def test_whatever_conflicts_with_nothing_is_signed(requests: list[tuple[str, int, int, int]]) -> None:
    """While all is kept, caution costs nothing: only what is slashable, or impossible, is refused."""
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(sqlite, "PRAGMAS", FAST),
        closing(Signer(Path(folder))) as signer,
    ):
        for what, first, second, salt in requests:
            wanted = (
                what,
                first,
                *((0, root(salt)) if what == "block" else (second, root(1000 * first + salt))),
            )
            is_fine = (what == "block" or first <= second) and not any(
                is_offence(wanted, old)
                for old in signer.signed  # type: ignore[arg-type]
            )
            signer.do(what, first, second, salt)
            assert (wanted in signer.signed) == is_fine


def test_the_oracle_finds_what_an_unprotected_signer_does() -> None:
    signed: list[Signed] = [("vote", 1, 4, root(1)), ("vote", 2, 3, root(2)), ("block", 1, 0, root(1))]
    assert is_offence(signed[0], signed[1])
    assert is_offence(signed[2], ("block", 1, 0, root(2)))
    assert not is_offence(signed[0], signed[2])


# The file

SIGN_FOREVER = """
import sys
from pathlib import Path
from anchor.node.validators.protection import Protection
protection, pubkeys = Protection.open(Path(sys.argv[1])), [bytes([n]) * 48 for n in range(1, 9)]
for number in range(1, 1 << 20):
    allowed = protection.allow_attestation(pubkeys, number - 1, number, number.to_bytes(32, "big"))
    assert allowed == pubkeys
    assert protection.allow_block(pubkeys[0], number, number.to_bytes(32, "big"))
    print(number, flush=True)
"""


def test_what_was_allowed_before_a_kill_is_known_after_it(tmp_path: Path) -> None:
    pubkeys = [bytes([number]) * 48 for number in range(1, 9)]
    made(tmp_path, *pubkeys).close()
    path = tmp_path / "protection.sqlite"
    signer = subprocess.Popen(
        [sys.executable, "-c", SIGN_FOREVER, path], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert signer.stdout is not None
    for _ in range(20):
        last = int(signer.stdout.readline())
    os.kill(signer.pid, signal.SIGKILL)
    rest = signer.communicate()[0].split()
    last = int(rest[-1]) if rest else last
    with closing(Protection.open(path)) as protection:
        for number in range(1, last + 1):
            assert not protection.allow_attestation(pubkeys, number - 1, number, root(0))
            assert not protection.allow_block(pubkeys[0], number, root(0))


def test_the_file_is_private_and_durable(protection: Protection, tmp_path: Path) -> None:
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert protection._database.get("PRAGMA synchronous") == [(2,)]
    with pytest.raises(Misuse, match="never overwritten"):
        Protection.create(tmp_path / "protection.sqlite")


def test_a_file_that_is_missing_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="which tells what these keys have signed"):
        Protection.open(tmp_path / "protection.sqlite")


def test_a_damaged_file_signs_nothing(protection: Protection, tmp_path: Path) -> None:
    for number in range(1, 200):
        assert protection.allow_block(ALICE, number, root(number))
    protection.close()
    path = tmp_path / "protection.sqlite"
    data = path.read_bytes()
    for start in range(0, len(data), 4096):
        path.write_bytes(data[:start] + bytes(4096) + data[start + 4096 :])
        with pytest.raises(
            CorruptedLedger, match=r"its keys sign nothing\. Move it away, and run: anchor val"
        ):
            Protection.open(path)
    path.write_bytes(b"")
    with pytest.raises(CorruptedLedger, match="is not a record of what validators signed"):
        Protection.open(path)


def test_a_copy_signs_nothing(protection: Protection, tmp_path: Path) -> None:
    """The way in which most validators are slashed: a folder that runs on two machines."""
    path, copy = tmp_path / "protection.sqlite", tmp_path / "copy.sqlite"
    protection.close()
    copy.write_bytes(path.read_bytes())
    with pytest.raises(Misuse, match=r"copy\.sqlite is a copy, or was moved to another disk"):
        Protection.open(copy)
    path.rename(tmp_path / "moved.sqlite")
    Protection.open(tmp_path / "moved.sqlite").close()


@pytest.mark.parametrize("what", ["copy", "nothing"])
def test_who_resumes_signs_what_comes_after(protection: Protection, tmp_path: Path, what: str) -> None:
    path, place = tmp_path / "protection.sqlite", tmp_path / "other.sqlite"
    assert protection.allow_attestation([ALICE], 7, 8, root(1))
    protection.close()
    if what == "copy":
        place.write_bytes(path.read_bytes())
    Protection.resume(place, [ALICE, BOB], slot=79, source=7, target=9)
    with closing(Protection.open(place)) as resumed:
        for pubkey in (ALICE, BOB):
            assert not resumed.allow_block(pubkey, 79, root(2))
            assert resumed.allow_block(pubkey, 80, root(2))
            assert not resumed.allow_attestation([pubkey], 8, 9, root(2))
            assert not resumed.allow_attestation([pubkey], 6, 10, root(2))
            assert resumed.allow_attestation([pubkey], 7, 10, root(2))
        assert resumed.find_network_id() == (NETWORK if what == "copy" else None)


def test_a_full_disk_allows_nothing(protection: Protection) -> None:
    assert protection.allow_block(ALICE, 1, root(1))
    protection._database.get("PRAGMA max_page_count = 1")
    refused = 0
    for number in range(2, 300):
        try:
            assert protection.allow_block(ALICE, number, root(number))
        except Unavailable as error:
            refused += 1
            assert "cannot be used now: database or disk is full" in error.what
    assert refused
