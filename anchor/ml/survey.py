"""What a model's files are, before a byte is hashed: formats, tensors, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from anchor.errors import MalformedFile, MissingFile, Misuse, Unsafe
from anchor.ml.components import find_twice
from anchor.ml.formats import HEAD_BYTES, LFS_PREFIX, UNFETCHED, content_word, declared_format, find_format
from anchor.ml.formats.index import MAX_INDEX_BYTES, ShardIndex, check_index, is_index, read_index
from anchor.ml.formats.layout import Layout
from anchor.ml.formats.reading import read_at, read_up_to
from anchor.ml.report import Answer, Finding
from anchor.ml.source import Listing, Source


class Surveyed(NamedTuple):
    """A file that could be opened."""

    path: str
    size: int
    format: str
    """Its reader's name; empty when its tensors are not known."""
    layout: Layout | None
    content: str
    """What its content looks like, in a word."""


class Survey(NamedTuple):
    """A model's files and what was noticed about them."""

    files: tuple[Surveyed, ...]
    """Sorted by path."""
    indices: tuple[ShardIndex, ...]
    listing: Listing
    findings: tuple[Finding, ...]


def survey(source: Source) -> Survey:
    """Opens every file of a model and parses what has a reader.

    Raises Misuse when there is nothing (rule 3), Unavailable, Unsafe.
    """
    listing = source.listing()
    if not listing.files and not listing.special:
        raise Misuse(f"There is no file in {source.name!r}.", fix="Give the model's own folder.")
    files: list[Surveyed] = []
    indices: list[ShardIndex] = []
    findings = [Finding(Answer.UNSAFE, path, f"It is a {kind}.") for path, kind in listing.special]
    for path in listing.files:
        try:
            fd = source.open(path)
        except Unsafe as error:
            findings.append(Finding(Answer.UNSAFE, path, error.what))
            continue
        except MissingFile:
            findings.append(Finding(Answer.MISSING, path, "It is a link to a file that is not there."))
            continue
        try:
            file, noticed = survey_file(fd, path)
            findings += noticed
            files.append(file)
            indices += _index_at(fd, file, findings)
        finally:
            os.close(fd)
    clear, ambiguous = _without_ambiguous(files, indices)
    findings += ambiguous
    layouts = {file.path: file.layout for file in files}
    for index in indices:
        findings += check_index(index, layouts)
    return Survey(tuple(clear), tuple(indices), listing, tuple(findings))


def survey_file(fd: int, path: str) -> tuple[Surveyed, list[Finding]]:
    """One file, open at `fd`: its layout where it has a reader, and what is wrong with it."""
    size = os.fstat(fd).st_size
    head = read_up_to(fd, 0, HEAD_BYTES)
    content = content_word(head, size)
    form = find_format(path, head, size)
    opaque = Surveyed(path, size, "", None, content)
    if form is None:
        return opaque, [Finding(Answer.MISSING, path, UNFETCHED)] if head.startswith(LFS_PREFIX) else []
    try:
        layout = form.read(read_at(fd), size)
    except MalformedFile as error:
        if declared_format(path) is None:
            return opaque, []
        is_other = "" if content == form.name else f" It looks like: {content}."
        return opaque, [Finding(Answer.MALFORMED, path, f"{error.what}{is_other}")]
    findings = [
        Finding(Answer.UNSUPPORTED, path, f"Tensor {tensor.name!r} has {tensor.why}.", (tensor.name,))
        for tensor in layout.unsupported
    ]
    return Surveyed(path, size, form.name, layout, content), findings


def _index_at(fd: int, file: Surveyed, findings: list[Finding]) -> Iterator[ShardIndex]:
    if not is_index(file.path) or file.size > MAX_INDEX_BYTES:
        return
    try:
        index = read_index(file.path, read_up_to(fd, 0, MAX_INDEX_BYTES))
    except MalformedFile as error:
        findings.append(Finding(Answer.MALFORMED, file.path, error.what))
        return
    if index is not None:
        yield index


def tensor_names(layouts: Mapping[str, Layout | None]) -> dict[str, list[str]]:
    """Path → names of tensors and aliases, for the files that have any."""
    names = {
        path: [placed.tensor.name for placed in layout.tensors] + [name for name, _ in layout.aliases]
        for path, layout in layouts.items()
        if layout is not None
    }
    return {path: held for path, held in names.items() if held}


def _without_ambiguous(
    files: list[Surveyed], indices: list[ShardIndex]
) -> tuple[list[Surveyed], list[Finding]]:
    """Where two files of one set hold the same tensor, neither has tensors (rule 10)."""
    twice = find_twice(tensor_names({file.path: file.layout for file in files}))
    blurred = {path for pair in twice for path in (pair.first, pair.second)}
    findings = []
    for name, first, second in twice:
        chosen = next((index.places[name] for index in indices if name in index.places), None)
        selects = f"the index selects {chosen!r}" if chosen else "no index says which is meant"
        what = f"Tensor {name!r} is both here and in {first!r}; {selects}."
        findings.append(Finding(Answer.MALFORMED, second, what, (name,)))
    clear = [file._replace(format="", layout=None) if file.path in blurred else file for file in files]
    return clear, findings
