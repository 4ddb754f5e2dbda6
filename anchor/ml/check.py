"""Check one open file against what the manifest says of it (specs/02 §2.6).

The raw answer is about bytes at anchored positions and stands by itself. Tensors are checked where the file's
own header places them: a file that was written anew can still be seen to hold the same weights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from anchor.errors import MalformedFile
from anchor.ml.anchored import Anchored, describe
from anchor.ml.dtypes import BITS
from anchor.ml.formats import READERS
from anchor.ml.formats.layout import CUT_CAUSES, Descriptor, Format, Layout
from anchor.ml.formats.reading import read_at
from anchor.ml.leaves import Progress, hash_ranges, hash_skeleton
from anchor.ml.manifest import Tensor, compute_notes_root
from anchor.ml.report import Answer, Damage, FileReport, TensorReport
from anchor.ml.streams import Stream, clip, find_damage, narrow

_WORDS: Final = {Answer.TAMPERED: "Its bytes differ.", Answer.MISSING: "Its bytes are not all there."}


class Checked(NamedTuple):
    """What was found of a file, and how its reader understood it."""

    report: FileReport
    tensors: tuple[TensorReport, ...]
    layout: Layout | None


class _Open(NamedTuple):
    """The file at hand."""

    fd: int
    window: int
    """Bytes that are there, of those that should be."""
    reference: int | None
    """Descriptor of another copy, to place differences to the byte."""
    progress: Progress


class _Reading(NamedTuple):
    """What the file's reader made of it."""

    layout: Layout | None
    form: Answer
    what: str
    is_cut: bool = False
    """The file ends before its own header says."""


def check_file(fd: int, anchored: Anchored, *, progress: Progress, reference: int | None = None) -> Checked:
    """Checks the file open at `fd`, which no one may be writing to. Raises Unavailable."""
    size = os.fstat(fd).st_size
    at = _Open(fd, min(size, anchored.file.size), reference, progress)
    skeleton = _check_skeleton(at, anchored)
    reading = _read(fd, size, anchored, is_intact=not skeleton.damage and size == anchored.file.size)
    if reading.layout is None or _is_as_anchored(reading.layout, anchored) or reading.form is Answer.TAMPERED:
        tensors = _check_in_place(at, anchored)
        raw = _raw_answer(size, anchored, skeleton, tensors, is_cut=reading.is_cut)
        tensors = [_after_reading(tensor, reading) for tensor in tensors]
    else:  # a well-formed file, and another one
        tensors = _check_by_name(at._replace(window=size, reference=None), anchored, reading.layout)
        raw = Answer.TAMPERED
    sizes = "" if size == anchored.file.size else f"It has {size} bytes, and had {anchored.file.size}."
    report = FileReport(
        path=anchored.file.path,
        raw=raw,
        form=reading.form,
        what=" ".join(filter(None, (sizes, reading.what))),
        damage=skeleton.damage,
    )
    return Checked(report, tuple(tensors), reading.layout)


class _Skeleton(NamedTuple):
    """How the skeleton compares."""

    damage: tuple[Damage, ...]
    differs: bool
    """Some of it is there and wrong; otherwise what is damaged is absent."""
    has_intact: bool
    """Some of it is there and right."""


def _check_skeleton(at: _Open, anchored: Anchored) -> _Skeleton:
    extents = clip([(offset, tensor.length) for offset, tensor in anchored.placed], at.window)
    have = hash_skeleton(at.fd, at.window, extents, at.progress)
    differing, absent = find_damage(anchored.skeleton, have, at.window)
    damaged_chunks = {damage.chunk for damage in differing + absent}
    if at.reference is not None:
        differing = narrow(anchored.skeleton, differing, at.fd, at.reference)
    has_intact = 32 * len(damaged_chunks) < len(anchored.file.skeleton)
    return _Skeleton(tuple(differing + absent), bool(differing), has_intact)


def _read(fd: int, size: int, anchored: Anchored, *, is_intact: bool) -> _Reading:
    """Parses the file; one that is too short or too long is read as if it had its anchored size."""
    if not anchored.file.format:
        return _Reading(None, Answer.OK, "")
    reader = READERS.get(anchored.file.format)
    if reader is None:
        what = f"There is no reader for {anchored.file.format!r} here: its tensors are not checked."
        return _Reading(None, Answer.UNSUPPORTED, what)
    try:
        layout = reader.read(read_at(fd), size)
    except MalformedFile as error:
        as_if = _read_as_if(reader, fd, anchored)
        return _Reading(as_if, Answer.MALFORMED, error.what, error.cause in CUT_CAUSES)
    if is_intact and not _agrees(layout, anchored):
        # The bytes are the committed ones, so it is the manifest that says what is not so (rule 10).
        return _Reading(layout, Answer.TAMPERED, "The manifest describes other tensors than the file holds.")
    return _Reading(layout, Answer.OK, "")


def _read_as_if(reader: Format, fd: int, anchored: Anchored) -> Layout | None:
    try:
        layout = reader.read(read_at(fd), anchored.file.size)
    except MalformedFile:
        return None
    return layout if _is_as_anchored(layout, anchored) else None


def _agrees(layout: Layout, anchored: Anchored) -> bool:
    notes_root = compute_notes_root(layout.metadata)
    return _is_as_anchored(layout, anchored) and notes_root == anchored.file.notes_root


