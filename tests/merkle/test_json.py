"""Values as JSON: what is written is read back, in one form only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from anchor.errors import MalformedSSZ
from anchor.merkle.bits import Bitlist, Bitvector
from anchor.merkle.json import from_json, to_json
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint
from tests.merkle.ssz_strategies import typed_values


@given(typed_values())
def test_a_value_is_read_back(typed: tuple[Schema[Any], Any]) -> None:
    schema, value = typed
    written = json.dumps(to_json(schema, value))
    assert schema.encode(from_json(schema, json.loads(written))) == schema.encode(value)


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (Uint(8), 5), (Uint(8), "05"), (Uint(8), "-1"), (Uint(8), "1.0"), (Uint(8), ""), (Uint(8), "٣"),
        (Uint(8), str(2**64)), (Uint(8), "9" * 5000), (Uint(1), "256"), (Uint(8), None), (Uint(8), True),
        (Boolean(), "true"), (Boolean(), 1), (ByteVector(2), "0x12"), (ByteVector(2), "0x123456"),
        (ByteVector(2), "1234"), (ByteVector(2), "0x12 34"), (ByteVector(2), ["18"]),
        (ByteList(1), "0x1234"), (Bitvector(4), "0xff"), (Bitlist(4), "0x"), (Bitlist(4), "0x00"),
        (Bitlist(4), "0xff"), (List(Uint(8), 1), ["1", "2"]), (List(Uint(8), 1), {"0": "1"}),
        (Vector(Uint(8), 2), ["1"]), (List(Uint(8), 1), ["x"]),
    ],
)  # fmt: skip
def test_another_form_is_refused(schema: Schema[Any], document: Any) -> None:
    with pytest.raises(MalformedSSZ):
        from_json(schema, document)
