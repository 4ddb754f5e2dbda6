"""Reported failures of safetensors files (ids as in the collection of cases, section A)."""

from __future__ import annotations

import hashlib
import json
import struct
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from anchor.errors import MalformedFile
from anchor.ml.formats.reading import read_at
from anchor.ml.formats.safetensors import parse_header, read_header
from anchor.ml.manifest import Manifest, weights_root
from anchor.ml.report import Answer, FileReport, FilesReport, TensorReport
from anchor.ml.source import open_source
from anchor.ml.survey import survey
from anchor.ml.verify import check_files
from tests.ml.checkpoints import TWO, anchor, frame, look, safetensors, write

NAME = "model.safetensors"
GOOD = safetensors(TWO)
BIG = {
    "a": ("U8", [3 << 20], bytes(range(256)) * (3 << 12)),
    "b": ("U8", [1 << 20], bytes(range(255, -1, -1)) * (1 << 12)),
}


def check(folder: Path, published: bytes, found: bytes, name: str = NAME) -> FilesReport:
    """Publishes one file, replaces it, and checks."""
    write(folder, {name: published})
    manifest = anchor(folder)
    (folder / name).write_bytes(found)
    return check_files(folder, manifest)


def file_of(report: FilesReport) -> FileReport:
    (file,) = report.files
    return file


def answers(report: FilesReport) -> dict[str, Answer]:
    return {tensor.name: tensor.answer for tensor in report.tensors}


def tensor_of(report: FilesReport, name: str) -> TensorReport:
    (tensor,) = [tensor for tensor in report.tensors if tensor.name == name]
    return tensor


class TestCase1Truncated:
    def test_in_the_body(self, tmp_path: Path) -> None:
        report = check(tmp_path, GOOD, GOOD[:-8])
        assert file_of(report).raw is Answer.MISSING
        assert file_of(report).form is Answer.MALFORMED
        assert f"It has {len(GOOD) - 8} bytes, and had {len(GOOD)}" in file_of(report).what
        assert "'layer.weight'" in file_of(report).what
        assert answers(report) == {"layer.bias": Answer.OK, "layer.weight": Answer.MISSING}

    @pytest.mark.parametrize(
        "length", [0, 4, 8, 40], ids=["empty", "in-the-length", "no-json", "in-the-json"]
    )
    def test_before_the_body(self, tmp_path: Path, length: int) -> None:
        report = check(tmp_path, GOOD, GOOD[:length])
        assert file_of(report).raw is Answer.MISSING
        assert file_of(report).form is Answer.MALFORMED
        assert set(answers(report).values()) == {Answer.MISSING}

    def test_in_a_later_chunk(self, tmp_path: Path) -> None:
        good = safetensors(BIG)
        report = check(tmp_path, good, good[: -(1 << 20) - (1 << 19)])
        assert answers(report) == {"a": Answer.MISSING, "b": Answer.MISSING}
        assert [damage.chunk for damage in tensor_of(report, "a").damage] == [2]

    def test_a_shorter_config_is_changed_not_incomplete(self, tmp_path: Path) -> None:
        report = check(tmp_path, b'{"hidden": 128}', b'{"hidden": 1}', "config.json")
        assert file_of(report).raw is Answer.TAMPERED


