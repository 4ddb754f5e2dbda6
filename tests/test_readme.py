"""The README's commands and its Python do what they say, in its own order."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from anchor.cli.main import main
from tests.ml.checkpoints import TWO, safetensors, write

README = (Path(__file__).parent.parent / "README.md").read_text()


def find_block(language: str, heading: str) -> str:
    """The first block in `language` below `heading`."""
    section = README.split(f"\n## {heading}\n", 1)[1]
    return section.split(f"```{language}\n", 1)[1].split("```", 1)[0]


def read_commands(heading: str) -> list[list[str]]:
    """Arguments of the `anchor` commands below `heading`."""
    lines = [line[2:] for line in find_block("console", heading).splitlines() if line.startswith("$ ")]
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


def test_exit_codes_are_the_ones_listed() -> None:
    from anchor.cli.output import STATUS_WORDS

    listed = re.findall(r"^\| (\d) \|", README, re.MULTILINE)
    assert [int(code) for code in listed] == sorted(STATUS_WORDS)
