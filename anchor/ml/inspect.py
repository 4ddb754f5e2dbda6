"""What kind of checkpoint a model is: weights only, or complete enough for training to resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from anchor.errors import MalformedFile, MissingFile, Unavailable, Unsafe
from anchor.ml.components import STATE_SETS, assign_components, set_of
from anchor.ml.dtypes import element_count
from anchor.ml.formats.layout import Descriptor
from anchor.ml.formats.strict_json import parse
from anchor.ml.report import Finding, finding_json
from anchor.ml.source import Source
from anchor.ml.survey import Survey, tensor_names

MAX_STATE_BYTES: Final = 64 << 20
"""Bytes of a trainer state that is looked into."""
TRAINER_STATE: Final = "trainer_state.json"

PARTS: Final = ("weights", "optimizer", "step", "schedule", "random state", "configuration")
"""All that training needs to go on as if it had not stopped."""

_STATE_KEYS: Final = {
    "step": ("global_step", "step"),
    "schedule": ("lr_schedule", "lr_scheduler", "scheduler", "schedule"),
    "random state": ("rng_state", "random_state", "rng"),
}
"""Keys of the trainer state that hold a part."""
_FILES: Final = {
    "optimizer": ("optimizer.",),
    "schedule": ("scheduler.",),
    "random state": ("rng_state", "random_states"),
    "configuration": ("config.json", "adapter_config.json", "model_index.json"),
}
"""Beginnings of names of files that hold a part."""
OPAQUE_WEIGHTS: Final = (
    ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5", ".keras", ".npz", ".pb", ".msgpack", ".distcp",
)  # fmt: skip
"""Ends of names of files that hold tensors, and that no reader here reads."""
_MOMENTS: Final = frozenset(
    {"exp_avg", "exp_avg_sq", "momentum_buffer", "momentum", "velocity", "m", "v", "mu", "nu", "square_avg"}
)


class TensorRow(NamedTuple):
    """A tensor, for a table."""

    component: str
    path: str
    tensor: Descriptor


class Part(NamedTuple):
    """One thing that resuming needs."""

    name: str
    """One of `PARTS`."""
    where: str
    """Path of the file that has it; empty when nothing has."""
    what: str = ""


class Inspection(NamedTuple):
    """What a checkpoint holds."""

    kind: str
    parts: tuple[Part, ...]
    tensors: tuple[TensorRow, ...]
    files: tuple[tuple[str, int, str], ...]
    """(path, size, what its content is)."""
    parameters: int
    """Elements of all weights, optimiser state left out."""
    bytes_by_dtype: dict[str, int]
    findings: tuple[Finding, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Parts without which training cannot go on as if it had not stopped."""
        return tuple(part.name for part in self.parts if not part.where)

    def to_json(self) -> dict[str, Any]:
        """The inspection as plain values."""
        return {
            "kind": self.kind,
            "parts": [part._asdict() for part in self.parts],
            "missing": list(self.missing),
            "parameters": self.parameters,
            "bytes_by_dtype": self.bytes_by_dtype,
            "files": [{"path": path, "size": size, "content": what} for path, size, what in self.files],
            "tensors": [
                {"component": row.component, "path": row.path, **row.tensor._asdict()} for row in self.tensors
            ],
            "findings": [finding_json(finding) for finding in self.findings],
        }


def inspect_model(source: Source, found: Survey) -> Inspection:
    """What the model at `source`, whose survey is `found`, holds. Raises Unavailable."""
    components = assign_components(tensor_names({file.path: file.layout for file in found.files}))
    rows = tuple(
        TensorRow(components.get(file.path, ""), file.path, placed.tensor)
        for file in found.files
        if file.layout
        for placed in file.layout.tensors
    )
    weights = [row for row in rows if set_of(row.path) not in STATE_SETS]
    parts = tuple(_find_parts(source, found, rows))
    return Inspection(
        kind=_kind(parts, found),
        parts=parts,
        tensors=rows,
        files=tuple((file.path, file.size, file.content) for file in found.files),
        parameters=sum(element_count(row.tensor.shape) or 0 for row in weights),
        bytes_by_dtype=_sum_bytes(rows),
        findings=found.findings,
    )


def _sum_bytes(rows: Iterable[TensorRow]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in rows:
        total[row.tensor.dtype] += row.tensor.length
    return dict(total.most_common())


def _kind(parts: Iterable[Part], found: Survey) -> str:
    has = {part.name for part in parts if part.where}
    names = {file.path.rpartition("/")[2] for file in found.files}
    if "weights" not in has:
        return "no weights"
    if has & {"optimizer", "step", "schedule", "random state"}:
        lacks = [name for name in PARTS if name not in has]
        return "training checkpoint, complete" if not lacks else "training checkpoint, incomplete"
    return "adapter" if "adapter_config.json" in names else "weights only"


def _find_parts(source: Source, found: Survey, rows: Iterable[TensorRow]) -> Iterator[Part]:
    paths = sorted((file.path for file in found.files), key=lambda path: path.count("/"))
    state_path = next((path for path in paths if path.rpartition("/")[2] == TRAINER_STATE), "")
    state = _read_state(source, state_path) if state_path else {}
    for name in PARTS:
        if name == "weights":
            yield _find_weights(paths, rows)
        elif where := _file_with(name, paths):
            yield Part(name, where, _about_moments(rows) if name == "optimizer" else "")
        elif key := next((key for key in _STATE_KEYS.get(name, ()) if state.get(key) is not None), ""):
            yield Part(name, state_path, f"{key} {state[key]}" if isinstance(state[key], int) else key)
        else:
            yield Part(name, "")


def _find_weights(paths: Iterable[str], rows: Iterable[TensorRow]) -> Part:
    files = list(dict.fromkeys([row.path for row in rows if set_of(row.path) not in STATE_SETS]))
    if files:
        return Part("weights", files[0], f"and {len(files) - 1} more" if len(files) > 1 else "")
    for path in paths:
        if path.endswith(OPAQUE_WEIGHTS) and not any(
            path.rpartition("/")[2].startswith(names) for names in (*_FILES.values(), ("training_args",))
        ):
            return Part("weights", path, "opaque: there is no reader for it")
    return Part("weights", "")


def _file_with(part: str, paths: Iterable[str]) -> str:
    return next((path for path in paths if path.rpartition("/")[2].startswith(_FILES.get(part, ("/",)))), "")


def _read_state(source: Source, path: str) -> dict[str, Any]:
    try:
        state = parse(source.read(path, MAX_STATE_BYTES), path)
    except (Unsafe, MissingFile, Unavailable, MalformedFile):
        return {}
    return state if isinstance(state, dict) else {}


def _about_moments(rows: Iterable[TensorRow]) -> str:
    """Which weights the optimiser's moments leave out, where its tensors are known."""
    weights = {row.tensor.name for row in rows if set_of(row.path) not in STATE_SETS}
    moments = {_weight_of(row.tensor.name) for row in rows if set_of(row.path) in STATE_SETS}
    if not moments:
        return ""
    without = sorted(weights - moments)
    return f"no moments of {len(without)} of {len(weights)} tensors: {without[0]}, …" if without else ""


def _weight_of(name: str) -> str:
    """The weight that an optimiser's tensor belongs to: "exp_avg.layer.weight", "layer.weight/m"."""
    for separator in ("/", "."):
        first, _, rest = name.removeprefix("state.").partition(separator)
        if first in _MOMENTS:
            return rest
        rest, _, last = name.removeprefix("state.").rpartition(separator)
        if last in _MOMENTS:
            return rest
    return name
