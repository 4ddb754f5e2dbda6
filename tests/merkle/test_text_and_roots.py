"""Text and long lists of digests: byte lists and lists of vectors in every respect but the value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.errors import MalformedSSZ, Misuse
from anchor.merkle.proof import build_proof, is_valid_merkle_branch
from anchor.merkle.roots import Roots
from anchor.merkle.sequences import List
from anchor.merkle.ssz import ByteList, ByteVector, get_generalized_index
from anchor.merkle.text import Text

DIGESTS = st.lists(st.binary(min_size=32, max_size=32), max_size=9)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=16))
def test_text_is_a_byte_list(text: str) -> None:
    data = text.encode()
    assert Text(64).encode(text) == ByteList(64).encode(data)
    assert Text(64).hash_tree_root(text) == ByteList(64).hash_tree_root(data)
    assert Text(64).tree(text).root == ByteList(64).hash_tree_root(data)
    assert Text(64).decode(data) == text
    assert Text(64).child(3) == ByteList(64).child(3)


@pytest.mark.parametrize("data", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"abcde"], ids=repr)
def test_text_refuses(data: bytes) -> None:
    with pytest.raises(MalformedSSZ):
        Text(4).decode(data)


@pytest.mark.parametrize("text", ["\ud800", "abcde", "ääa"], ids=ascii)
def test_text_that_cannot_be_encoded(text: str) -> None:
    with pytest.raises(MalformedSSZ):
        Text(4).encode(text)
    with pytest.raises(MalformedSSZ):
        Text(4).hash_tree_root(text)


@settings(deadline=None)
@given(DIGESTS)
def test_roots_are_a_list_of_vectors(digests: list[bytes]) -> None:
    plain, packed = List(ByteVector(32), 1 << 20), Roots(1 << 20)
    joined = b"".join(digests)
    assert packed.encode(joined) == plain.encode(digests)
    assert packed.decode(joined) == joined
    assert packed.hash_tree_root(joined) == plain.hash_tree_root(digests)
    for i, digest in enumerate(digests):
        index = get_generalized_index(packed, i)
        assert index == get_generalized_index(plain, i)
        branch = build_proof(packed.tree(joined), index)
        assert is_valid_merkle_branch(digest, branch, index, packed.hash_tree_root(joined))


def test_roots_refuse() -> None:
    for wrong in (bytes(31), bytes(33), bytes(96)):
        with pytest.raises(MalformedSSZ):
            Roots(2).decode(wrong)
        with pytest.raises(MalformedSSZ):
            Roots(2).hash_tree_root(wrong)
    with pytest.raises(Misuse):
        Roots(2).child(2)
