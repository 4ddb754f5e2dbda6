"""A verdict: what was checked, what was found, and what that rests on, in plain words (rules 5 and 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from anchor.bundle.evidence import Evidence, Expectations
from anchor.bundle.finality import Seats, Tally
from anchor.bundle.trust import Trust
from anchor.consensus.schemes import SCHEME_NAMES
from anchor.consensus.text import (
    format_checkpoint,
    format_identity,
    format_time,
    format_time_exactly,
    get_stage_name,
)
from anchor.errors import AnchorError
from anchor.ml.report import Answer, FilesReport

VERIFIED: Final = 0
REFUSED: Final = 1
INCOMPLETE: Final = 4
QUALIFIED: Final = 5
WORDS: Final = {VERIFIED: "verified", REFUSED: "refused", INCOMPLETE: "incomplete", QUALIFIED: "qualified"}


MAX_LISTED: Final = 20
"""Files and tensors that a verdict's text names."""


class Verdict:
    """The answer to: is this model the one that was published, and did the network agree?

    True just where the answer is an unqualified yes. Nothing in it comes from the bundle unproven.
    """

    def __init__(
        self,
        trust: Trust,
        expected: Expectations,
        evidence: Evidence | None,
        files: FilesReport | None,
        refusal: AnchorError | None = None,
    ) -> None:
        self.trust = trust
        self.expected = expected
        """What whoever asked stated."""
        self.evidence = evidence
        """What the bundle proves; None when it was refused."""
        self.files = files
        """What was found of the files; None when they were not looked at, as the bundle was refused."""
        self.refusal = refusal
        """Why the bundle was refused."""

    @property
    def exit_code(self) -> int:
        """0 verified; 1 differs or refused; 4 incomplete; 5 qualified."""
        if self.evidence is None or self.files is None:
            return REFUSED
        found = _get_answers(self.files)
        if not found or found - {Answer.OK, Answer.MISSING, Answer.UNSUPPORTED}:
            return REFUSED  # where nothing was looked at, nothing is right (rule 3)
        if Answer.MISSING in found:
            return INCOMPLETE
        return QUALIFIED if self.qualifications else VERIFIED

    def __bool__(self) -> bool:
        return self.exit_code == VERIFIED

    def __str__(self) -> str:
        """One sentence, what qualifies it, what is not OK, and what that rests on."""
        lines = [self.summary, *[f"  {reason}." for reason in self.qualifications]]
        bad = [] if self.files is None else _list_bad(self.files)
        lines += [f"  {line}" for line in bad[:MAX_LISTED]]
        if len(bad) > MAX_LISTED:
            lines.append(f"  … and {len(bad) - MAX_LISTED} more")
        return "\n".join([*lines, *[f"  {label}: {words}" for label, words in self.grounds]])

    def __repr__(self) -> str:
        return f"<Verdict: {self.summary}>"

    @property
    def word(self) -> str:
        """One of WORDS."""
        return WORDS[self.exit_code]

    @property
    def qualifications(self) -> tuple[str, ...]:
        """What keeps a model of which all that was checked holds from being verified."""
        if self.evidence is None or self.files is None:
            return ()
        reasons = []
        if not self.expected.states_identity:
            reasons.append(f"identity not stated: say {_name_unstated(self.expected)}")
        if self.files.subset:
            reasons.append("only a part was checked: " + ", ".join(self.files.subset))
        if Answer.UNSUPPORTED in _get_answers(self.files):
            reasons.append("some files' bytes are right, and there is no reader for their tensors here")
        return tuple(reasons)

    @property
    def summary(self) -> str:
        """One sentence."""
        if self.evidence is None:
            return f"Refused: {self.refusal}"
        name = f"{self.evidence.model}@{self.evidence.version}"
        if not self.expected.states_identity and self.exit_code == QUALIFIED:
            key = format_identity(self.evidence.publisher)
            return f"Matches what {key} published as {name}; identity not stated."
        return {
            VERIFIED: f"Verified: this is {name}, as it was published.",
            REFUSED: f"Not {name}: the model differs from what was published.",
            INCOMPLETE: f"Incomplete: what is there is {name}, and parts are missing.",
            QUALIFIED: f"Qualified: what was checked is {name}, as it was published.",
        }[self.exit_code]

    @property
    def grounds(self) -> tuple[tuple[str, str], ...]:
        """What the verdict rests on: (label, words)."""
        found = self.evidence
        if found is None:
            return (("trust", self.trust.source),)
        schemes = " and ".join([SCHEME_NAMES[scheme] for scheme in found.signed_by])
        return (
            ("trust", self._describe_trust(found)),
            ("evidence", describe_evidence(found.tallies, found.seats)),
            ("operator", self.trust.operator),
            ("as of", f"epoch {found.newest.epoch}, {format_time(found.newest_time)}; later unknown"),
            ("publisher", format_identity(found.publisher)),
            ("signed", f"{schemes}, by keys that were valid at entry {found.entry}"),
            ("stage", f"{get_stage_name(found.stage)}; not revoked"),
            ("lineage", "the publisher's claim"),
        )

    def _describe_trust(self, found: Evidence) -> str:
        stale = "; older than its weak-subjectivity period, as you allowed" if found.is_stale else ""
        return f"{self.trust.source}, of {format_time(found.trusted_time)}{stale}"

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return {
            "verdict": self.word,
            "summary": self.summary,
            "qualifications": list(self.qualifications),
            "grounds": dict(self.grounds),
            "evidence": None if self.evidence is None else _evidence_json(self.evidence),
            "files": None if self.files is None else self.files.to_json(),
            "refusal": self.refusal
            and {"kind": type(self.refusal).__name__, "what": self.refusal.what, "fix": self.refusal.fix},
        }


