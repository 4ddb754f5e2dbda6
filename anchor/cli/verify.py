"""`anchor verify`: a model against its bundle, offline."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from anchor.bundle.api import verify
from anchor.bundle.trust import Trust, resolve_trust
from anchor.bundle.verdict import REFUSED, VERIFIED, Verdict
from anchor.cli.output import Outcome, Terminal, format_bytes, format_count, format_table, printable
from anchor.consensus.bls import get_backend_name
from anchor.errors import Misuse
from anchor.ml.report import Answer, Damage, FilesReport
from anchor.params import STAGES

HELP = """\
Check that a model is exactly the one that was published, and that a network
agreed on it. Offline, but for --url: that asks a node, which is not trusted,
for a missing or newer bundle, and keeps it beside the model.
"""
EXAMPLES = """
anchor verify model/ --trust lab --model acme/tiny
anchor verify model.safetensors --bundle tiny.anchor --trust 0x…:12 \\
  --model acme/tiny@1.0 --publisher ed25519:…
anchor verify model/ --trust lab --model acme/tiny --only 'layers.0.*'
anchor verify model/ --trust lab --model acme/tiny \\
  --require-stage production --max-age 7d
anchor verify model/ --trust lab --model acme/tiny@1.0 \\
  --url https://models.example:8960
"""
UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_IGNORED: Final = 4
"""Ignored paths that are named; --json has them all."""
MAX_ROWS: Final = 20
"""Findings that are listed; --json has them all."""
UNCHECKED: Final = (Answer.MISSING, Answer.EXTRA)
"""Answers that come without a look at the bytes."""
WEIGHTS_EQUAL: Final = "The weights are the published ones. That is not enough: the files are not."
COLORS: Final = {"verified": "green", "refused": "red", "incomplete": "yellow", "qualified": "yellow"}


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("path", help="the model: a file or a folder")
    parser.add_argument("--bundle", metavar="FILE", help="default: PATH/model.anchor, or FILE.anchor")
    parser.add_argument("--url", metavar="URL", help="a node to fetch a missing or newer bundle from")
    parser.add_argument("--trust", metavar="ROOT:EPOCH|NAME", required=True, help="the checkpoint you trust")
    parser.add_argument("--model", metavar="ORG/NAME[@VERSION]", help="the model that you expect")
    parser.add_argument("--publisher", metavar="KEY", help="who may publish it, unless your trust pins that")
    parser.add_argument(
        "--only", metavar="GLOB", action="append", default=[], help="check a part; repeatable"
    )
    parser.add_argument("--require-stage", metavar="STAGE", choices=STAGES, help="needs --max-age")
    parser.add_argument("--max-age", metavar="TIME", help="of the status: 90s, 30m, 12h, 7d")
    parser.add_argument(
        "--allow-stale-trust",
        action="store_true",
        help="take a checkpoint older than its network's weak-subjectivity period",
    )


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Verifies, and puts the verdict in words."""
    trust, bundle = resolve_trust(options.trust), options.bundle
    if get_backend_name() != "pyblst":
        terminal.note("Signatures are checked in pure Python, which takes seconds.")
        terminal.note("Faster: pip install 'anchor-ledger[ledger]'")
    if options.url is not None:
        bundle = _fetch(options, trust, terminal)
    with ExitStack() as stack:
        verdict = verify(
            options.path,
            bundle,
            trust,
            model=options.model,
            publisher=options.publisher,
            only=options.only,
            require_stage=options.require_stage,
            max_age=None if options.max_age is None else parse_duration(options.max_age),
            allow_stale_trust=options.allow_stale_trust,
            progress=lambda total: stack.enter_context(terminal.progress("hashing", total)),
        )
    return Outcome(format_verdict(verdict, terminal), verdict.to_json(), verdict.exit_code)


def _fetch(options: Namespace, trust: Trust, terminal: Terminal) -> Path:
    from anchor.cli.fetching import fetch_newer

    return fetch_newer(
        options.url,
        options.path,
        options.bundle,
        trust,
        options.model,
        terminal,
        allow_stale_trust=options.allow_stale_trust,
    )


