"""Scores fade, bans end, addresses are bounded, and nobody is blamed for a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.errors import AnchorError, Misuse
from anchor.node.network import peers
from anchor.node.network.memory import decode_memory, encode_memory
from anchor.node.network.peers import (
    BAN_AT,
    BAN_SECONDS,
    HALF_LIFE,
    MAX_BAN_SECONDS,
    MAX_LEARNT,
    MAX_LEARNT_FROM_ONE,
    MAX_RETRY,
    AddressBook,
    ClockJudge,
    Fault,
    Standings,
    compute_retry,
)
from anchor.node.network.urls import may_dial, parse_url

EVE, BOB = b"e" * 32, b"b" * 32


def test_points_fade() -> None:
    standings = Standings()
    assert not standings.blame(EVE, Fault.MALFORMED, now=0)
    assert standings.get_points(EVE, HALF_LIFE) == Fault.MALFORMED / 2
    assert standings.get_points(BOB, 0) == 0
    assert not standings.blame(EVE, Fault.MALFORMED, now=HALF_LIFE)  # half of the first, and it
    assert standings.blame(EVE, Fault.MALFORMED, now=HALF_LIFE)


def test_a_ban_ends_and_the_next_is_longer() -> None:
    standings, now = Standings(), 0.0
    for expected in (BAN_SECONDS, 2 * BAN_SECONDS, 4 * BAN_SECONDS):
        assert not standings.blame(EVE, Fault.MALFORMED, now)
        assert standings.blame(EVE, Fault.MALFORMED, now)
        assert standings.get_ban(EVE, now) == expected
        assert standings.get_points(EVE, now) == BAN_AT
        now += expected
        assert standings.get_ban(EVE, now) == 0
        assert standings.get_points(EVE, now) == 0
    for _ in range(50):
        standings.blame(EVE, Fault.MALFORMED, now)
    assert standings.get_ban(EVE, now) == MAX_BAN_SECONDS


def test_small_faults_of_an_honest_peer_never_ban() -> None:
    standings = Standings()
    assert not any(standings.blame(EVE, Fault.FLOOD, now=60.0 * minute) for minute in range(1000))


def test_what_is_remembered_is_bounded_and_bans_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MAX_STANDINGS", 10)
    standings = Standings()
    for _ in range(2):
        standings.blame(EVE, Fault.MALFORMED, 0)
    for number in range(100):
        standings.blame(number.to_bytes(32, "big"), Fault.FLOOD, 1)
    assert standings.get_ban(EVE, 2)
    assert len(standings._known) == 10


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_retries_are_bounded(failures: int, jitter: float) -> None:
    assert 0 < compute_retry(failures, jitter) <= MAX_RETRY
    assert compute_retry(failures, 1) <= compute_retry(failures + 1, 1)


def test_the_operators_addresses_are_never_forgotten() -> None:
    book = AddressBook(["http://a:1", "http://own:1"], own="http://own:1")
    assert book.get_due(0) == ["http://a:1"]
    for _ in range(100):
        book.on_failure("http://a:1", 0, 1)
    book.forget("http://a:1")
    assert (book.get_due(0), book.get_due(MAX_RETRY)) == ([], ["http://a:1"])
    book.on_success("http://a:1")
    assert book.get_due(0) == ["http://a:1"]


def test_learnt_addresses_are_few_and_come_last() -> None:
    book = AddressBook(["http://z:1"])
    assert not book.learn("http://z:1", EVE)
    assert sum(book.learn(f"http://x{number}:1", EVE) for number in range(1000)) == MAX_LEARNT_FROM_ONE
    assert book.learn("http://b:1", BOB)
    assert book.get_due(0)[0] == "http://z:1"
    for number in range(1000):
        book.learn(f"http://y{number}:1", number.to_bytes(32, "big"))
    assert len(book) == MAX_LEARNT + 1
    for _ in range(peers.FORGET_AFTER):
        book.on_failure("http://b:1", 0, 0)
    assert "http://b:1" not in book.get_due(10**9)


def test_a_clock_is_judged_by_most_peers() -> None:
    judge = ClockJudge()
    assert judge.get_words() == ""
    for number, offset in enumerate((3000, 2800, 3100, -(10**9))):
        judge.on_status(bytes([number]), 10**12 + offset, 10**12)
    assert judge.get_words() == "This machine's clock is 2.9 s behind those of its 4 peers."
    for number in range(3):
        judge.on_gone(bytes([number]))
    assert "ahead of" in judge.get_words()
    judge.on_gone(bytes([3]))
    assert judge.get_words() == ""


def test_book_and_bans_outlive_a_restart() -> None:
    book, standings = AddressBook(["http://a:1"]), Standings()
    book.learn("http://b:1", BOB)
    standings.blame(BOB, Fault.FLOOD, 0)
    for _ in range(2):
        standings.blame(EVE, Fault.MALFORMED, 5)
    data = encode_memory(book, standings, now=6)
    assert b"http://a:1" not in data  # it is the operator's to say
    again, bans = decode_memory(data, ["http://c:1"], own="")
    assert again.get_due(0) == ["http://c:1", "http://b:1"]
    assert bans.get_ban(EVE, 6) == standings.get_ban(EVE, 6)
    assert bans.get_ban(BOB, 6) == 0
    assert encode_memory(again, bans, now=6) == data


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_a_broken_memory_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(AnchorError):
        decode_memory(data, [], own="")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://node.example:8960/", "http://node.example:8960"),
        ("https://Node.Example", "https://node.example"),
        ("http://[::1]:1", "http://[::1]:1"),
    ],
)
def test_an_address_has_one_form(text: str, url: str) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "node:1", "ftp://a", "http://", "http://a:99999", "http://u@a", "http://a/b", "http://a?b", "http://a#b",
     "http://a b", "http://a\n", "http://[::1", "http://" + "a" * 300, "http://ä"],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(Misuse):
        parse_url(text)


@pytest.mark.parametrize(
    ("told", "teller", "may"),
    [
        ("http://node.example:1", "9.9.9.9", True),
        ("http://8.8.8.8:1", "9.9.9.9", True),
        ("http://127.0.0.1:1", "9.9.9.9", False),
        ("http://localhost:1", "9.9.9.9", False),
        ("http://169.254.169.254", "9.9.9.9", False),
        ("http://10.0.0.1", "2001:4860:4860::8888", False),
        ("http://[::1]:1", "9.9.9.9", False),
        ("http://127.0.0.1:1", "127.0.0.1", True),
        ("http://10.0.0.1", "10.0.0.2", True),
        ("http://10.0.0.1", "local", False),
    ],
)
def test_nobody_in_the_world_sends_a_node_to_its_own_network(told: str, teller: str, may: bool) -> None:
    assert may_dial(told, teller) is may
