"""Reported failures of shards, indices and folders (ids as in the collection of cases, section B)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from anchor.errors import InvalidManifest, MalformedSSZ, Misuse, Unsafe
from anchor.ml.manifest import File, Manifest, decode_manifest, encode_manifest
from anchor.ml.report import Answer, Finding
from anchor.ml.rules import verify_manifest
from anchor.ml.verify import check_files
from tests.ml.checkpoints import TWO, Tensors, anchor, index, look, safetensors, shards, write

CHUNK = 1 << 20
SIX: Tensors = {f"layers.{n}.weight": ("U8", [16], bytes([n]) * 16) for n in range(6)}
SHARD_2 = "model-00002-of-00003.safetensors"
INDEX = "model.safetensors.index.json"


def findings(folder: Path, answer: Answer | None) -> list[Finding]:
    return [finding for finding in look(folder).findings if finding.answer is answer]


class TestCase14AbsentShard:
    def test_against_the_manifest(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, shards(SIX, 3)))
        (tmp_path / SHARD_2).unlink()
        report = check_files(tmp_path, manifest)
        assert report.answer is Answer.MISSING
        assert [file.path for file in report.files if file.answer is Answer.MISSING] == [SHARD_2]
        missing = [tensor.name for tensor in report.tensors if tensor.answer is Answer.MISSING]
        assert missing == ["layers.1.weight", "layers.4.weight"]

    def test_by_the_index_alone(self, tmp_path: Path) -> None:
        files = shards(SIX, 3)
        del files[SHARD_2]
        (finding,) = findings(write(tmp_path, files), Answer.MISSING)
        assert finding.path == SHARD_2
        assert set(finding.tensors) == {"layers.1.weight", "layers.4.weight"}
        assert check_files(tmp_path, anchor(tmp_path)).answer is Answer.MISSING  # published without it


class TestCase15StaleIndex:
    def test_disagreements_are_named_one_by_one(self, tmp_path: Path) -> None:
        files = shards(SIX, 3)
        places = json.loads(files[INDEX])["weight_map"]
        places["layers.9.weight"] = SHARD_2
        del places["layers.0.weight"]
        files[INDEX] = index(places, 96)
        found = findings(write(tmp_path, files), Answer.MALFORMED)
        assert {finding.tensors for finding in found} == {("layers.9.weight",), ("layers.0.weight",)}

    def test_one_tensor_in_two_shards(self, tmp_path: Path) -> None:
        files = shards(SIX, 3)
        name = "layers.1.weight"
        first = "model-00001-of-00003.safetensors"
        files[first] = safetensors({"layers.0.weight": SIX["layers.0.weight"], name: ("U8", [16], bytes(16))})
        (finding,) = [
            item for item in findings(write(tmp_path, files), Answer.MALFORMED) if name in item.what
        ]
        assert f"the index selects {SHARD_2!r}" in finding.what
        assert first in finding.what
        held = {file.path: file.format for file in anchor(tmp_path).files}
        assert held[first] == held[SHARD_2] == ""  # ambiguous files have no tensors

    def test_more_shards_expected_than_shipped(self, tmp_path: Path) -> None:
        files = shards(SIX, 3)
        files[INDEX] = index({name: f"model-0000{n}-of-00006.safetensors" for n, name in enumerate(SIX)})
        assert len(findings(write(tmp_path, files), Answer.MISSING)) == 6
        assert len(findings(tmp_path, Answer.EXTRA)) == 3


class TestCase16Stray:
    def test_weights_beside_the_published_ones(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, shards(SIX, 2)))
        write(tmp_path, {"model.safetensors": safetensors(TWO)})
        report = check_files(tmp_path, manifest)
        assert report.answer is Answer.EXTRA
        assert [file.path for file in report.files if file.raw is Answer.EXTRA] == ["model.safetensors"]

    @pytest.mark.parametrize("name", ["adapter_config.json", "modeling.py", "notes.txt", "sub/x.bin"])
    def test_any_other_file(self, tmp_path: Path, name: str) -> None:
        manifest = anchor(write(tmp_path, shards(SIX, 2)))
        write(tmp_path, {name: b"{}"})
        assert check_files(tmp_path, manifest).answer is Answer.EXTRA

    def test_before_publishing(self, tmp_path: Path) -> None:
        folder = write(tmp_path, shards(SIX, 2) | {"model.safetensors": safetensors(TWO)})
        (finding,) = findings(folder, Answer.EXTRA)
        assert finding.path == "model.safetensors"


@pytest.mark.parametrize("total", [80, None, "96", 96.0], ids=["off", "absent", "string", "float"])
def test_case_17_total_size(tmp_path: Path, total: object) -> None:
    files = shards(SIX, 2)
    files[INDEX] = index(json.loads(files[INDEX])["weight_map"], total)
    (remark,) = look(write(tmp_path, files)).findings
    assert remark.answer is None
    assert "96 bytes" in remark.what
    report = check_files(tmp_path, anchor(tmp_path))
    assert report.is_ok
    assert report.findings == (remark,)


class TestCase19RightSizeWrongBytes:
    def tensors(self) -> Tensors:
        data = b"".join(n.to_bytes(4, "little") for n in range(3 * CHUNK // 4))
        return {"small": ("F32", [2], b"12345678"), "w": ("I32", [3, CHUNK // 4], data)}

    @pytest.mark.parametrize("kind", ["bit", "swap", "page"])
    def test_it_is_placed(self, tmp_path: Path, kind: str) -> None:
        good = safetensors(self.tensors())
        manifest = anchor(write(tmp_path / "model", {"model.safetensors": good}))
        start = len(good) - 3 * CHUNK
        bad = bytearray(good)
        at = start + CHUNK + 8192
        if kind == "bit":
            bad[at] ^= 1
        elif kind == "swap":
            bad[at : at + 64], bad[at + 64 : at + 128] = good[at + 64 : at + 128], good[at : at + 64]
        else:
            bad[at : at + 4096] = good[at - 4096 : at]
        (tmp_path / "model" / "model.safetensors").write_bytes(bad)
        report = check_files(tmp_path / "model", manifest)
        assert report.answer is Answer.TAMPERED
        small, big = report.tensors
        assert (small.answer, big.answer) == (Answer.OK, Answer.TAMPERED)
        assert [(item.begin, item.end, item.chunk) for item in big.damage] == [
            (start + CHUNK, start + 2 * CHUNK, 1)
        ]
        assert big.elements == ((CHUNK // 4, CHUNK // 2),)
        assert not report.weights_equal

    def test_a_copy_places_it_to_the_byte(self, tmp_path: Path) -> None:
        good = safetensors(self.tensors())
        copy = write(tmp_path / "copy", {"model.safetensors": good})
        bad = bytearray(good)
        bad[-5000] ^= 1
        bad[-4990] ^= 1
        folder = write(tmp_path / "model", {"model.safetensors": bytes(bad)})
        report = check_files(folder, anchor(copy), reference=copy)
        (damage,) = report.tensors[1].damage
        assert (damage.begin, damage.end, damage.exact) == (len(good) - 5000, len(good) - 4989, True)

    def test_a_damaged_copy_shows_nothing(self, tmp_path: Path) -> None:
        good = safetensors(self.tensors())
        manifest = anchor(write(tmp_path / "copy", {"model.safetensors": good}))
        write(tmp_path / "copy", {"model.safetensors": good[:-1] + b"x"})
        folder = write(tmp_path / "model", {"model.safetensors": good[:-2] + b"yz"})
        report = check_files(folder, manifest, reference=tmp_path / "copy")
        (damage,) = report.tensors[1].damage
        assert not damage.exact

    def test_zeros_are_told(self, tmp_path: Path) -> None:
        good = safetensors(self.tensors())
        manifest = anchor(write(tmp_path, {"model.safetensors": good}))
        write(tmp_path, {"model.safetensors": good[: -2 * CHUNK] + bytes(2 * CHUNK)})
        (file,) = check_files(tmp_path, manifest).files
        assert any("hold zeros" in hint for hint in file.hints)


class TestCase21CacheLinks:
    @pytest.fixture
    def snapshot(self, tmp_path: Path) -> Path:
        root = tmp_path / "hub" / "models--org--name"
        write(root / "blobs", {"aa11": safetensors(TWO), "bb22": b"{}"})
        snapshot = root / "snapshots" / "0123abcd"
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").symlink_to("../../blobs/aa11")
        (snapshot / "config.json").symlink_to("../../blobs/bb22")
        (tmp_path / "secret.txt").write_text("secret")
        return snapshot

    def test_followed_and_hashed_by_content(self, snapshot: Path, tmp_path: Path) -> None:
        plain = write(tmp_path / "plain", {"model.safetensors": safetensors(TWO), "config.json": b"{}"})
        manifest = anchor(snapshot)
        assert manifest == anchor(plain)
        assert check_files(snapshot, manifest).is_ok
        assert check_files(plain, manifest).is_ok
        assert anchor(snapshot / "model.safetensors").weights == manifest.weights  # one file of it

    def test_a_loop_and_an_escape_are_unsafe(self, snapshot: Path) -> None:
        manifest = anchor(snapshot)
        for target in ("config.json", "../../../../secret.txt", "/etc/hostname", "/proc/self/cmdline"):
            (snapshot / "config.json").unlink()
            (snapshot / "config.json").symlink_to(target)
            report = check_files(snapshot, manifest)
            assert report.answer is Answer.UNSAFE, target
            with pytest.raises(Unsafe):
                anchor(snapshot)

    def test_a_folder_is_unsafe(self, snapshot: Path) -> None:
        (snapshot / "sub").symlink_to("../../blobs")
        assert check_files(snapshot, self.without_extra(snapshot)).answer is Answer.EXTRA
        with pytest.raises(Unsafe, match="directory"):
            anchor(snapshot)

    def without_extra(self, snapshot: Path) -> Manifest:
        (snapshot / "sub").unlink()
        manifest = anchor(snapshot)
        (snapshot / "sub").symlink_to("../../blobs")
        return manifest

    def test_dangling_is_missing(self, snapshot: Path) -> None:
        manifest = anchor(snapshot)
        (snapshot / "../../blobs/aa11").unlink()
        report = check_files(snapshot, manifest)
        assert report.answer is Answer.MISSING
        assert [finding.path for finding in findings(snapshot, Answer.MISSING)] == ["model.safetensors"]

    def test_a_fifo_is_unsafe_and_never_opened(self, snapshot: Path) -> None:
        manifest = anchor(snapshot)
        (snapshot / "config.json").unlink()
        os.mkfifo(snapshot / "config.json")
        os.mkfifo(snapshot / "other")
        report = check_files(snapshot, manifest)
        assert [file.path for file in report.files if file.raw is Answer.UNSAFE] == ["config.json", "other"]

    def test_outside_a_cache_no_link_is_followed(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "model", {"config.json": b"{}", "real.bin": b"x"})
        manifest = anchor(folder)
        (folder / "config.json").unlink()
        (folder / "config.json").symlink_to("real.bin")
        assert check_files(folder, manifest).answer is Answer.UNSAFE


class TestCase22Litter:
    LITTER = (
        ".git/HEAD",
        ".gitattributes",
        ".cache/huggingface/download/model.safetensors.metadata",
        ".DS_Store",
        "sub/.DS_Store",
        "model.anchor",
    )

    def test_it_is_passed_over_and_listed(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, shards(SIX, 2) | {"sub/a.txt": b""}))
        write(tmp_path, dict.fromkeys(self.LITTER, b"x"))
        report = check_files(tmp_path, manifest)
        assert report.is_ok
        assert report.ignored == tuple(sorted(self.LITTER))
        assert anchor(tmp_path) == manifest
        assert manifest.ignored == (".DS_Store", ".cache/", ".git/", ".gitattributes", "model.anchor")

    @pytest.mark.parametrize(
        "path",
        [
            "__pycache__/modeling.cpython-311.pyc",
            ".cache/evil.py",
            ".git/config.json",
            ".cache/model.safetensors",
            ".git/hook.so",
            ".cache/chat_template.jinja",
            "sub/.gitattributes",
            "sub/.git/HEAD",
            "other.anchor",
        ],
    )
    def test_what_could_be_loaded_never_is(self, tmp_path: Path, path: str) -> None:
        manifest = anchor(write(tmp_path, {"a.txt": b"a"}))
        write(tmp_path, {path: b"x"})
        report = check_files(tmp_path, manifest)
        assert [file.path for file in report.files if file.answer is Answer.EXTRA] == [path]


BAD_PATHS = [
    "../secret.txt",
    "a/../../secret.txt",
    "/etc/passwd",
    "sub\\model.bin",
    "..\\x",
    "C:/x",
    "a:b",
    "CON",
    "con.txt",
    "sub/NUL.json",
    "LPT1 .x",
    "COM¹",
    "name.",
    "name ",
    "a//b",
    "a/./b",
    "a/",
    "",
    "a\nb",
    "a\x9bb",
    "x" * 256,
    "ab/" * 400 + "c",
]


@pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
def test_cases_23_and_24_paths_that_no_manifest_names(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = write(tmp_path / "model", {"a": b"a"})
    manifest = anchor(folder)
    file: File = manifest.files[0].replace(path=path)
    bad: Manifest = manifest.replace(files=(file,))
    if len(path.encode()) <= 1024:
        bad = decode_manifest(encode_manifest(bad))  # it is well-formed, and may be signed
    with pytest.raises(Unsafe):
        verify_manifest(bad)
    with pytest.raises(Unsafe):
        check_files(folder, bad)


@pytest.mark.parametrize(
    ("one", "other"),
    [("A.txt", "a.txt"), ("caf\u00e9", "cafe\u0301"), ("straße", "STRASSE"), ("a", "a/b"), ("A", "a/b")],
)
def test_case_23_paths_that_clash(tmp_path: Path, one: str, other: str) -> None:
    manifest = anchor(write(tmp_path, {"x": b"x"}))
    files = tuple(manifest.files[0].replace(path=path) for path in sorted((one, other)))
    with pytest.raises(InvalidManifest, match="cannot both exist"):
        verify_manifest(manifest.replace(files=files))


TEXT = b'{\n  "architectures": ["Bert"],\n  "hidden": 128\n}\n'


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "merges.txt"])
@pytest.mark.parametrize(
    ("published", "found"),
    [
        (TEXT, TEXT.replace(b"\n", b"\r\n")),
        (TEXT.replace(b"\n", b"\r\n"), TEXT),
        (TEXT, b"\xef\xbb\xbf" + TEXT),
        (TEXT, b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n")),
    ],
    ids=["crlf", "lf", "bom", "both"],
)
def test_case_26_line_endings(tmp_path: Path, name: str, published: bytes, found: bytes) -> None:
    manifest = anchor(write(tmp_path, {name: published}))
    write(tmp_path, {name: found})
    (file,) = check_files(tmp_path, manifest).files
    assert file.raw in (Answer.TAMPERED, Answer.MISSING)
    assert file.hints == ("It differs only in line endings or a byte order mark.",)
    write(tmp_path, {name: found.replace(b"128", b"129")})
    (file,) = check_files(tmp_path, manifest).files
    assert file.hints == ()


class TestCase28OnPurpose:
    QUANTS = ("Q2_K", "Q3_K", "Q4_0", "Q4_K_M", "Q5_K_M", "Q8_0")

    @pytest.fixture
    def one_of_six(self, tmp_path: Path) -> tuple[Path, Manifest]:
        files = {f"m-{quant}.gguf": b"GGUF" + quant.encode() * 9 for quant in self.QUANTS}
        manifest = anchor(write(tmp_path, files))
        for quant in self.QUANTS[1:]:
            (tmp_path / f"m-{quant}.gguf").unlink()
        return tmp_path, manifest

    def test_a_subset_that_was_asked_for(self, one_of_six: tuple[Path, Manifest]) -> None:
        folder, manifest = one_of_six
        report = check_files(folder, manifest, only=["*Q2_K.gguf"])
        assert report.is_ok
        assert report.subset == ("*Q2_K.gguf",)
        assert len(report.files) == 1

    def test_without_asking(self, one_of_six: tuple[Path, Manifest]) -> None:
        folder, manifest = one_of_six
        report = check_files(folder, manifest)
        assert report.answer is Answer.MISSING
        assert report.counts["files"] == {"OK": 1, "MISSING": 5}

    def test_nothing_is_not_ok(self, one_of_six: tuple[Path, Manifest]) -> None:
        folder, manifest = one_of_six
        with pytest.raises(Misuse, match="matches no tensor and no file"):
            check_files(folder, manifest, only=["*Q2_K.gguf", "*.onnx"])

    def test_some_tensors(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, shards(SIX, 3)))
        (tmp_path / SHARD_2).unlink()
        report = check_files(tmp_path, manifest, only=["layers.0.*", "layers.2.*"])
        assert report.is_ok
        assert [tensor.name for tensor in report.tensors] == ["layers.0.weight", "layers.2.weight"]
        assert check_files(tmp_path, manifest, only=["layers.[01].*"]).answer is Answer.MISSING

    def test_a_subset_does_not_excuse_a_stray(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, shards(SIX, 3)))
        write(tmp_path, {"modeling.py": b"import os"})
        assert check_files(tmp_path, manifest, only=["layers.0.*"]).answer is Answer.EXTRA

    def test_damage_outside_the_subset_is_not_seen_and_not_vouched_for(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, {"model.safetensors": safetensors(TWO)}))
        write(tmp_path, {"model.safetensors": safetensors(TWO)[:-1] + b"x"})
        report = check_files(tmp_path, manifest, only=["layer.bias"])
        assert report.is_ok
        assert report.counts["tensors"] == {"OK": 1}
        assert not check_files(tmp_path, manifest, only=["layer.*"]).is_ok


class TestCases45And46Manifests:
    def test_the_model_path_may_be_a_dot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        manifest = anchor(write(tmp_path, {"a": b"a"}))
        monkeypatch.chdir(tmp_path)
        assert anchor(Path()) == manifest
        assert check_files(".", manifest).is_ok

    def test_the_bundle_excludes_itself_and_only_itself(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, {"a": b"a"}))
        write(tmp_path, {"v2.anchor": b"bundle", "v1.anchor": b"bundle", "evil.py": b"pass"})
        report = check_files(tmp_path, manifest, bundle=tmp_path / "v2.anchor")
        assert [file.path for file in report.files if file.raw is Answer.EXTRA] == ["evil.py", "v1.anchor"]
        report = check_files(tmp_path, manifest, bundle=tmp_path / "evil.py")
        assert "evil.py" in [file.path for file in report.files if file.raw is Answer.EXTRA]

    def test_no_parameter_can_be_lost(self, tmp_path: Path) -> None:
        """There is one hash and one chunk size: a manifest carries neither, and comes back as it was."""
        manifest = anchor(write(tmp_path, shards(SIX, 2)))
        data = encode_manifest(manifest)
        assert decode_manifest(data) == manifest
        with pytest.raises(MalformedSSZ):
            decode_manifest(data + b"\0")

    def test_another_version_is_refused(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, {"a": b"a"}))
        with pytest.raises(InvalidManifest, match="version 2"):
            verify_manifest(manifest.replace(version=2))


class TestOtherLayouts:
    def test_a_renamed_file(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path, {"a.bin": b"abc" * 9, "b": b"b"}))
        (tmp_path / "a.bin").rename(tmp_path / "c.bin")
        report = check_files(tmp_path, manifest)
        assert {file.path: file.raw for file in report.files} == {
            "a.bin": Answer.MISSING,
            "b": Answer.OK,
            "c.bin": Answer.EXTRA,
        }
        assert "bytes of 'a.bin'" in report.findings[0].what

    def test_weights_cut_into_other_shards(self, tmp_path: Path) -> None:
        manifest = anchor(write(tmp_path / "one", {"model.safetensors": safetensors(SIX)}))
        report = check_files(write(tmp_path / "three", shards(SIX, 3)), manifest)
        assert not report.is_ok
        assert report.weights_equal
        more = dict(SIX) | {"layers.6.weight": ("U8", [16], bytes(16))}
        report = check_files(write(tmp_path / "more", shards(more, 3)), manifest)
        assert not report.weights_equal
        changed = dict(SIX) | {"layers.0.weight": ("U8", [16], bytes(15) + b"\1")}
        report = check_files(write(tmp_path / "changed", shards(changed, 3)), manifest)
        assert not report.weights_equal