class TestCase2LFSPointer:
    @staticmethod
    def pointer(oid: str, size: int) -> bytes:
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n".encode()

    @pytest.mark.parametrize("suffix", ["safetensors", "gguf", "bin"])
    def test_right_and_wrong(self, tmp_path: Path, suffix: str) -> None:
        name = f"model-00001-of-00002.{suffix}"
        good = GOOD if suffix == "safetensors" else b"GGUF" + bytes(range(256)) * 4
        oid = hashlib.sha256(good).hexdigest()
        right = check(tmp_path / "right", good, self.pointer(oid, len(good)), name)
        wrong = check(tmp_path / "wrong", good, self.pointer("ab" * 32, len(good)), name)
        other = check(tmp_path / "other", good, self.pointer(oid, 7), name)
        for report in (right, wrong, other):
            assert not report.is_ok
            assert "Git LFS pointer" in file_of(report).hints[0]
        if suffix == "safetensors":  # the manifest has no digest of the file in one stream
            assert "a file of the right size" in file_of(right).hints[0]
        else:
            assert "the right file" in file_of(right).hints[0]
            assert "another file" in file_of(wrong).hints[0]
        assert "another file, of 7 bytes" in file_of(other).hints[0]

    @pytest.mark.parametrize("suffix", ["safetensors", "gguf", "bin"])
    def test_before_publishing(self, tmp_path: Path, suffix: str) -> None:
        folder = write(tmp_path / "model", {f"model.{suffix}": self.pointer("ab" * 32, 7)})
        with open_source(folder) as source:
            (finding,) = survey(source).findings
        assert finding.answer is (Answer.MALFORMED if suffix == "safetensors" else Answer.MISSING)
        assert "Git LFS pointer" in finding.what

    def test_a_copy_tells_the_oid(self, tmp_path: Path) -> None:
        copy = write(tmp_path / "copy", {NAME: GOOD})
        manifest = anchor(copy)
        for oid, word in ((hashlib.sha256(GOOD).hexdigest(), "the right file"), ("0" * 64, "another file")):
            folder = write(tmp_path / "model", {NAME: self.pointer(oid, len(GOOD))})
            report = check_files(folder, manifest, reference=copy)
            assert word in file_of(report).hints[0]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"PK\x03\x04" + bytes(26) + b"archive/data.pkl" + bytes(100), "PyTorch zip"),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>", "HTML page"),
        (b"\x80\x02\x8a\x0al\xfc\x9c", "pickle"),
        (b"GGUF\3\0\0\0", "GGUF"),
    ],
    ids=["zip", "html", "pickle", "gguf"],
)
def test_case_3_not_safetensors_at_all(tmp_path: Path, content: bytes, word: str) -> None:
    (finding,) = look(write(tmp_path / "alone", {NAME: content})).findings
    assert finding.answer is Answer.MALFORMED
    assert word in finding.what
    manifest = anchor(tmp_path / "alone")
    assert manifest.files[0].format == ""
    assert manifest.files[0].skeleton == hashlib.sha256(content).digest()
    report = check(tmp_path / "instead", GOOD, content)
    assert file_of(report).raw is not Answer.OK
    assert file_of(report).form is Answer.MALFORMED
    assert word in file_of(report).hints[0]


@pytest.mark.parametrize("length", [1 << 62, (1 << 64) - 1, 100_000_001, 1000])
def test_case_4_absurd_header_length(tmp_path: Path, length: int) -> None:
    folder = write(tmp_path, {NAME: struct.pack("<Q", length) + b"{" + bytes(99)})
    tracemalloc.start()
    (finding,) = look(folder).findings
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert finding.answer is Answer.MALFORMED
    assert str(length) in finding.what
    assert peak < 1 << 20


def entry(begin: int, end: int, shape: list[int], dtype: str = "U8") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


