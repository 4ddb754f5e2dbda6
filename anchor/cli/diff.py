"""`anchor diff`: two checkpoints, tensor by tensor and file by file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anchor.cli.output import Outcome, Terminal, format_table, printable

if TYPE_CHECKING:
    from anchor.ml.diff import Change, Difference
    from anchor.ml.manifest import Manifest

HELP = "Compare two checkpoints, tensor by tensor and file by file."
EXAMPLES = """
anchor diff checkpoint-100/ checkpoint-200/
anchor diff model.manifest downloads/model/
"""
MAX_ROWS: Final = 40
"""Differences that a table shows; --json has all of them."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("one", help="a checkpoint, or a manifest that `anchor hash --manifest` wrote")
    parser.add_argument("other", help="what to compare it with")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Hashes whatever is no manifest yet, and compares. Exit 1 when anything differs."""
    from anchor.ml.diff import compare_manifests

    difference = compare_manifests(_load(options.one, terminal), _load(options.other, terminal))
    text = "\n".join(_describe(difference, terminal))
    return Outcome(text, difference.to_json(), 0 if difference.is_equal else 1)


def _load(path: str, terminal: Terminal) -> Manifest:
    from anchor.cli.hash import hash_model
    from anchor.errors import MalformedFile, MalformedSSZ
    from anchor.files import read_bounded
    from anchor.ml.manifest import MAX_MANIFEST_BYTES, decode_manifest
    from anchor.ml.rules import verify_manifest

    given = Path(path)
    if not _is_manifest(given):
        return hash_model(path, terminal)[1]
    try:
        manifest = decode_manifest(read_bounded(given, MAX_MANIFEST_BYTES, "a manifest"))
    except MalformedSSZ as error:
        raise MalformedFile(f"{path} is no whole manifest: {error.what}", cause="manifest") from error
    verify_manifest(manifest)
    return manifest


def _is_manifest(path: Path) -> bool:
    from anchor.files import open_regular
    from anchor.ml.manifest import MANIFEST_HEAD

    if not path.is_file():
        return False
    with open_regular(path) as file:
        return file.read(len(MANIFEST_HEAD)) == MANIFEST_HEAD


def _describe(difference: Difference, terminal: Terminal) -> list[str]:
    lines = []
    for what, is_equal in (
        ("weights", difference.weights_equal),
        ("files", difference.files_equal),
        ("lineage", difference.lineage_equal),
    ):
        word = terminal.paint("same", "green") if is_equal else terminal.paint("different", "yellow")
        lines.append(f"{what:<8} {word}")
    for what, changes in (("tensor", difference.tensors), ("file", difference.files)):
        if changes:
            lines += ["", _table(what, changes)]
        if len(changes) > MAX_ROWS:
            lines.append(f"… and {len(changes) - MAX_ROWS} more; --json lists all")
    if unread := [printable(path) for path in difference.unread[:MAX_ROWS]]:
        lines += ["", f"Not compared tensor by tensor, for want of a reader: {', '.join(unread)}"]
    return lines


def _table(what: str, changes: Iterable[Change]) -> str:
    rows = [
        [change.kind, printable(change.name), printable(change.what)] for change in list(changes)[:MAX_ROWS]
    ]
    return format_table(["", what, "difference"], rows)
