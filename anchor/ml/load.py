"""Load tensors that are verified as they are loaded (rule 24).

A map of a file can change under its reader after the check. So every byte that is handed out was first copied
into private memory, and it is that copy that was hashed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from anchor.errors import MalformedFile, Misuse, TamperedFile, Unavailable
from anchor.merkle.hashing import hash_leaves
from anchor.ml.anchored import Anchored, select_files
from anchor.ml.dtypes import NUMPY
from anchor.ml.formats import READERS
from anchor.ml.formats.layout import Layout
from anchor.ml.formats.reading import read_up_to
from anchor.ml.leaves import CHUNK_SIZE, Range
from anchor.ml.manifest import Manifest, Tensor
from anchor.ml.rules import verify_manifest
from anchor.ml.source import Source, open_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SKELETON: Final = 128 << 20
"""Bytes of a file's header and padding, or of a file without tensors, that are taken into memory."""


class _Place(NamedTuple):
    """Where a tensor's bytes are."""

    tensor: Tensor
    fd: int
    offset: int


class VerifiedModel:
    """A component of a model, open. The shape of `safetensors.safe_open`: use as a context manager."""

    def __init__(self, source: Source, manifest: Manifest, component: str) -> None:
        self._source = source
        self._files = {anchored.file.path: anchored for anchored in select_files(manifest)}
        self._places: dict[str, _Place] = {}
        self._notes: dict[str, str] = {}
        with ExitStack() as opened:
            opened.callback(source.close)
            for anchored in self._files.values():
                if any(tensor.component == component for tensor in anchored.tensors.values()):
                    self._open(anchored, opened)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; what was handed out stays valid."""
        self._opened.close()

    def keys(self) -> list[str]:
        """Names of the component's tensors, sorted."""
        return sorted(self._places)

    def metadata(self) -> dict[str, str]:
        """The files' own key-value notes; of two files that share a key, the first one's."""
        return dict(self._notes)

    def get_bytes(self, name: str) -> bytearray:
        """A tensor's bytes, C order, little-endian, in memory of their own.

        Raises TamperedFile when they are not the committed ones, Misuse for an unknown name.
        """
        if name not in self._places:
            raise Misuse(f"There is no tensor {name!r} here.", fix="`keys()` lists them.")
        tensor, fd, offset = self._places[name]
        data = _read_private(fd, offset, tensor.length)
        _require_digests(data, tensor.chunks, f"Tensor {name!r}")
        return data

    def get_tensor(self, name: str) -> NDArray[Any]:
        """A tensor as a NumPy array of its shape, in memory of its own.

        A dtype that NumPy does not have (BF16, F8, F6, F4) comes as a flat array of its bytes (uint8).
        Raises as `get_bytes`, and Unavailable without NumPy.
        """
        numpy = _import_numpy()
        data = self.get_bytes(name)
        tensor = self._places[name].tensor
        if tensor.dtype not in NUMPY:
            flat: NDArray[Any] = numpy.frombuffer(data, dtype="|u1")
            return flat
        array: NDArray[Any] = numpy.frombuffer(data, dtype=NUMPY[tensor.dtype])
        return array.reshape(tensor.shape)

    def get_slice(self, name: str) -> VerifiedSlice:
        """A tensor to be cut: `get_slice(name)[2:4]`. The whole tensor is verified first."""
        if name not in self._places:
            raise Misuse(f"There is no tensor {name!r} here.", fix="`keys()` lists them.")
        return VerifiedSlice(self, self._places[name].tensor)

    def get_file(self, path: str) -> bytes:
        """The bytes of a file that has no tensors (configuration, tokenizer), verified.

        Raises TamperedFile, MissingFile, Unsafe, and Misuse for a file that is not one of those.
        """
        anchored = self._files.get(path)
        if anchored is None or anchored.placed or anchored.unplaced or anchored.file.size > MAX_SKELETON:
            raise Misuse(f"{path!r} is no file of this model that can be taken into memory whole.")
        fd = self._source.open(path)
        try:
            return _read_skeleton(fd, anchored)
        finally:
            os.close(fd)

    def _open(self, anchored: Anchored, opened: ExitStack) -> None:
        """Opens a file with tensors; its header is parsed from the copy that was hashed."""
        fd = self._source.open(anchored.file.path)
        opened.callback(os.close, fd)
        layout = _read_layout(_read_skeleton(fd, anchored), anchored)
        for key, value in layout.metadata:
            self._notes.setdefault(key, value)
        for offset, tensor in anchored.placed:
            self._places[tensor.name] = _Place(tensor, fd, offset)
        for tensor in anchored.unplaced:
            self._places[tensor.name] = _Place(tensor, fd, 0)
        for name, target in anchored.layout.aliases:
            self._places[name] = self._places[target]


