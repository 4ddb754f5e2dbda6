"""What the README shows is what the program takes, and does in the README's own order."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import anchor
from anchor.cli.main import COMMANDS, build_parser, main
from anchor.cli.output import STATUS_WORDS
from tests.ml.checkpoints import TWO, safetensors, write

README = (Path(__file__).parent.parent / "README.md").read_text()
SECURITY = (Path(__file__).parent.parent / "SECURITY.md").read_text()
SHOWN = re.findall(r"^(?:\$ |- run: )anchor (.*)$", README, re.MULTILINE)
ADVISED = re.findall(r"(?:^    |&& )anchor ([^&\n]*)", SECURITY, re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
TARGETS = re.findall(r"^    make (\S+)", README, re.MULTILINE)


@pytest.mark.parametrize("line", SHOWN + ADVISED)
def test_a_command_parses(line: str) -> None:
    command, *arguments = shlex.split(line, comments=True)
    if arguments != ["…"]:
        build_parser(command).parse_args(arguments)


def test_commands_are_shown() -> None:
    assert {line.split()[0] for line in ADVISED} == {"export", "import", "keygen", "keys", "validator"}
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


# What it shows, run


def find_block(language: str, heading: str, level: int = 2) -> str:
    """The first block in `language` below `heading`."""
    section = README.split(f"\n{'#' * level} {heading}\n", 1)[1]
    return section.split(f"```{language}\n", 1)[1].split("```", 1)[0]


def read_commands(heading: str, level: int = 2) -> list[list[str]]:
    """Arguments of the `anchor` commands below `heading`."""
    lines = [line[2:] for line in find_block("console", heading, level).splitlines() if line.startswith("$ ")]
    commands = [shlex.split(line, comments=True) for line in lines]
    assert all(words[0] == "anchor" for words in commands)
    return [words[1:] for words in commands]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model in it, and an empty home."""
    write(
        tmp_path / "model", {"model.safetensors": safetensors(TWO | {"layers.0.weight": TWO["layer.weight"]})}
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ANCHOR_PASSPHRASE", "of eight characters or more")
    return tmp_path


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """The result of a command that must succeed."""
    assert main([*arguments, "--json"]) == 0, arguments
    return json.loads(capsys.readouterr().out)["result"]


def test_publish_then_verify(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    genesis, publisher = "", ""
    for arguments in read_commands("Publish a model"):
        result = run([genesis if word.startswith("0x…") else word for word in arguments], capsys)
        genesis, publisher = result.get("genesis", genesis), result.get("publisher", publisher)
    facts = {"0x…:12": genesis, "ed25519:…": publisher}
    (verify,) = read_commands("Verify a model")
    assert run([facts.get(word, word) for word in verify], capsys)["evidence"]["stage"] == "production"
    code = re.sub("0x…:12|ed25519:…", lambda found: facts[found[0]], find_block("python", "Verify a model"))
    scope: dict[str, Any] = {}
    exec(code, scope)  # noqa: S102 the README's own
    assert scope["verdict"]
    assert scope["weight"].size
    (place / "model" / "stray.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"EXTRA 'stray\.json'"):
        exec(code, {})  # noqa: S102 the README's own


def test_approve_then_lose_a_key(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init, keygen, publish, staging, production, *_ = read_commands("Publish a model")
    for arguments in (init, keygen, publish, staging):
        run(arguments, capsys)
    facts: dict[str, str] = {}
    keygen, register, policy, approve = read_commands("Approvals", 3)
    facts["ed25519:…"] = run(keygen, capsys)["identity"]
    run(register, capsys)
    run([facts.get(word, word) for word in policy], capsys)
    assert main(production) == 1
    assert f"not yet approved by {facts['ed25519:…']}" in capsys.readouterr().err
    run(approve, capsys)
    run(production, capsys)
    keygen, rotate, log, revoke = read_commands("A signing key is lost or stolen", 3)
    run(keygen, capsys)
    run(rotate, capsys)
    facts["17"] = str(next(e["entry"] for e in run(log, capsys)["entries"] if e["kind"] == "publish"))
    assert run([facts.get(word, word) for word in revoke], capsys)["versions"] == ["org/name@1.0"]


def test_exit_codes_are_the_ones_listed() -> None:
    listed = re.findall(r"^\| (\d) \|", README, re.MULTILINE)
    assert [int(code) for code in listed] == sorted(STATUS_WORDS)
