"""`anchor hash`: a checkpoint's roots, and its manifest where it is asked for."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anchor.cli.output import Outcome, Terminal, format_bytes, format_count, printable

if TYPE_CHECKING:
    from anchor.ml.manifest import Manifest
    from anchor.ml.report import Finding
    from anchor.ml.survey import Survey

HELP = "Hash a checkpoint: the roots of its weights and of its files."
EXAMPLES = """
anchor hash model/
anchor hash model.safetensors --json
anchor hash model/ --lineage lineage.json --manifest model.manifest
"""
MAX_LINEAGE_BYTES: Final = 1 << 22


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("path", help="a checkpoint: a file, a folder, or a snapshot in a Hugging Face cache")
    parser.add_argument("--lineage", metavar="FILE", help="JSON that tells where the model comes from")
    parser.add_argument("--manifest", metavar="FILE", help="write the manifest there, in SSZ")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Hashes, and prints the three roots."""
    from anchor.files import write_new
    from anchor.ml.manifest import encode_manifest

    found, manifest = hash_model(options.path, terminal, lineage=options.lineage)
    if options.manifest:
        write_new(Path(options.manifest), encode_manifest(manifest))
    result = _summary(options.path, manifest, found)
    return Outcome(_words(result, found, terminal), result, exit_code(found.findings))


def hash_model(path: str, terminal: Terminal, *, lineage: str | None = None) -> tuple[Survey, Manifest]:
    """The survey and the manifest of the checkpoint at `path`, with a bar while it is hashed."""
    from anchor.files import read_bounded
    from anchor.ml.build import build_manifest
    from anchor.ml.lineage_json import parse_lineage
    from anchor.ml.source import open_source
    from anchor.ml.survey import survey

    claimed = parse_lineage(read_bounded(Path(lineage), MAX_LINEAGE_BYTES, "a lineage")) if lineage else None
    with open_source(path) as source:
        found = survey(source)
        with terminal.progress("hashing", sum(file.size for file in found.files)) as progress:
            manifest = build_manifest(source, lineage=claimed, found=found, progress=progress)
    return found, manifest


def exit_code(findings: Iterable[Finding]) -> int:
    """What findings about a checkpoint amount to: 0, 4 for something missing, 1 for anything worse."""
    from anchor.ml.report import Answer, worst

    answer = worst(finding.answer for finding in findings if finding.answer)
    return {Answer.OK: 0, Answer.UNSUPPORTED: 0, Answer.MISSING: 4}.get(answer, 1)


def describe_findings(findings: Iterable[Finding], terminal: Terminal) -> list[str]:
    """A line for each finding."""
    lines = []
    for finding in findings:
        word = terminal.paint(finding.answer or "note", "yellow" if finding.answer else "dim")
        names = ", ".join(finding.tensors[:4]) + (", …" if len(finding.tensors) > 4 else "")
        tail = f" [{printable(names)}]" if names else ""
        lines.append(f"{word}  {printable(finding.path)}: {printable(finding.what)}{tail}")
    return lines


def _summary(path: str, manifest: Manifest, found: Survey) -> dict[str, object]:
    from anchor.ml.manifest import files_root, manifest_root, weights_root
    from anchor.ml.report import finding_json

    return {
        "path": path,
        "manifest_root": f"0x{manifest_root(manifest).hex()}",
        "weights_root": f"0x{weights_root(manifest).hex()}",
        "files_root": f"0x{files_root(manifest).hex()}",
        "tensors": len(manifest.weights),
        "files": len(manifest.files),
        "weights_bytes": sum(tensor.length for tensor in manifest.weights),
        "bytes": sum(file.size for file in manifest.files),
        "ignored": list(found.listing.ignored),
        "findings": [finding_json(finding) for finding in found.findings],
    }


def _words(result: dict[str, object], found: Survey, terminal: Terminal) -> str:
    tensors, weights_bytes = _number(result["tensors"]), _number(result["weights_bytes"])
    weights = f"{format_count(tensors, 'tensor')}, {format_bytes(weights_bytes)}"
    files = f"{format_count(_number(result['files']), 'file')}, {format_bytes(_number(result['bytes']))}"
    lines = [
        f"weights   {result['weights_root']}",
        f"          {weights}",
        f"files     {result['files_root']}",
        f"          {files}",
        f"manifest  {terminal.paint(str(result['manifest_root']), 'bold')}",
    ]
    if found.listing.ignored:
        lines.append(f"ignored   {printable(', '.join(found.listing.ignored))}")
    return "\n".join([*lines, *describe_findings(found.findings, terminal)])


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
