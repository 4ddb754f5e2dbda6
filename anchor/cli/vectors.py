"""`anchor vectors`: the consensus specification's test vectors, run on this package."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchor.cli.output import Outcome, Terminal, format_table, printable
from anchor.errors import Misuse

if TYPE_CHECKING:
    from anchor.consensus.vectors.runner import Result

HELP = """\
Run the consensus specification's test vectors, and say which passed.

PATH is a folder of the official layout, at any height: the whole set, a preset,
one case. Exit code 0: all passed. 1: a case failed, or one is of a kind that is
not supported.
"""
EXAMPLES = """
anchor vectors consensus-spec-tests/tests --jobs 2
anchor vectors tests/minimal/altair --filter operations/attestation
anchor vectors tests --unsupported-ok networking
"""
STATUSES = ("passed", "failed", "unsupported")
SHOWN_FAILURES = 50
"""Failures listed in words; --json lists all."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="a folder of vectors")
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="only cases with this in PRESET/FORK/RUNNER/HANDLER/…"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes to run on (default: 1)")
    parser.add_argument(
        "--unsupported-ok",
        action="append",
        default=[],
        metavar="NAME",
        help="a RUNNER or RUNNER/HANDLER that may be unsupported; give it once for each",
    )


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Runs the cases; counts, and lists what failed."""
    from anchor.consensus.vectors.cases import find_cases
    from anchor.consensus.vectors.runner import run_cases

    if options.jobs < 1:
        raise Misuse(f"Cases run on at least one process, not {options.jobs}.")
    cases = find_cases(options.path, lambda case: options.filter in str(case))
    sizes = [case.get_size() for case in cases]
    results: list[Result] = []
    with terminal.progress("vectors", sum(sizes)) as advance:
        for result, size in zip(run_cases(cases, options.jobs), sizes, strict=True):
            results.append(result)
            advance(size)
    return _summarize(results, options.unsupported_ok)


def _summarize(results: list[Result], unsupported_ok: list[str]) -> Outcome:
    failures = [result for result in results if result.status == "failed"]
    counts = Counter[str](result.status for result in results)
    refused = [result for result in results if _is_refused(result, unsupported_ok)]
    lines = [_format_table(results), ""]
    lines += [_format_failure(result) for result in failures[:SHOWN_FAILURES]]
    if len(failures) > SHOWN_FAILURES:
        lines.append(f"… and {len(failures) - SHOWN_FAILURES} more failures; --json lists all")
    lines.append(", ".join([f"{counts[status]} {status}" for status in STATUSES]))
    return Outcome("\n".join(lines), _to_json(results, failures), status=1 if failures or refused else 0)


def _is_refused(result: Result, unsupported_ok: list[str]) -> bool:
    """Whether a case is unsupported without leave."""
    names = {result.case.runner, f"{result.case.runner}/{result.case.handler}"}
    return result.status == "unsupported" and not names & set(unsupported_ok)


def _count(results: list[Result]) -> dict[tuple[str, ...], Counter[str]]:
    """How the cases of each preset, fork, runner and handler went."""
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for result in results:
        case = result.case
        place = (case.preset, case.fork, case.runner, case.handler)
        counts.setdefault(place, Counter())[result.status] += 1
    return counts


def _format_table(results: list[Result]) -> str:
    rows = [
        [f"{preset}/{fork}", f"{runner}/{handler}", *[str(counter[status]) for status in STATUSES]]
        for (preset, fork, runner, handler), counter in _count(results).items()
    ]
    cells = [[printable(cell) for cell in row] for row in rows]
    return format_table(["fork", "handler", *STATUSES], cells)


def _format_failure(result: Result) -> str:
    return printable(f"FAILED {result.case}: {result.difference}")


def _to_json(results: list[Result], failures: list[Result]) -> dict[str, Any]:
    names = ("preset", "fork", "runner", "handler")
    return {
        **{status: sum(result.status == status for result in results) for status in STATUSES},
        "handlers": [
            dict(zip(names, place, strict=True)) | {status: counter[status] for status in STATUSES}
            for place, counter in _count(results).items()
        ],
        "failures": [
            {"case": str(result.case), "path": found.path, "expected": found.expected, "got": found.got}
            for result in failures
            if (found := result.difference) is not None
        ],
    }
