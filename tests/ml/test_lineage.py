"""Lineage as JSON: there and back, and refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anchor.errors import Misuse
from anchor.ml.build import build_manifest
from anchor.ml.lineage import OPERATIONS
from anchor.ml.lineage_json import lineage_to_json, parse_lineage
from anchor.ml.manifest import decode_manifest, encode_manifest
from anchor.ml.rules import verify_manifest
from anchor.ml.source import open_source
from tests.ml.checkpoints import write

ROOT = "0x" + "ab" * 32
WHOLE = {
    "operation": "slerp",
    "parents": [
        {"manifest_root": ROOT, "name": "org/a", "weight": "0.3"},
        {"manifest_root": "0x" + "cd" * 32, "weight": "0.7"},
    ],
    "recipe": {"seed": "7", "compute_dtype": "float32", "normalise": "true"},
    "code": {"repository": "https://example.org/merge", "commit": "0123abcd"},
    "datasets": [{"name": "corpus", "version": "2024-05"}],
    "hyperparameters": {"learning_rate": "3e-4"},
    "hardware": "8 accelerators",
    "metrics": {"loss": "0.120"},
    "step": 0,
    "privacy": {"epsilon": "3.0", "delta": "1e-5", "mechanism": "DP-SGD"},
}


def test_there_and_back() -> None:
    lineage = parse_lineage(json.dumps(WHOLE))
    assert lineage_to_json(lineage) == WHOLE
    assert parse_lineage(json.dumps(lineage_to_json(lineage))) == lineage
    assert [setting.key for setting in lineage.recipe] == ["compute_dtype", "normalise", "seed"]


def test_numbers_keep_their_digits() -> None:
    lineage = parse_lineage(
        '{"metrics": {"a": 0.10, "b": 1e400, "c": 123456789012345678901234567890, "d": true}}'
    )
    assert [setting.value for setting in lineage.metrics] == [
        "0.10",
        "1e400",
        "123456789012345678901234567890",
        "true",
    ]


def test_what_is_left_out_is_not_stated(tmp_path: Path) -> None:
    assert lineage_to_json(parse_lineage("{}")) == {}
    write(tmp_path, {"a": b"a"})
    with open_source(tmp_path) as source:
        stated = build_manifest(source, lineage=parse_lineage(json.dumps(WHOLE)))
        assert build_manifest(source) != stated
    verify_manifest(decode_manifest(encode_manifest(stated)))


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_operation_takes_its_parents(operation: str) -> None:
    fewest, most = OPERATIONS[operation]
    parent = {"manifest_root": ROOT}
    for count in (fewest, most):
        parse_lineage(json.dumps({"operation": operation, "parents": [parent] * count}))
    for count in {fewest - 1, most + 1} - {-1}:
        with pytest.raises(Misuse):
            parse_lineage(json.dumps({"operation": operation, "parents": [parent] * count}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested"),
        ('{"step": 1, "step": 2}', "twice"),
        ("[]", "not a JSON object"),
        ('{"stepp": 1}', "unknown field 'stepp'"),
        ('{"code": {"url": ""}}', "unknown field 'url'"),
        ('{"step": -1}', "'-1'"),
        ('{"step": 1.5}', "'1.5'"),
        ('{"step": 99999999999999999999}', "99999999999999999999"),
        ('{"metrics": {"a": null}}', "metrics.a"),
        ('{"metrics": {"a": [1]}}', "metrics.a"),
        ('{"metrics": []}', "metrics"),
        ('{"datasets": {}}', "datasets is not a list"),
        ('{"hardware": 3.0, "operation": "distil"}', "'distil'"),
        ('{"operation": "fine-tune", "parents": [{"manifest_root": "abcd"}]}', "'abcd'"),
        (json.dumps({"metrics": {"k" * 129: 1}}), "cannot be recorded"),
        (json.dumps({"metrics": {str(n): n for n in range(257)}}), "cannot be recorded"),
        ('{"hardware": "\\ud800"}', "cannot be recorded"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_refused_in_words(text: str | bytes, says: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_lineage(text)
    assert says in caught.value.what
    assert caught.value.fix
