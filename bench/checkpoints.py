"""Checkpoints to measure with."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

TENSORS = (8 << 10, 4 << 20, 8 << 20, (22 << 20) + 4096)
"""Bytes of tensors, in turn: a norm's, an attention's, an embedding's."""
BLOCK = (1 << 20) + 4096


def write_checkpoint(folder: Path, size: int, shards: int) -> None:
    """Writes safetensors files that hold about `size` bytes of weights in all."""
    folder.mkdir()
    block = os.urandom(BLOCK)
    for shard in range(shards):
        lengths = list(_cut(size // shards))
        path = folder / f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        with path.open("wb") as file:
            file.write(_make_header(shard, lengths))
            file.writelines([block] * (sum(lengths) // BLOCK) + [block[: sum(lengths) % BLOCK]])


def _cut(size: int) -> Iterator[int]:
    for length in cycle(TENSORS):
        yield min(length, size)
        size -= length
        if size <= 0:
            return


def _make_header(shard: int, lengths: list[int]) -> bytes:
    fields, begin = {}, 0
    for place, length in enumerate(lengths):
        offsets = [begin, begin + length]
        fields[f"{shard}.{place}"] = {"dtype": "U8", "shape": [length], "data_offsets": offsets}
        begin += length
    header = json.dumps(fields).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header