MALFORMED: dict[str, tuple[object, int, str, str]] = {
    # id: (header, bytes of body, cause, what the sentence names)
    "gap": ({"a": entry(0, 4, [4]), "b": entry(6, 8, [2])}, 8, "gap", "'b'"),
    "gap-at-the-start": ({"a": entry(2, 4, [2])}, 4, "gap", "Bytes 0 to 2"),
    "two-on-one-range": ({"a": entry(0, 4, [4]), "b": entry(0, 4, [4])}, 4, "overlap", "'a'"),
    "overlap": ({"a": entry(0, 4, [4]), "b": entry(3, 5, [2])}, 5, "overlap", "'b'"),
    "empty-inside": ({"a": entry(0, 4, [4]), "e": entry(2, 2, [0])}, 4, "overlap", "'e'"),
    "trailing": ({"a": entry(0, 4, [4])}, 7, "trailing", "3 bytes"),
    "cut": ({"a": entry(0, 4, [4])}, 3, "cut", "'a'"),
    "shape-and-range": ({"a": entry(0, 4, [1000])}, 4, "length", "0 to 4"),
    "shape-overflow": ({"a": entry(0, 4, [1 << 40, 1 << 40])}, 4, "overflow", "'a'"),
    "shape-overflow-before-zero": ({"a": entry(0, 0, [1 << 63, 4, 0])}, 0, "overflow", "'a'"),
    "bits-overflow": ({"a": entry(0, 8, [1 << 61], "F64")}, 8, "overflow", "'a'"),
    "reversed": ({"a": entry(4, 0, [4])}, 4, "reversed", "4 to 0"),
    "negative": ({"a": entry(-4, 0, [4])}, 4, "offsets", "[-4, 0]"),
    "negative-shape": ({"a": entry(0, 4, [-4])}, 4, "shape", "[-4]"),
    "beyond-64-bits": ({"a": entry(0, 1 << 64, [4])}, 4, "offsets", "'a'"),
    "three-offsets": ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4, 4]}}, 4, "offsets", "'a'"),
    "float-offset": (b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4.0]}}', 4, "offsets", "4.0"),
    "exponent": (b'{"a":{"dtype":"U8","shape":[4e0],"data_offsets":[0,4]}}', 4, "shape", "4e0"),
    "minus-zero": (b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[-0,4]}}', 4, "offsets", "-0"),
    "boolean": (b'{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}', 1, "shape", "True"),
    "infinite": (b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,Infinity]}}', 4, "offsets", "Infinity"),
    "digits": (b'{"a":{"dtype":"U8","data_offsets":[],"shape":[' + b"9" * 5000 + b"]}}", 4, "shape", "'a'"),
    "duplicate": (
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"I8","shape":[],"data_offsets":[]}}',
        4, "duplicate-key", "'a'",
    ),
    "duplicate-inside": (
        b'{"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}}', 4, "duplicate-key", "'dtype'",
    ),
    "duplicate-escaped": (
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\\u0061":{"dtype":"U8","shape":[],"data_offsets":[]}}',
        4, "duplicate-key", "'a'",
    ),
    "surrogate-in-name": (
        b'{"\\ud800":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', 4, "lone-surrogate", "ud800",
    ),
    "surrogate-in-metadata": (b'{"__metadata__":{"k":"\\udc00"}}', 0, "lone-surrogate", "udc00"),
    "not-utf-8": (b'{"\xff":{}}', 0, "not-utf-8", "byte 2"),
    "array-instead-of-object": ({"a": ["U8", [4], [0, 4]]}, 4, "fields", "'a'"),
    "unknown-field": ({"a": entry(0, 4, [4]) | {"strides": [1]}}, 4, "fields", "'a'"),
    "missing-field": ({"a": {"dtype": "U8", "shape": [4]}}, 4, "fields", "'a'"),
    "dtype-number": ({"a": entry(0, 4, [4]) | {"dtype": 3}}, 4, "fields", "'a'"),
    "metadata-number": ({"__metadata__": {"step": 3}}, 0, "metadata", "'step'"),
    "metadata-list": ({"__metadata__": []}, 0, "metadata", "__metadata__"),
    "odd-f4": ({"a": entry(0, 2, [3], "F4")}, 2, "misaligned", "12 bits"),
    "odd-f6": ({"a": entry(0, 1, [1], "F6_E2M3")}, 1, "misaligned", "6 bits"),
    "leading-space": (b' {"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', 0, "not-json", "begin"),
    "trailing-nul": (b"{}\0", 0, "not-json", "Extra data"),
    "no-header": (b"", 0, "not-json", "begin"),
    "list-bomb": (b'{"a":' + b"[" * 100_000, 0, "too-deep", "deep"),
    "object-bomb": (b'{"a":' * 100_000, 0, "too-deep", "deep"),
    "wide-bomb": (b'{"a":[' + b"[]," * (1 << 21) + b"0]}", 0, "too-many-values", "values"),
    "comma-bomb": (b'{"a":[' + b"0," * (1 << 23) + b"0,0]}", 0, "too-many-values", "values"),
}  # fmt: skip


