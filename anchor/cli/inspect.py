"""`anchor inspect`: what a checkpoint holds, and whether training could resume from it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from anchor.cli.output import Outcome, Terminal, format_bytes, format_count, format_table, printable

if TYPE_CHECKING:
    from anchor.ml.inspect import Inspection

HELP = "Show what a checkpoint holds, and whether training could resume from it."
EXAMPLES = """
anchor inspect model/
anchor inspect checkpoint-500/ --json
"""
MAX_ROWS: Final = 24
"""Tensors that the table shows; --json has all of them."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("path", help="a checkpoint: a file, a folder, or a snapshot in a Hugging Face cache")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Reads headers only; nothing is hashed."""
    from anchor.cli.hash import describe_findings, exit_code
    from anchor.ml.inspect import inspect_model
    from anchor.ml.source import open_source
    from anchor.ml.survey import survey

    with open_source(options.path) as source:
        seen = inspect_model(source, survey(source))
    lines = [*_describe(seen, terminal), *describe_findings(seen.findings, terminal)]
    return Outcome("\n".join(lines), seen.to_json(), exit_code(seen.findings))


def _describe(seen: Inspection, terminal: Terminal) -> list[str]:
    dtypes = ", ".join(f"{dtype} {format_bytes(count)}" for dtype, count in seen.bytes_by_dtype.items())
    amount = f"{format_count(seen.parameters, 'parameter')} in {format_count(len(seen.tensors), 'tensor')}"
    lines = [
        terminal.paint(seen.kind, "bold"),
        f"{amount}: {dtypes or 'none that can be read'}",
        "",
    ]
    lines += [_describe_part(name, where, what, terminal) for name, where, what in seen.parts]
    lines += ["", _table(seen)] if seen.tensors else []
    if len(seen.tensors) > MAX_ROWS:
        lines.append(f"… and {len(seen.tensors) - MAX_ROWS} more; --json lists all")
    return lines


def _describe_part(name: str, where: str, what: str, terminal: Terminal) -> str:
    mark = terminal.paint("yes", "green") if where else terminal.paint("no ", "yellow")
    detail = f" ({what})" if what else ""
    return f"{mark}  {name:<14}  {printable(where + detail)}".rstrip()


def _table(seen: Inspection) -> str:
    from anchor.ml.diff import full_name

    rows = [
        [
            printable(full_name(row.component, row.tensor.name)),
            row.tensor.dtype,
            "x".join(map(str, row.tensor.shape)) or "scalar",
            format_bytes(row.tensor.length),
        ]
        for row in seen.tensors[:MAX_ROWS]
    ]
    return format_table(["tensor", "dtype", "shape", "size"], rows)
