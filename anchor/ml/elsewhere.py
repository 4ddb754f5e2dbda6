"""Look for what is missing in the files that nobody named: renamed files, weights cut into other shards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anchor.errors import MissingFile, Unsafe
from anchor.ml.anchored import Anchored, describe
from anchor.ml.leaves import Progress, hash_ranges, hash_skeleton
from anchor.ml.manifest import Tensor
from anchor.ml.report import Answer, Elsewhere, FileReport, Finding, Key, TensorReport
from anchor.ml.source import Source
from anchor.ml.survey import survey_file


class _Sought(NamedTuple):
    """What is not where it should be."""

    files: Mapping[tuple[int, bytes], str]
    """(size, digests) → path, of missing files without extents."""
    tensors: Mapping[str, Sequence[Tensor]]
    """By name: one of each component."""


def find_elsewhere(
    source: Source,
    extra: Sequence[FileReport],
    files: Sequence[FileReport],
    tensors: Sequence[TensorReport],
    wanted: Sequence[Anchored],
    progress: Progress,
) -> Elsewhere:
    """Looks into the `extra` files for what `files` and `tensors` say is not where it should be."""
    sought = _seek(files, tensors, wanted)
    seen = [
        _look_into(source, report.path, sought, progress) for report in extra if report.raw is Answer.EXTRA
    ]
    return Elsewhere(
        frozenset[Key]().union(*(one.keys for one in seen)),
        any(one.has_other for one in seen),
        tuple(finding for one in seen for finding in one.findings),
    )


def _seek(
    files: Sequence[FileReport], tensors: Sequence[TensorReport], wanted: Sequence[Anchored]
) -> _Sought:
    missing = {report.path for report in files if report.raw is Answer.MISSING}
    unfound = {(report.component, report.name) for report in tensors if report.answer is not Answer.OK}
    by_name: dict[str, list[Tensor]] = {}
    for anchored in wanted:
        for name, tensor in anchored.tensors.items():
            if (tensor.component, name) in unfound:
                by_name.setdefault(name, []).append(tensor)
    lost = {
        (anchored.file.size, anchored.file.skeleton): anchored.file.path
        for anchored in wanted
        if anchored.file.path in missing and not anchored.placed
    }
    return _Sought(lost, by_name)


def _look_into(source: Source, path: str, sought: _Sought, progress: Progress) -> Elsewhere:
    try:
        fd = source.open(path)
    except (Unsafe, MissingFile):
        return Elsewhere(frozenset(), False, ())
    try:
        findings = _find_renamed(fd, path, sought.files, progress)
        same, has_other = _find_tensors(fd, path, sought.tensors, progress)
    finally:
        os.close(fd)
    if same:
        names = tuple(sorted({tensor.name for tensor in same}))
        findings.append(Finding(None, path, "It holds tensors that are sought, unchanged.", names))
    return Elsewhere(frozenset((item.component, item.name) for item in same), has_other, tuple(findings))


def _find_renamed(
    fd: int, path: str, lost: Mapping[tuple[int, bytes], str], progress: Progress
) -> list[Finding]:
    """Whether a file is one of the `lost` ones under another name."""
    size = os.fstat(fd).st_size
    if all(size != other for other, _ in lost):
        return []
    was = lost.get((size, hash_skeleton(fd, size, [], progress)))
    return [Finding(None, path, f"It has the bytes of {was!r}: it was renamed.")] if was else []


def _find_tensors(
    fd: int, path: str, sought: Mapping[str, Sequence[Tensor]], progress: Progress
) -> tuple[list[Tensor], bool]:
    """(sought tensors that lie here unchanged, whether there are others here)."""
    layout = survey_file(fd, path)[0].layout
    if layout is None:
        return [], False
    alike = [
        (placed, [want for want in sought.get(placed.tensor.name, ()) if describe(want) == placed.tensor])
        for placed in layout.tensors
    ]
    ranges = [
        (placed.offset, placed.tensor.length)
        for placed, wants in alike
        if wants and placed.offset is not None
    ]
    digests = iter(hash_ranges(fd, ranges, progress))
    same: list[Tensor] = []
    has_other = False
    for placed, wants in alike:
        chunks = next(digests) if wants and placed.offset is not None else b""
        equal = [want for want in wants if want.chunks == chunks]
        same += equal
        has_other = has_other or not equal
    return same, has_other