class VerifiedSlice:
    """A tensor of a verified model, to be cut."""

    def __init__(self, model: VerifiedModel, tensor: Tensor) -> None:
        self._model = model
        self._tensor = tensor

    def get_shape(self) -> list[int]:
        """The tensor's shape."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The tensor's dtype, as safetensors spells it."""
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """The part of the verified tensor that NumPy's indexing gives."""
        part: NDArray[Any] = self._model.get_tensor(self._tensor.name)[index]
        return part


def open_verified(path: str | os.PathLike[str], manifest: Manifest, *, component: str = "") -> VerifiedModel:
    """Opens one component of the model at `path` for verified loading.

    `manifest` must be the one that was published: its root is the caller's to check. Headers are verified
    now, tensors as they are asked for; files that the manifest does not name are never read.

    Raises InvalidManifest, Unsafe, MissingFile, Unavailable, and TamperedFile for a header that differs.
    """
    verify_manifest(manifest)
    if manifest.weights and component not in {tensor.component for tensor in manifest.weights}:
        raise Misuse(f"The model has no component {component!r}.", fix="`anchor inspect` lists them.")
    return VerifiedModel(open_source(path), manifest, component)


def _read_private(fd: int, offset: int, length: int) -> bytearray:
    """A private copy of a range of a file."""
    data = bytearray(length)
    view = memoryview(data)
    done = 0
    while done < length:
        try:
            count = os.preadv(fd, [view[done : done + (64 << 20)]], offset + done)
        except OSError as error:
            raise Unavailable(f"The file cannot be read: {error.strerror}.") from error
        if not count:
            raise TamperedFile(f"The file ends at byte {offset + done}, inside a tensor.")
        done += count
    return data


def _read_skeleton(fd: int, anchored: Anchored) -> bytes:
    """A file's skeleton, copied, then hashed."""
    where = f"{anchored.file.path!r}"
    if anchored.skeleton.length > MAX_SKELETON:
        raise Misuse(f"{where} has more than {MAX_SKELETON} bytes outside its tensors.")
    if os.fstat(fd).st_size != anchored.file.size:
        raise TamperedFile(
            f"{where} does not have its {anchored.file.size} bytes.", fix="Run `anchor verify`."
        )
    data = b"".join([read_up_to(fd, *part) for part in anchored.skeleton.ranges])
    _require_digests(data, anchored.file.skeleton, where)
    return data


def _require_digests(data: bytes | bytearray, want: bytes, where: str) -> None:
    have = hash_leaves(data, CHUNK_SIZE)
    if have == want:
        return
    places = range(0, max(len(have), len(want)), 32)
    chunk = next(place for place in places if have[place : place + 32] != want[place : place + 32]) // 32
    raise TamperedFile(
        f"{where} does not hold the bytes that the manifest commits to: chunk {chunk} differs.",
        fix="`anchor verify` shows all that differs.",
    )


def _read_layout(skeleton: bytes, anchored: Anchored) -> Layout:
    """The layout that a file's verified header gives, which must be the manifest's (rule 10)."""
    reader = READERS.get(anchored.file.format)
    if reader is None:
        raise Unavailable(
            f"There is no reader for {anchored.file.format!r} here.", fix="Use a newer release."
        )
    layout = reader.read(_Memory(anchored.skeleton.ranges, skeleton).read, anchored.file.size)
    if layout.tensors != anchored.layout.tensors or layout.aliases != anchored.layout.aliases:
        raise TamperedFile(f"The manifest describes other tensors than {anchored.file.path!r} holds.")
    return layout


class _Memory:
    """A file of which only some ranges are known."""

    def __init__(self, ranges: Sequence[Range], data: bytes) -> None:
        self._ranges = ranges
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        """Bytes that lie in one of the ranges."""
        before = 0
        for begin, size in self._ranges:
            if begin <= offset and offset + length <= begin + size:
                start = before + offset - begin
                return self._data[start : start + length]
            before += size
        raise MalformedFile(f"Bytes {offset} to {offset + length} are no part of the header.", cause="header")


def _import_numpy() -> Any:
    try:
        import numpy
    except ImportError:
        fix = "Install it, or use get_bytes()."
        raise Unavailable("Tensors as arrays need NumPy.", fix=fix) from None
    return numpy
