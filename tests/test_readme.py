"""What the README shows is what the program takes: every command parses, every Python name is there."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

import anchor
from anchor.cli.main import COMMANDS, build_parser

README = (Path(__file__).parent.parent / "README.md").read_text()
SHOWN = re.findall(r"^(?:\$ |- run: )anchor (.*)$", README, re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
TARGETS = re.findall(r"^    make (\S+)", README, re.MULTILINE)


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_parses(line: str) -> None:
    command, *arguments = shlex.split(line, comments=True)
    if arguments != ["…"]:
        build_parser(command).parse_args(arguments)


def test_commands_are_shown() -> None:
    shown = {line.split()[0] for line in SHOWN}
    assert shown >= {"verify", "init", "keygen", "publish", "promote", "bundle", "export", "vectors"}
    assert shown <= set(COMMANDS)


@pytest.mark.parametrize("text", PYTHON)
def test_python_uses_what_there_is(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "anchor":
            assert callable(getattr(anchor, node.attr))


def test_make_targets_exist() -> None:
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    assert TARGETS
    for target in TARGETS:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parent.parent / target).exists(), target
