"""Rule 27: no byte of a bundle is free. Rule 28: nothing is built from what is out of bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.bundle import finality
from anchor.bundle.types import (
    LEDGER_SCOPE,
    MAX_BUNDLE_BYTES,
    MAX_HOPS,
    Bundle,
    Hop,
    decode_bundle,
    encode_bundle,
)
from anchor.consensus.bls import Bls
from anchor.errors import AnchorError, Malformed, MalformedBundle, Misuse, Unavailable
from anchor.types import Limit
from tests.bundle.chains import Published

SHARES = 8


class RememberingBls(Bls):
    """Computes no answer twice: most mutations are elsewhere than in the votes."""

    def __init__(self) -> None:
        super().__init__()
        self._remembered = lru_cache(4096)(super().aggregate_verify)

    def aggregate_verify(self, pubkeys: Sequence[bytes], messages: Sequence[bytes], signature: bytes) -> bool:
        return self._remembered(tuple(pubkeys), tuple(messages), signature)


@pytest.fixture(autouse=True, scope="module")
def remembering_bls() -> None:
    scheme = RememberingBls()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finality, "signatures", lambda: scheme)
        yield


def is_refused(published: Published, data: bytes, *, newer: bool = False) -> bool:
    """Whether a bundle is refused, as the bad thing that it is."""
    try:
        published.verify(data, published.newest if newer else published.genesis)
    except AnchorError as error:
        assert not isinstance(error, Misuse | Unavailable), "a bad bundle is not the reader's fault"
        return True
    return False


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("newer", [False, True])
def test_no_byte_is_free(published: Published, newer: bool, share: int) -> None:
    data = published.newer if newer else published.older
    assert not is_refused(published, data, newer=newer)
    for position in range(share, len(data), SHARES):
        mutated = bytearray(data)
        mutated[position] ^= random.Random(position).randrange(1, 256)
        assert is_refused(published, bytes(mutated), newer=newer), f"byte {position} is free"


def test_a_bundle_that_is_cut_or_goes_on_is_refused(published: Published) -> None:
    data = published.older
    for length in range(0, len(data), 7):
        assert is_refused(published, data[:length])
    for length in range(0, len(data) // 2, 7):
        with pytest.raises(MalformedBundle):
            published.verify(data[:length])
    assert is_refused(published, data + b"\0")


@given(st.data())
def test_spliced_bundles_are_refused(published: Published, draw: st.DataObject) -> None:
    data = published.older
    start, end = sorted([draw.draw(st.integers(0, len(data))), draw.draw(st.integers(0, len(data)))])
    spliced = data[:start] + draw.draw(st.binary(max_size=64)) + data[end:]
    assert spliced == data or is_refused(published, spliced)


@given(st.binary(max_size=2000))
def test_anything_else_is_malformed(published: Published, data: bytes) -> None:
    for candidate in (data, published.older[:8] + data):
        with pytest.raises(MalformedBundle):
            published.verify(candidate)


def test_there_is_one_encoding(published: Published) -> None:
    for data in (published.older, published.newer):
        assert encode_bundle(decode_bundle(data)) == data


def test_a_bundle_of_another_version_says_so(published: Published) -> None:
    with pytest.raises(MalformedBundle, match="newer release"):
        published.verify(b"\2" + published.older[1:])


def test_too_many_bytes_are_not_looked_at(published: Published) -> None:
    with pytest.raises(MalformedBundle, match="at most"):
        published.verify(bytes(MAX_BUNDLE_BYTES + 1))


class LongBundle(Bundle):
    """A bundle that may have more hops than there can be."""

    hops: Annotated[tuple[Hop, ...], Limit(10**6)]


def test_too_many_hops_are_malformed(published: Published) -> None:
    bundle = decode_bundle(published.older)
    values = dict(zip(bundle.fields, bundle.values(), strict=True))
    long = LongBundle(**values | {"hops": bundle.hops * (MAX_HOPS + 1)})
    with pytest.raises(MalformedBundle, match=f"at most {MAX_HOPS}"):
        published.verify(LEDGER_SCOPE.encode(long))


def test_a_malformed_manifest_makes_a_malformed_bundle(published: Published) -> None:
    with pytest.raises(Malformed):
        published.verify(published.forge(manifest=b"\1"))