def _is_as_anchored(layout: Layout, anchored: Anchored) -> bool:
    return layout.tensors == anchored.layout.tensors and layout.aliases == anchored.layout.aliases


def _check_in_place(at: _Open, anchored: Anchored) -> list[TensorReport]:
    """The wanted tensors, at the positions that the manifest gives."""
    placed = [(offset, tensor) for offset, tensor in anchored.placed if tensor.name in anchored.wanted]
    streams = [Stream(((offset, tensor.length),), tensor.chunks) for offset, tensor in placed]
    reports = [
        _tensor_report(at, anchored.file.path, tensor, stream, have)
        for (_, tensor), stream, have in zip(placed, streams, _hash(at, streams), strict=True)
    ]
    reports += [
        TensorReport(tensor.component, tensor.name, anchored.file.path, Answer.OK)
        for tensor in anchored.unplaced
        if tensor.name in anchored.wanted
    ]
    return reports


def _hash(at: _Open, streams: Sequence[Stream]) -> list[bytes]:
    """Digests of what is there of each stream of one range."""
    there = [clip(stream.ranges, at.window) for stream in streams]
    digests = iter(hash_ranges(at.fd, [ranges[0] for ranges in there if ranges], at.progress))
    return [next(digests) if ranges else b"" for ranges in there]


def _tensor_report(at: _Open, path: str, tensor: Tensor, stream: Stream, have: bytes) -> TensorReport:
    differing, absent = find_damage(stream, have, at.window)
    if differing and at.reference is not None:
        differing = narrow(stream, differing, at.fd, at.reference)
    damage = tuple(differing + absent)
    answer = Answer.TAMPERED if differing else Answer.MISSING if absent else Answer.OK
    what = _WORDS.get(answer, "")
    begin = stream.ranges[0][0]
    bits = BITS[tensor.dtype]
    elements = tuple(((d.begin - begin) * 8 // bits, -(-(d.end - begin) * 8 // bits)) for d in damage)
    return TensorReport(tensor.component, tensor.name, path, answer, what, damage, elements)


def _after_reading(tensor: TensorReport, reading: _Reading) -> TensorReport:
    """A tensor whose bytes are right is still not OK when no header was read that describes it (rule 10)."""
    if tensor.answer is not Answer.OK or reading.form is Answer.OK:
        return tensor
    if reading.form is Answer.MALFORMED and reading.layout is not None:
        return tensor  # too short or too long, but the header is there and places it here
    what = {
        Answer.UNSUPPORTED: "Its bytes are right; whether the file describes it so was not checked.",
        Answer.MALFORMED: "Its bytes are right, and the file's header is not.",
        Answer.TAMPERED: "Its bytes are right, and the file describes it otherwise.",
    }[reading.form]
    return tensor._replace(answer=reading.form, what=what)


def _check_by_name(at: _Open, anchored: Anchored, layout: Layout) -> list[TensorReport]:
    """The wanted tensors, where the file's own header places them; and those that it has beside them."""
    path = anchored.file.path
    found = {placed.tensor.name: placed for placed in layout.tensors}
    known = anchored.tensors
    same: list[tuple[Tensor, Stream]] = []
    reports: list[TensorReport] = []
    for name in sorted(anchored.wanted):
        tensor = known[name]
        if name not in found:
            what = "The file does not hold it."
            reports.append(TensorReport(tensor.component, name, path, Answer.MISSING, what))
        elif what := _difference(describe(tensor), found[name].tensor):
            reports.append(TensorReport(tensor.component, name, path, Answer.TAMPERED, what))
        elif (offset := found[name].offset) is None:
            reports.append(TensorReport(tensor.component, name, path, Answer.OK))
        else:
            same.append((tensor, Stream(((offset, tensor.length),), tensor.chunks)))
    digests = _hash(at, [stream for _, stream in same])
    reports += [_tensor_report(at, path, *item, have) for item, have in zip(same, digests, strict=True)]
    component = next((tensor.component for tensor in known.values()), "")
    what = "The manifest does not name it."
    reports += [
        TensorReport(component, name, path, Answer.EXTRA, what) for name in found if name not in known
    ]
    return reports


def _difference(want: Descriptor, have: Descriptor) -> str:
    if want == have:
        return ""
    return f"It is {have.dtype} {list(have.shape)}, and was {want.dtype} {list(want.shape)}."


def _raw_answer(
    size: int, anchored: Anchored, skeleton: _Skeleton, tensors: Sequence[TensorReport], *, is_cut: bool
) -> Answer:
    """The answer about the bytes alone.

    A file counts as incomplete, and not as changed, only where what is there is seen to be right.
    """
    answers = {tensor.answer for tensor in tensors}
    if skeleton.differs or Answer.TAMPERED in answers or size > anchored.file.size:
        return Answer.TAMPERED
    if size == anchored.file.size:
        return Answer.OK
    placed = {tensor.name for _, tensor in anchored.placed}
    has_intact = skeleton.has_intact or any(
        tensor.answer is Answer.OK and tensor.name in placed for tensor in tensors
    )
    return Answer.MISSING if has_intact or is_cut or not size else Answer.TAMPERED
