"""Check a model on disk against its manifest: every file, every tensor, and nothing beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from anchor.errors import MalformedFile, MissingFile, Unsafe
from anchor.files import LEFTOVER
from anchor.ml.anchored import Anchored, select_files
from anchor.ml.check import Checked, check_file
from anchor.ml.formats.index import MAX_INDEX_BYTES, check_index, is_index, read_index
from anchor.ml.formats.layout import Layout
from anchor.ml.leaves import Progress
from anchor.ml.manifest import Manifest
from anchor.ml.paths import IGNORED, is_protected
from anchor.ml.report import Answer, Elsewhere, FileReport, FilesReport, Finding, TensorReport
from anchor.ml.rules import verify_manifest
from anchor.ml.source import Listing, Source, open_source

StrPath = str | os.PathLike[str]


class _Found(NamedTuple):
    """What the files showed."""

    files: list[FileReport]
    tensors: list[TensorReport]
    layouts: dict[str, Layout | None]


def bytes_to_hash(manifest: Manifest, only: Sequence[str] = ()) -> int:
    """What `check_files` will tell its progress in all, of a model that is as it should be."""
    return sum(anchored.wanted_bytes for anchored in select_files(manifest, only))


def check_files(
    path: StrPath,
    manifest: Manifest,
    *,
    only: Sequence[str] = (),
    bundle: StrPath | None = None,
    reference: StrPath | None = None,
    progress: Progress = lambda _: None,
) -> FilesReport:
    """Checks the model at `path`.

    `only` asks for a part by patterns of tensor names and file paths. `bundle` is a file that may lie in the
    model's folder and is no part of it. `reference` is another copy of the model: where it is right,
    differences are placed to the byte.

    Raises Misuse when nothing is asked for, InvalidManifest or Unsafe for a manifest that breaks its rules,
    Unavailable for what cannot be read. What is wrong with the model is in the report.
    """
    verify_manifest(manifest)
    wanted = select_files(manifest, only)
    counter = _Counter(progress)
    with open_source(path) as source:
        listing = source.listing(manifest.ignored)
        with open_source(reference) if reference is not None else nullcontext() as copy:
            found = _check_all(source, copy, wanted, counter)
        extra = _find_extra(source, listing, manifest, bundle)
        findings = [] if only else _check_indices(source, found.layouts)
        elsewhere = _look_elsewhere(source, extra, found, wanted, counter)
    unfound = [tensor for tensor in found.tensors if tensor.answer is not Answer.OK]
    return FilesReport(
        files=(*found.files, *extra),
        tensors=tuple(found.tensors),
        findings=(*findings, *elsewhere.findings),
        ignored=listing.ignored,
        subset=tuple(only),
        bytes_hashed=counter.total,
        weights_equal=bool(found.tensors)
        and not elsewhere.has_other
        and all((item.component, item.name) in elsewhere.keys for item in unfound),
    )


class _Counter:
    """Passes progress on, and adds it up."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.total = 0

    def __call__(self, count: int) -> None:
        self.total += count
        self._progress(count)


def _check_all(
    source: Source, reference: Source | None, wanted: Sequence[Anchored], progress: Progress
) -> _Found:
    found = _Found([], [], {})
    for anchored in wanted:
        if source.single not in (None, anchored.file.path):
            _add_unopened(found, anchored, Answer.MISSING, "It is not part of what was given: one file.")
            continue
        try:
            fd = source.open(anchored.file.path)
        except Unsafe as error:
            _add_unopened(found, anchored, Answer.UNSAFE, error.what)
            continue
        except MissingFile:
            _add_unopened(found, anchored, Answer.MISSING, "It is not there.")
            continue
        try:
            _add_checked(found, anchored, fd, _open_copy(reference, anchored.file.path), progress)
        finally:
            os.close(fd)
    return found


def _add_unopened(found: _Found, anchored: Anchored, answer: Answer, what: str) -> None:
    found.files.append(FileReport(anchored.file.path, answer, what=what))
    found.tensors.extend(
        TensorReport(tensor.component, tensor.name, anchored.file.path, answer, "Its file is not there.")
        for name, tensor in anchored.tensors.items()
        if name in anchored.wanted
    )


def _add_checked(found: _Found, anchored: Anchored, fd: int, copy: int | None, progress: Progress) -> None:
    try:
        checked = check_file(fd, anchored, progress=progress, reference=copy)
        hints = _explain(fd, anchored, checked, copy)
    finally:
        if copy is not None:
            os.close(copy)
    found.files.append(checked.report._replace(hints=hints))
    found.tensors.extend(checked.tensors)
    found.layouts[anchored.file.path] = checked.layout


def _explain(fd: int, anchored: Anchored, checked: Checked, copy: int | None) -> tuple[str, ...]:
    if checked.report.raw is Answer.OK:
        return ()
    from anchor.ml.hints import find_hints

    return find_hints(fd, anchored, checked, reference=copy)


def _open_copy(reference: Source | None, path: str) -> int | None:
    try:
        return reference.open(path) if reference is not None else None
    except (Unsafe, MissingFile):
        return None


def _find_extra(
    source: Source, listing: Listing, manifest: Manifest, bundle: StrPath | None
) -> list[FileReport]:
    """What lies in the folder and is not named by the manifest (rule 4)."""
    named = {file.path for file in manifest.files}
    extra = [
        FileReport(path, Answer.EXTRA, what="The manifest does not name it.", hints=_explain_extra(path))
        for path in listing.files
        if path not in named and not _is_bundle(source, path, bundle)
    ]
    return extra + [
        FileReport(path, Answer.UNSAFE, what=f"It is a {kind}, and the manifest does not name it.")
        for path, kind in listing.special
        if path not in named
    ]


def _explain_extra(path: str) -> tuple[str, ...]:
    """A hint on what an interrupted write of the bundle left. It is EXTRA all the same."""
    match = LEFTOVER.fullmatch(path)
    if match is None or match[1] not in IGNORED:
        return ()
    return ("An interrupted `anchor publish` or `anchor bundle` left it: the next one removes it.",)


def _is_bundle(source: Source, path: str, bundle: StrPath | None) -> bool:
    if bundle is None or is_protected(path) or not Path(bundle).exists():
        return False
    try:
        fd = source.open(path)
    except (Unsafe, MissingFile):
        return False
    try:
        return os.path.samestat(os.fstat(fd), Path(bundle).stat())
    finally:
        os.close(fd)


def _look_elsewhere(
    source: Source,
    extra: Sequence[FileReport],
    found: _Found,
    wanted: Sequence[Anchored],
    progress: Progress,
) -> Elsewhere:
    if not extra:
        return Elsewhere()
    from anchor.ml.elsewhere import find_elsewhere

    return find_elsewhere(source, extra, found.files, found.tensors, wanted, progress)


def _check_indices(source: Source, layouts: dict[str, Layout | None]) -> list[Finding]:
    """Whether the indices of shards agree with the shards that were checked."""
    findings: list[Finding] = []
    for path in filter(is_index, layouts):
        try:
            index = read_index(path, source.read(path, MAX_INDEX_BYTES))
        except MalformedFile as error:
            findings.append(Finding(Answer.MALFORMED, path, error.what))
            continue
        if index is not None:
            findings += check_index(index, layouts)
    return findings
