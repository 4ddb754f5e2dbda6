"""The handshake: both prove who they are, and every way not to is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.errors import (
    AnchorError,
    InvalidSignature,
    MalformedFile,
    MalformedSSZ,
    Misuse,
    RefusedPeer,
    WrongNetwork,
)
from anchor.merkle.scope import schema_of
from anchor.node.network.handshake import MAX_HANDSHAKE_BYTES, Dialler, Hello, Identity, Listener, Welcome
from anchor.node.network.identity import FILE, load_identity
from tests.node.network.wires import allow, make_identity
from tests.node.tools import Random

ALICE, BOB = make_identity("alice", url="http://alice:1"), make_identity("bob")


def shake(alice: Identity = ALICE, bob: Identity = BOB) -> tuple[Hello, Hello]:
    """Who each side learns that the other is."""
    dialler, listener = Dialler(alice, Random(b"a"), allow), Listener(bob, Random(b"b"), allow)
    theirs, signature = dialler.on_welcome(listener.on_hello(dialler.greet()))
    return listener.on_signature(signature), theirs


def test_each_learns_who_the_other_is() -> None:
    of_alice, of_bob = shake()
    assert (of_alice.identity, of_alice.url) == (ALICE.public, b"http://alice:1")
    assert (of_bob.identity, of_bob.url) == (BOB.public, b"")


@pytest.mark.parametrize(
    ("bob", "error", "words"),
    [
        (make_identity("bob", network=bytes(32)), WrongNetwork, "network 0x00000000…"),
        (make_identity("alice"), RefusedPeer, "this node itself"),
    ],
)
def test_who_is_refused(bob: Identity, error: type[AnchorError], words: str) -> None:
    with pytest.raises(error, match="0x00010203…, and this node of 0x00000000…" if "net" in words else words):
        shake(bob=bob)


def test_another_version_is_refused() -> None:
    hello = ALICE.make_hello(Random()).replace(version=1)
    with pytest.raises(RefusedPeer, match="speaks version 1"):
        Listener(BOB, Random(), allow).on_hello(schema_of(Hello).encode(hello))


def test_whoever_is_judged_is_not_answered() -> None:
    def judge(hello: Hello) -> None:
        raise RefusedPeer("It is banned.")

    dialler = Dialler(ALICE, Random(b"a"), judge)
    with pytest.raises(RefusedPeer, match="banned"):
        Listener(BOB, Random(b"b"), judge).on_hello(dialler.greet())
    with pytest.raises(RefusedPeer, match="banned"):
        dialler.on_welcome(Listener(BOB, Random(b"b"), allow).on_hello(dialler.greet()))


def test_a_signature_serves_once() -> None:
    first = Dialler(ALICE, Random(b"a"), allow)
    old = Listener(BOB, Random(b"b"), allow)
    welcome = old.on_hello(first.greet())
    _, signature = first.on_welcome(welcome)
    again = Listener(BOB, Random(b"another"), allow)
    again.on_hello(first.greet())
    with pytest.raises(InvalidSignature):
        again.on_signature(signature)  # replayed to the listener
    with pytest.raises(InvalidSignature):
        Dialler(ALICE, Random(b"another"), allow).on_welcome(welcome)  # replayed to the dialler


def test_a_signature_is_no_answer_to_its_maker() -> None:
    """Someone without a key sends what a listener signed back to it."""
    listener = Listener(BOB, Random(b"b"), allow)
    hello = ALICE.make_hello(bytes).replace(nonce=bytes(32), url=b"")
    welcome: Welcome = schema_of(Welcome).decode(listener.on_hello(schema_of(Hello).encode(hello)))
    with pytest.raises(InvalidSignature, match="does not prove"):
        listener.on_signature(welcome.signature)


@given(st.integers(min_value=0), st.integers(0, 7))
def test_a_changed_bit_is_refused(position: int, bit: int) -> None:
    dialler, listener = Dialler(ALICE, Random(b"a"), allow), Listener(BOB, Random(b"b"), allow)
    welcome = bytearray(listener.on_hello(dialler.greet()))
    welcome[position % len(welcome)] ^= 1 << bit
    with pytest.raises((MalformedSSZ, InvalidSignature, WrongNetwork, RefusedPeer)):
        dialler.on_welcome(bytes(welcome))


@given(st.binary(max_size=MAX_HANDSHAKE_BYTES))
def test_garbage_is_refused(data: bytes) -> None:
    listener = Listener(BOB, Random(b"b"), allow)
    with pytest.raises((MalformedSSZ, WrongNetwork, RefusedPeer)):
        listener.on_hello(data)
    listener.on_hello(Dialler(ALICE, Random(b"a"), allow).greet())
    with pytest.raises(InvalidSignature):
        listener.on_signature(data)


def test_no_message_is_longer_than_said() -> None:
    alice = make_identity("alice", url="h" * 256)
    dialler = Dialler(alice, Random(b"a"), allow)
    listener = Listener(make_identity("bob", url="h" * 256), Random(b"b"), allow)
    assert max(len(dialler.greet()), len(listener.on_hello(dialler.greet()))) <= MAX_HANDSHAKE_BYTES


def test_an_identity_is_drawn_once_and_kept(tmp_path: Path) -> None:
    key = load_identity(tmp_path, Random(b"x"))
    assert load_identity(tmp_path, Random(b"y")).public == key.public
    path = tmp_path / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(Misuse, match="chmod 600"):
        load_identity(tmp_path, Random())
    path.chmod(0o600)
    path.write_text("nothing")
    with pytest.raises(MalformedFile):
        load_identity(tmp_path, Random())
