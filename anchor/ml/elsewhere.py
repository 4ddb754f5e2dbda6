"""Look for what is missing in the files that nobody named: renamed files, weights cut into other shards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from anchor.errors import MissingFile, Unsafe
from anchor.ml.anchored import Anchored, describe
from anchor.ml.check import check_file
from anchor.ml.leaves import Progress, hash_ranges
from anchor.ml.manifest import Tensor
from anchor.ml.report import Answer, FileReport, Finding, TensorReport
from anchor.ml.source import Source
from anchor.ml.survey import survey_file

Key = tuple[str, str]
"""(component, name)."""


class Elsewhere(NamedTuple):
    """What unnamed files turned out to hold."""

    keys: frozenset[Key]
    """Missing or differing tensors that lie there with the right bytes."""
    has_other: bool
    """Some hold tensors that the manifest does not have, or has with other bytes."""
    findings: tuple[Finding, ...]


def find_elsewhere(
    source: Source,
    extra: Sequence[FileReport],
    files: Sequence[FileReport],
    tensors: Sequence[TensorReport],
    wanted: Sequence[Anchored],
    progress: Progress,
) -> Elsewhere:
    """Looks into the `extra` files for what `files` and `tensors` say is not where it should be."""
    missing = {report.path for report in files if report.raw is Answer.MISSING}
    unfound = {report.name: report.component for report in tensors if report.answer is not Answer.OK}
    lost = [anchored for anchored in wanted if anchored.file.path in missing]
    sought = {
        name: tensor
        for anchored in wanted
        for name, tensor in anchored.tensors.items()
        if unfound.get(name) == tensor.component
    }
    keys: set[Key] = set()
    findings: list[Finding] = []
    has_other = False
    for report in extra:
        if report.raw is not Answer.EXTRA:
            continue
        try:
            fd = source.open(report.path)
        except (Unsafe, MissingFile):
            continue
        try:
            findings += _find_renamed(fd, report.path, lost, progress)
            same, other = _find_tensors(fd, report.path, sought, progress)
        finally:
            os.close(fd)
        keys |= {(tensor.component, tensor.name) for tensor in same}
        has_other = has_other or other
        if same:
            names = tuple(tensor.name for tensor in same)
            findings.append(Finding(None, report.path, "It holds tensors that are sought, unchanged.", names))
    return Elsewhere(frozenset(keys), has_other, tuple(findings))


def _find_renamed(fd: int, path: str, lost: Sequence[Anchored], progress: Progress) -> list[Finding]:
    size = os.fstat(fd).st_size
    for anchored in lost:
        if anchored.file.size == size:
            checked = check_file(fd, anchored, progress=progress)
            if checked.report.raw is Answer.OK:
                return [Finding(None, path, f"It has the bytes of {anchored.file.path!r}: it was renamed.")]
    return []


def _find_tensors(
    fd: int, path: str, sought: dict[str, Tensor], progress: Progress
) -> tuple[list[Tensor], bool]:
    """(sought tensors that lie here unchanged, whether there are others)."""
    layout = survey_file(fd, path)[0].layout
    if layout is None or not sought:
        return [], layout is not None and bool(layout.tensors)
    alike = [
        (placed, sought[placed.tensor.name])
        for placed in layout.tensors
        if placed.tensor.name in sought and describe(sought[placed.tensor.name]) == placed.tensor
    ]
    ranges = [(placed.offset, placed.tensor.length) for placed, _ in alike if placed.offset is not None]
    digests = iter(hash_ranges(fd, ranges, progress))
    same = [tensor for placed, tensor in alike if placed.offset is None or next(digests) == tensor.chunks]
    return same, len(same) < len(layout.tensors)
