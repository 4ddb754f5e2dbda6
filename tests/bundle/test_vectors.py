"""The frozen cases of specs/vectors/bundle: what any verifier must say of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anchor import errors
from anchor.bundle.evidence import Expectations
from anchor.bundle.types import decode_bundle, encode_bundle
from anchor.bundle.verify import verify_bundle
from anchor.consensus.text import parse_checkpoint, parse_identity

CASES = sorted((Path(__file__).parent.parent.parent / "specs" / "vectors" / "bundle").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_frozen_bundle(case: Path) -> None:
    data, told = (case / "bundle.anchor").read_bytes(), json.loads((case / "case.json").read_text())
    assert case.name.endswith("_fail") == (told["refused"] is not None)
    expected = Expectations(
        model=told["model"],
        version=told["version"],
        publisher=told["publisher"] and parse_identity(told["publisher"]),
        accepts_stale_trust=told["allow_stale_trust"],
    )
    trusted = parse_checkpoint(told["trusted"])
    if told["refused"] is None:
        evidence = verify_bundle(data, trusted, expected, now=told["now"])
        assert (evidence.model, evidence.version) == (told["model"], told["version"])
        assert encode_bundle(decode_bundle(data)) == data
    else:
        with pytest.raises(errors.AnchorError) as caught:
            verify_bundle(data, trusted, expected, now=told["now"])
        assert type(caught.value).__name__ == told["refused"]


def test_there_are_cases() -> None:
    assert len(CASES) >= 17
