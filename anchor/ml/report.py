"""Answers about files and tensors: a word each, and the evidence for it. Never a bare yes or no."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple


class Answer(StrEnum):
    """What can be said of a file or a tensor."""

    OK = "OK"
    """Its bytes are the ones that the manifest commits to."""
    MISSING = "MISSING"
    """The manifest or an index names it, and it is not there, or not all of it."""
    UNSUPPORTED = "UNSUPPORTED"
    """It cannot be parsed here: its bytes are committed, its tensors not checked."""
    EXTRA = "EXTRA"
    """It is there, and the manifest does not name it."""
    MALFORMED = "MALFORMED"
    """It breaks its own format, or contradicts what describes it."""
    TAMPERED = "TAMPERED"
    """Its bytes differ."""
    UNSAFE = "UNSAFE"
    """It was not opened: a link that escapes, a loop, a device."""


_SEVERITY = {answer: rank for rank, answer in enumerate(Answer)}


def worst(answers: Iterable[Answer]) -> Answer:
    """The gravest of `answers`; OK when there are none."""
    return max(answers, key=_SEVERITY.__getitem__, default=Answer.OK)


class Damage(NamedTuple):
    """A range of a file whose bytes differ, or are not there."""

    begin: int
    """First byte, counted from the file's start."""
    end: int
    """One past the last byte."""
    chunk: int
    """The chunk, counted from the start of the tensor or of the skeleton, that the range lies in."""
    exact: bool = False
    """The range is known to the byte, from a reference copy, and not just to the chunk."""


class Finding(NamedTuple):
    """Something about a file that its own report has no place for."""

    answer: Answer | None
    """None for a remark that decides nothing."""
    path: str
    what: str
    tensors: tuple[str, ...] = ()


Key = tuple[str, str]
"""(component, name)."""


class Elsewhere(NamedTuple):
    """What unnamed files turned out to hold."""

    keys: frozenset[Key] = frozenset()
    """Missing or differing tensors that lie there with the right bytes."""
    has_other: bool = False
    """Some hold tensors that the manifest does not have, or has with other bytes."""
    findings: tuple[Finding, ...] = ()


class TensorReport(NamedTuple):
    """What was found of one tensor."""

    component: str
    name: str
    path: str
    answer: Answer
    what: str = ""
    damage: tuple[Damage, ...] = ()
    elements: tuple[tuple[int, int], ...] = ()
    """(first, one past the last) element, in C order, of each damage."""


class FileReport(NamedTuple):
    """What was found of one file."""

    path: str
    raw: Answer
    """The answer about the bytes alone: OK, TAMPERED, MISSING, EXTRA, UNSAFE. Nothing overrides it."""
    form: Answer = Answer.OK
    """The answer of the file's reader: OK, MALFORMED, UNSUPPORTED, or TAMPERED where it reads otherwise."""
    what: str = ""
    damage: tuple[Damage, ...] = ()
    """Of the skeleton; a tensor's damage stands in its own report."""
    hints: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """The graver of the two."""
        return worst((self.raw, self.form))


class FilesReport(NamedTuple):
    """What was found of a model: every file, every tensor."""

    files: tuple[FileReport, ...]
    tensors: tuple[TensorReport, ...]
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...]
    """Paths that the manifest's ignore rules passed over."""
    subset: tuple[str, ...]
    """The patterns that were asked for; empty when everything was."""
    bytes_hashed: int
    weights_equal: bool
    """Every tensor that was asked for was found with its bytes, in whatever file. Never enough to be OK."""

    @property
    def answer(self) -> Answer:
        """The gravest answer of all."""
        return worst(
            [
                *(file.answer for file in self.files),
                *(tensor.answer for tensor in self.tensors),
                *(finding.answer for finding in self.findings if finding.answer),
            ]
        )

    @property
    def is_ok(self) -> bool:
        """Everything that was asked for is there, byte for byte, and nothing else is."""
        return self.answer is Answer.OK

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How often each answer was given, of files and of tensors."""
        return {
            "files": dict(Counter(file.answer.value for file in self.files)),
            "tensors": dict(Counter(tensor.answer.value for tensor in self.tensors)),
        }

    def to_json(self) -> dict[str, Any]:
        """The report as plain values: counts, and details of all that is not OK."""
        return {
            "answer": self.answer.value,
            "counts": self.counts,
            "subset": list(self.subset),
            "bytes_hashed": self.bytes_hashed,
            "weights_equal": self.weights_equal,
            "ignored": list(self.ignored),
            "files": [_file_json(file) for file in self.files if file.answer is not Answer.OK or file.hints],
            "tensors": [_tensor_json(tensor) for tensor in self.tensors if tensor.answer is not Answer.OK],
            "findings": [finding_json(finding) for finding in self.findings],
        }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as plain values."""
    return {
        "answer": finding.answer.value if finding.answer else None,
        "path": finding.path,
        "what": finding.what,
        "tensors": list(finding.tensors),
    }


def _file_json(file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "answer": file.answer.value,
        "raw": file.raw.value,
        "form": file.form.value,
        "what": file.what,
        "damage": [damage._asdict() for damage in file.damage],
        "hints": list(file.hints),
    }


def _tensor_json(tensor: TensorReport) -> dict[str, Any]:
    return {
        "component": tensor.component,
        "name": tensor.name,
        "path": tensor.path,
        "answer": tensor.answer.value,
        "what": tensor.what,
        "damage": [damage._asdict() for damage in tensor.damage],
        "elements": [list(elements) for elements in tensor.elements],
    }