@pytest.mark.parametrize(("header", "body", "cause", "names"), MALFORMED.values(), ids=MALFORMED.keys())
def test_case_6_malformed(tmp_path: Path, header: object, body: int, cause: str, names: str) -> None:
    data = frame(header, bytes(body))
    with (tmp_path / NAME).open("w+b") as file:
        file.write(data)
        file.flush()
        with pytest.raises(MalformedFile) as caught:
            parse_header(read_header(read_at(file.fileno()), len(data)), body)
    assert caught.value.cause == cause
    assert names in caught.value.what
    (finding,) = look(tmp_path).findings  # and in a model: no tensors, every byte committed
    assert finding.answer is Answer.MALFORMED
    manifest = anchor(tmp_path)
    assert not manifest.weights
    assert len(manifest.files[0].skeleton) == 32 * -(-len(data) // (1 << 20))
    assert check_files(tmp_path, manifest).is_ok


EMPTY = {
    "marker": ("F8_E4M3", [0], b""),
    "none": ("F32", [0, 4], b""),
    "rows": ("F32", [2, 0], b""),
    "scalar": ("F32", [], struct.pack("<f", 7)),
}


class TestCase7EmptyAndScalar:
    def test_they_are_committed(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, {NAME: safetensors(EMPTY)}))
        assert [(tensor.name, tensor.shape) for tensor in manifest.weights] == [
            ("marker", (0,)),
            ("none", (0, 4)),
            ("rows", (2, 0)),
            ("scalar", ()),
        ]
        assert check_files(tmp_path, manifest).is_ok

    @pytest.mark.parametrize(
        ("other", "expected"),
        [
            ({"none": ("F32", [4, 0], b"")}, Answer.TAMPERED),
            ({"none": ("I32", [0, 4], b"")}, Answer.TAMPERED),
        ],
        ids=["reshaped", "retyped"],
    )
    def test_changed(
        self, tmp_path: Path, other: Mapping[str, tuple[str, list[int], bytes]], expected: Answer
    ) -> None:
        report = check(tmp_path, safetensors(EMPTY), safetensors({**EMPTY, **other}))
        assert answers(report)["none"] is expected
        assert file_of(report).raw is Answer.TAMPERED

    def test_renamed(self, tmp_path: Path) -> None:
        renamed = {("nope" if name == "none" else name): tensor for name, tensor in EMPTY.items()}
        report = check(tmp_path, safetensors(EMPTY), safetensors(renamed))
        assert answers(report)["none"] is Answer.MISSING
        assert answers(report)["nope"] is Answer.EXTRA


@pytest.mark.parametrize(
    ("dtype", "shape", "length"),
    [
        ("BF16", [3], 6),
        ("F8_E4M3", [3], 3),
        ("F8_E5M2", [3], 3),
        ("F8_E8M0", [3], 3),
        ("F8_E4M3FNUZ", [3], 3),
        ("F8_E5M2FNUZ", [3], 3),
        ("F4", [4], 2),
        ("F6_E2M3", [4], 3),
        ("F6_E3M2", [8], 6),
        ("C64", [2], 16),
        ("BOOL", [5], 5),
        ("U64", [1], 8),
    ],
)  # fmt: skip
def test_case_8_dtypes(tmp_path: Path, dtype: str, shape: list[int], length: int) -> None:
    data = bytes(range(1, length + 1))
    good = safetensors({"w": (dtype, shape, data)})
    manifest = anchor(write(tmp_path, {NAME: good}))
    assert manifest.weights[0].length == length
    assert manifest.weights[0].chunks == hashlib.sha256(data).digest()
    (tmp_path / NAME).write_bytes(good[:-1] + b"\0")
    assert answers(check_files(tmp_path, manifest)) == {"w": Answer.TAMPERED}


def test_case_8_unknown_dtype(tmp_path: Path) -> None:
    good = safetensors({**TWO, "odd": ("U3_XYZ", [8], b"abc")})
    folder = write(tmp_path, {NAME: good})
    (finding,) = look(folder).findings
    assert finding.answer is Answer.UNSUPPORTED
    assert finding.tensors == ("odd",)
    manifest = anchor(folder)
    assert [tensor.name for tensor in manifest.weights] == ["layer.bias", "layer.weight"]
    assert check_files(folder, manifest).is_ok
    (folder / NAME).write_bytes(good.replace(b"abc", b"abd"))
    report = check_files(folder, manifest)
    assert file_of(report).raw is Answer.TAMPERED
    assert any("'odd'" in hint for hint in file_of(report).hints)