def parse_duration(text: str) -> int:
    """Seconds in "90s", "30m", "12h" or "7d". Raises Misuse."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if not match:
        raise Misuse(f"{text!r} is no length of time.", fix="Write it as 90s, 30m, 12h or 7d.")
    return int(match[1]) * UNITS[match[2]]


def format_verdict(verdict: Verdict, terminal: Terminal) -> str:
    """The verdict for people: one sentence, what differs, what was shown, what was not."""
    lines = [terminal.paint(printable(line), COLORS[verdict.word]) for line in _sum_up(verdict)]
    lines += [f"  {printable(reason)}." for reason in verdict.qualifications]
    if verdict.files is not None:
        lines += _list_findings(verdict.files)
        if verdict.exit_code == REFUSED and verdict.files.weights_equal and not verdict.files.subset:
            lines += ["", WEIGHTS_EQUAL]
    lines += ["", *[f"  {label:<10} {printable(words)}" for label, words in verdict.grounds]]
    if verdict.files is not None:
        lines.append(f"  {'checked':<10} {_describe_extent(verdict.files)}")
        if ignored := verdict.files.ignored:
            more = f" and {len(ignored) - MAX_IGNORED} more" if len(ignored) > MAX_IGNORED else ""
            lines.append(f"  {'ignored':<10} {printable(', '.join(ignored[:MAX_IGNORED]))}{more}")
    if verdict.exit_code == VERIFIED:
        lines += ["", "Not shown: that the model is good, or what happened after that time."]
    return "\n".join(lines)


def _sum_up(verdict: Verdict) -> list[str]:
    """The verdict's sentence; below a refusal, what to do."""
    if verdict.refusal is None:
        return [verdict.summary]
    return [f"Refused: {verdict.refusal.what}", *([verdict.refusal.fix] if verdict.refusal.fix else [])]


def _describe_extent(files: FilesReport) -> str:
    """What there was to check: no file that is missing, none that is too much."""
    found = [sum(one.answer not in UNCHECKED for one in ones) for ones in (files.files, files.tensors)]
    counted = [format_count(count, what) for count, what in zip(found, ("file", "tensor"), strict=True)]
    return ", ".join([*counted, format_bytes(files.bytes_hashed)])


def _list_findings(files: FilesReport) -> list[str]:
    """A table of all that is not OK, a file's tensors below it; then what else there is to say."""
    rows: list[tuple[str, str, str, str]] = []
    for file in files.files:
        bad = [t for t in files.tensors if t.path == file.path and t.answer is not Answer.OK]
        if bad or file.answer is not Answer.OK:
            rows.append((file.answer, printable(file.path), *_locate(file.damage)))
        rows += [(t.answer, f"  {printable(t.name)}", *_locate(t.damage)) for t in bad]
    shown = ["", format_table(("answer", "file, tensors", "chunk", "bytes"), rows[:MAX_ROWS])] if rows else []
    if len(rows) > MAX_ROWS:
        shown.append(f"… and {len(rows) - MAX_ROWS} more: --json lists all.")
    notes = _list_notes(files)
    return [*shown, "", *notes] if notes else shown


def _list_notes(files: FilesReport) -> list[str]:
    """What the reports say in words, where a table has no place for it."""
    notes = [(file.path, " ".join(filter(None, (file.what, *file.hints)))) for file in files.files]
    notes += _gather([(tensor.name, tensor.what) for tensor in files.tensors if not tensor.damage])
    notes += [(finding.path, finding.what) for finding in files.findings]
    return [f"{printable(where)}: {printable(what)}" for where, what in notes if what][:MAX_ROWS]


def _gather(notes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Notes with those that say the same as one: a lost file takes all its tensors with it."""
    places: dict[str, list[str]] = {}
    for where, what in notes:
        places.setdefault(what, []).append(where)
    return [
        (f"{names[0]} and {len(names) - 1:,} more" if len(names) > 1 else names[0], what)
        for what, names in places.items()
    ]


def _locate(damage: tuple[Damage, ...]) -> tuple[str, str]:
    """The first damaged chunk and its bytes in the file, and whether there are more."""
    if not damage:
        return "", ""
    more = f" +{len(damage) - 1}" if len(damage) > 1 else ""
    return str(damage[0].chunk), f"{damage[0].begin}-{damage[0].end - 1}{more}"