def describe_evidence(tallies: tuple[Tally, ...], seats: tuple[Seats, ...]) -> str:
    """The evidence in words: of several links or updates, the weakest."""
    parts = [*_describe_votes(tallies), *_describe_seats(seats)]
    return "; then ".join(parts) or "none needed: the trusted checkpoint's own state proves it"


def _describe_votes(tallies: tuple[Tally, ...]) -> Iterator[str]:
    if tallies:
        weakest = min(tallies, key=lambda tally: tally.stake / tally.total_stake)
        links = "" if len(tallies) == 2 else f", in the weakest of {len(tallies)} links"
        voters = f"votes of {weakest.voters} of {weakest.validators} validators"
        yield f"{voters}, {weakest.share:.1f} % of stake{links}"


def _describe_seats(seats: tuple[Seats, ...]) -> Iterator[str]:
    """Never a share of the stake, which a committee of a few seats does not show (rule 19)."""
    if seats:
        weakest = min(seats, key=lambda found: (found.signed, found.keys))
        updates = "" if len(seats) == 1 else f", in the weakest of {len(seats)} updates"
        signed = f"signatures of {weakest.signed} of {weakest.seats} seats of the sync committee"
        yield f"{signed}, held by {weakest.keys} keys{updates}"


def _get_answers(files: FilesReport) -> set[Answer]:
    answers = {file.answer for file in files.files} | {tensor.answer for tensor in files.tensors}
    return answers | {finding.answer for finding in files.findings if finding.answer is not None}


def _name_unstated(expected: Expectations) -> str:
    """What of the identity is still to be stated (rule 1)."""
    unstated = []
    if expected.model is None:
        unstated.append("which model you expect (--model)")
    if expected.publisher is None:
        unstated.append("who may publish it (--publisher)")
    return " and ".join(unstated)


def _list_bad(files: FilesReport) -> list[str]:
    """A line for each file, tensor and finding that is not OK; names from outside are escaped (rule 5)."""
    bad = [f"{file.answer} {file.path!r}" for file in files.files if file.answer is not Answer.OK]
    bad += [f"{t.answer} {t.name!r} in {t.path!r}" for t in files.tensors if t.answer is not Answer.OK]
    return bad + [f"{finding.answer} {finding.path!r}" for finding in files.findings if finding.answer]


def _evidence_json(found: Evidence) -> dict[str, Any]:
    return {
        "trusted": format_checkpoint(found.trusted),
        "trusted_time": format_time_exactly(found.trusted_time),
        "stale": found.is_stale,
        "newest": format_checkpoint(found.newest),
        "newest_time": format_time_exactly(found.newest_time),
        "network_id": found.network_id,
        "links": [{**tally._asdict(), "share": round(tally.share, 1)} for tally in found.tallies],
        "updates": [signed._asdict() for signed in found.seats],
        "model": found.model,
        "version": found.version,
        "publisher": format_identity(found.publisher),
        "entry": found.entry,
        "schemes": [SCHEME_NAMES[scheme] for scheme in found.signed_by],
        "stage": get_stage_name(found.stage),
    }