@pytest.mark.parametrize(
    ("dtype", "shape", "metadata", "expected"),
    [
        ("F32", [4, 3], {"k": "a"}, Answer.TAMPERED),
        ("I32", [3, 4], {"k": "a"}, Answer.TAMPERED),
        ("F32", [3, 4], {"k": "b"}, Answer.OK),
    ],
    ids=["shape", "dtype", "metadata"],
)
def test_case_9_header_swapped(
    tmp_path: Path, dtype: str, shape: list[int], metadata: dict[str, str], expected: Answer
) -> None:
    tensors = {**TWO, "layer.weight": (dtype, shape, TWO["layer.weight"][2])}
    report = check(tmp_path, safetensors(TWO, metadata={"k": "a"}), safetensors(tensors, metadata=metadata))
    assert file_of(report).raw is Answer.TAMPERED
    assert answers(report)["layer.weight"] is expected
    assert report.weights_equal is (expected is Answer.OK)
    if expected is Answer.OK:
        assert any("its metadata differs" in hint for hint in file_of(report).hints)
    else:
        assert "was F32 [3, 4]" in tensor_of(report, "layer.weight").what


def test_the_manifest_cannot_state_other_metadata(tmp_path: Path) -> None:
    manifest = anchor(write(tmp_path, {NAME: GOOD}))
    (file,) = manifest.files
    report = check_files(tmp_path, manifest.replace(files=(file.replace(notes_root=b"\1" * 32),)))
    assert file_of(report).raw is Answer.OK
    assert file_of(report).form is Answer.TAMPERED


@pytest.mark.parametrize(
    "other",
    [
        safetensors(TWO, metadata={"sshs_model_hash": hashlib.sha256(b"").hexdigest()}),
        safetensors(TWO, padding=13),
        safetensors(TWO, order=["layer.weight", "layer.bias"]),
    ],
    ids=["metadata-with-a-wrong-hash", "padding", "order"],
)
def test_case_10_same_weights_other_file(tmp_path: Path, other: bytes) -> None:
    report = check(tmp_path / "model", GOOD, other)
    assert file_of(report).raw is Answer.TAMPERED
    assert not report.is_ok
    assert report.weights_equal
    assert set(answers(report).values()) == {Answer.OK}
    one, two = (anchor(write(tmp_path / str(n), {NAME: data})) for n, data in enumerate((GOOD, other)))
    assert weights_root(one) == weights_root(two)
    assert one != two


def test_case_11_metadata_in_another_order(tmp_path: Path) -> None:
    notes = {f"key{n}": str(n) for n in range(16)}
    saved = [safetensors(TWO, metadata=dict(items)) for items in (notes.items(), list(notes.items())[::-1])]
    assert saved[0] != saved[1]
    report = check(tmp_path, *saved)
    assert report.weights_equal
    assert any("so does its metadata" in hint for hint in file_of(report).hints)


def test_case_13_tied_tensor_absent_is_strict(tmp_path: Path) -> None:
    both = {"embed": TWO["layer.weight"], "lm_head": TWO["layer.weight"]}
    report = check(tmp_path, safetensors(both), safetensors({"embed": TWO["layer.weight"]}))
    assert answers(report) == {"embed": Answer.OK, "lm_head": Answer.MISSING}
    assert not report.is_ok


def test_a_header_of_many_tensors_is_read_fast(tmp_path: Path) -> None:
    header = {f"model.layers.{n}.weight": entry(n, n + 1, [1]) for n in range(20_000)}
    start = time.process_time()
    layout = parse_header(json.dumps(header).encode(), 20_000)
    assert len(layout.tensors) == 20_000
    assert time.process_time() - start < 5


def test_the_manifest_cannot_describe_what_the_header_does_not(tmp_path: Path) -> None:
    """Rule 10: the bytes are right, and the manifest gives one tensor another shape."""
    manifest = anchor(write(tmp_path, {NAME: GOOD}))
    bias, weight = manifest.weights
    lying: Manifest = manifest.replace(weights=(bias, weight.replace(shape=(4, 3))))
    report = check_files(tmp_path, lying)
    assert file_of(report).raw is Answer.OK
    assert file_of(report).form is Answer.TAMPERED
    assert set(answers(report).values()) == {Answer.TAMPERED}
    assert not report.is_ok
