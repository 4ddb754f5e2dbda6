"""Small checkpoints for the tests, written by hand: the writer shares no code with the reader."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from anchor.ml.build import build_manifest
from anchor.ml.manifest import Manifest
from anchor.ml.source import open_source
from anchor.ml.survey import Survey, survey

Tensors = Mapping[str, tuple[str, Sequence[int], bytes]]
"""Name → (dtype, shape, bytes)."""

TWO: Tensors = {
    "layer.bias": ("F32", [3], struct.pack("<3f", 1, 2, 3)),
    "layer.weight": ("F32", [3, 4], struct.pack("<12f", *range(12))),
}


def frame(header: bytes | object, body: bytes = b"") -> bytes:
    """A file with this header (bytes, or what JSON is made of) and this body."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def safetensors(
    tensors: Tensors,
    *,
    metadata: Mapping[str, str] | None = None,
    order: Sequence[str] | None = None,
    padding: int = 0,
) -> bytes:
    """The file of `tensors`, whose bytes lie in `order`."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    body = b""
    for name in order or list(tensors):
        dtype, shape, data = tensors[name]
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        body += data
    return frame(json.dumps(header).encode() + b" " * padding, body)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Writes `files` below `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def index(weight_map: Mapping[str, str], total_size: object = None) -> bytes:
    """An index of shards."""
    metadata = {} if total_size is None else {"metadata": {"total_size": total_size}}
    return json.dumps({**metadata, "weight_map": dict(weight_map)}).encode()


def shards(tensors: Tensors, count: int) -> dict[str, bytes]:
    """`tensors` dealt out to `count` shards, with their index."""
    names = list(tensors)
    files, weight_map = {}, {}
    for place in range(count):
        path = f"model-{place + 1:05}-of-{count:05}.safetensors"
        mine = {name: tensors[name] for name in names[place::count]}
        files[path] = safetensors(mine)
        weight_map |= dict.fromkeys(mine, path)
    total = sum(len(data) for _, _, data in tensors.values())
    return files | {"model.safetensors.index.json": index(weight_map, total)}


def anchor(path: Path) -> Manifest:
    """The manifest of the model at `path`."""
    with open_source(path) as source:
        return build_manifest(source)


def look(path: Path) -> Survey:
    """The survey of the model at `path`."""
    with open_source(path) as source:
        return survey(source)
