"""JSON from outside: bounded before it is parsed, whatever the interpreter allows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.errors import MalformedFile
from anchor.ml.formats.strict_json import MAX_DEPTH, parse


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"\\\\":0,"\\"":['])
def test_nesting_is_bounded_whatever_the_recursion_limit(opening: str) -> None:
    code = "import sys; sys.setrecursionlimit(1 << 30); from anchor.ml.formats.strict_json import parse"
    command = [sys.executable, "-c", f"{code}; parse({opening!r}.encode() * (1 << 20), 'It')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"MalformedFile: It is nested more than {MAX_DEPTH} deep." in done.stderr


def test_the_deepest_that_is_taken() -> None:
    parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "It")
    with pytest.raises(MalformedFile, match="nested"):
        parse(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "It")


@given(st.lists(st.text('[]{}\\"\u00e9'), max_size=200))
def test_brackets_in_strings_do_not_nest(texts: list[str]) -> None:
    value = [*texts, "[" * 100, '"' + "{" * 100, "\\"]
    assert parse(json.dumps(value).encode(), "It") == value
