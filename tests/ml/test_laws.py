"""Laws over generated checkpoints, and a small one with every bit flipped."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anchor.ml.diff import compare_manifests
from anchor.ml.dtypes import BITS
from anchor.ml.manifest import (
    decode_manifest,
    encode_manifest,
    files_root,
    manifest_root,
    weights_root,
)
from anchor.ml.report import Answer
from anchor.ml.rules import verify_manifest
from anchor.ml.verify import check_files
from tests.ml.checkpoints import TWO, Tensors, anchor, safetensors, shards, write
from tests.oracles.naive_manifest import naive_weights_root

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(
    lambda name: name != "__metadata__"
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensors:
    """A few small tensors of any dtype."""
    found = {}
    for name in draw(st.sets(NAMES, min_size=1, max_size=6)):
        dtype = draw(st.sampled_from(sorted(BITS)))
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        count = 1
        for dimension in shape:
            count *= dimension
        if count * BITS[dtype] % 8:
            shape, count = [8, *shape], 8 * count
        length = count * BITS[dtype] // 8
        found[name] = (dtype, shape, draw(st.binary(min_size=length, max_size=length)))
    return found


@contextmanager
def folder(files: dict[str, bytes]) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp())
    try:
        yield write(place / "model", files)
    finally:
        shutil.rmtree(place)


LAWS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LAWS
@given(tensors())
def test_what_was_built_is_ok_and_comes_back(model: Tensors) -> None:
    with folder({"model.safetensors": safetensors(model), "config.json": b"{}"}) as path:
        manifest = anchor(path)
        verify_manifest(manifest)
        assert decode_manifest(encode_manifest(manifest)) == manifest
        report = check_files(path, manifest)
        assert report.is_ok
        assert len(report.tensors) == len(model)
        assert report.weights_equal
        assert weights_root(manifest) == naive_weights_root(model)


@LAWS
@given(tensors(), st.data())
def test_any_mutation_is_seen(model: Tensors, data: st.DataObject) -> None:
    good = safetensors(model, metadata={"format": "pt"})
    kind = data.draw(st.sampled_from(["flip", "cut", "add", "insert"]))
    at = data.draw(st.integers(0, len(good) - 1))
    bad = {
        "flip": good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :],
        "cut": good[:at],
        "add": good + data.draw(st.binary(min_size=1, max_size=9)),
        "insert": good[:at] + b"\0" + good[at:],
    }[kind]
    with folder({"model.safetensors": good}) as path:
        manifest = anchor(path)
        (path / "model.safetensors").write_bytes(bad)
        report = check_files(path, manifest)
        assert not report.is_ok
        assert report.files[0].raw is not Answer.OK
        assert anchor(path) != manifest
        assert manifest_root(anchor(path)) != manifest_root(manifest)


@LAWS
@given(tensors(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_layouts_share_one_weights_root(model: Tensors, count: int, random: object) -> None:
    order = sorted(model)
    random.shuffle(order)  # type: ignore[attr-defined]
    with (
        folder({"model.safetensors": safetensors(model)}) as one,
        folder(
            {"weights.safetensors": safetensors(model, order=order, metadata={"a": "b"}, padding=3)}
        ) as two,
        folder(shards(model, count)) as many,
    ):
        manifests = [anchor(path) for path in (one, two, many)]
        assert len({weights_root(manifest) for manifest in manifests}) == 1
        assert len({files_root(manifest) for manifest in manifests}) == 3
        assert all(compare_manifests(manifests[0], other).weights_equal for other in manifests)


@LAWS
@given(tensors(), tensors())
def test_different_weights_have_different_roots(model: Tensors, other: Tensors) -> None:
    same = {n: (d, list(s), b) for n, (d, s, b) in model.items()} == {
        n: (d, list(s), b) for n, (d, s, b) in other.items()
    }
    assert (naive_weights_root(model) == naive_weights_root(other)) is same


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {
        "model.safetensors": safetensors(TWO, metadata={"format": "pt"}),
        "config.json": b'{"hidden_size": 4}\n',
    }
    return write(tmp_path_factory.mktemp("bits") / "model", files)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_flip_at_every_byte_is_caught_and_placed(published: Path, name: str) -> None:
    """The tensor, and to the byte with the publisher's copy; no other tensor of an intact header suffers."""
    manifest = anchor(published)
    copy = Path(shutil.copytree(published, published.parent / f"copy-{name}"))
    good = (published / name).read_bytes()
    (file,) = [file for file in manifest.files if file.path == name]
    extents = {
        manifest.weights[extent.tensor].name: range(extent.offset, extent.offset + extent.length)
        for extent in file.extents
    }
    target = os.open(published / name, os.O_RDWR)
    for at in range(len(good)):
        os.pwrite(target, bytes([good[at] ^ 1 << at % 8]), at)
        report = check_files(published, manifest, reference=copy)
        os.pwrite(target, good[at : at + 1], at)
        (hit,) = [found for found in report.files if found.path == name]
        assert hit.raw is Answer.TAMPERED, at
        inside = [tensor for tensor, span in extents.items() if at in span]
        if inside:
            (tensor,) = [tensor for tensor in report.tensors if tensor.answer is not Answer.OK]
            assert [tensor.name] == inside
            assert [(item.begin, item.end, item.exact) for item in tensor.damage] == [(at, at + 1, True)]
            assert not hit.damage
        else:
            assert [(item.begin, item.end, item.exact) for item in hit.damage] == [(at, at + 1, True)]
    os.close(target)
    assert check_files(published, manifest).is_ok
