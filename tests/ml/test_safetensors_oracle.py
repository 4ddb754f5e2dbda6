"""Against the format's own reader: whatever ours accepts, it accepts, and understands alike."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize

from anchor.errors import MalformedFile
from anchor.ml.formats.layout import Layout
from anchor.ml.formats.safetensors import read
from tests.ml.checkpoints import TWO, frame, safetensors

SEEDS = [
    safetensors(TWO, metadata={"format": "pt"}),
    safetensors({**TWO, "e": ("F4", [0, 3], b""), "s": ("BF16", [], b"ab")}, padding=7),
    safetensors({"\u00e9\\n": ("F8_E8M0", [2], b"ab")}),
]
BITS = [
    b"0",
    b"1",
    b"-",
    b".",
    b"e",
    b'"',
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b" ",
    b"\\",
    b"u0041",
    b"U8",
    b"\xc3",
]
NUMBERS = st.one_of(st.integers(-1, 5), st.floats(0, 4), st.booleans(), st.none(), st.just(1 << 64))
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "BF16", "F4", "F32", "u8", "X"]),
        "shape": st.lists(NUMBERS, max_size=3),
        "data_offsets": st.lists(NUMBERS, min_size=1, max_size=3),
    },
    optional={"more": NUMBERS},
)
HEADERS = st.dictionaries(st.sampled_from(["a", "b", "", "__metadata__"]), ENTRIES, max_size=3)


def ours(data: bytes) -> Layout | None:
    def read_at(offset: int, length: int) -> bytes:
        assert offset + length <= len(data)
        return data[offset : offset + length]

    try:
        return read(read_at, len(data))
    except MalformedFile:
        return None


def require_agreement(data: bytes) -> None:
    layout = ours(data)
    if layout is None:
        return
    try:
        theirs = {
            name: (info["dtype"], tuple(info["shape"]), info["data"]) for name, info in deserialize(data)
        }
    except SafetensorError as error:
        # The one thing that we keep and it does not: a tensor of a dtype that nobody knows yet.
        assert layout.unsupported, error
        return
    assert theirs == {
        placed.tensor.name: (
            placed.tensor.dtype,
            placed.tensor.shape,
            data[placed.offset or 0 :][: placed.tensor.length],
        )
        for placed in layout.tensors
    }


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_files(seed: bytes, draw: st.DataObject) -> None:
    data = bytearray(seed)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(data) - 1))
        data[at : at + draw.draw(st.integers(0, 2))] = draw.draw(st.sampled_from(BITS))
    length = len(data) - (len(seed) - int.from_bytes(seed[:8], "little"))
    if draw.draw(st.booleans()):  # so that most mutations get past the header's length
        data[:8] = max(length, 0).to_bytes(8, "little")
    require_agreement(bytes(data))


@settings(max_examples=300, deadline=None)
@given(HEADERS, st.binary(max_size=8))
def test_generated_headers(header: dict[str, object], body: bytes) -> None:
    require_agreement(frame(json.dumps(header).encode(), body))


def test_the_seeds_are_read_by_both() -> None:
    for seed in SEEDS:
        assert ours(seed) is not None
        require_agreement(seed)
