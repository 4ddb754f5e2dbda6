"""The command line's frame: help, envelope, exit codes, tables, what reaches a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from anchor import errors
from anchor.cli.main import COMMANDS, build_parser, main
from anchor.cli.output import Stream, Terminal, format_bytes, format_table, printable

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_and_has_an_example(command: str) -> None:
    text = build_parser(command).format_help()
    assert f"anchor {command}" in text.split("examples:")[1]
    for line in text.splitlines():
        assert len(line) <= 80, line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command: str) -> None:
    for action in build_parser(command)._actions:
        assert action.help, action.dest


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_parse(command: str) -> None:
    parser = build_parser(command)
    examples = (parser.epilog or "").replace("\\\n", " ")
    for line in re.findall(r"anchor (\S+) ?(.*)", examples):
        if line[0] == command:
            words = shlex.split(re.split(r"\s+[|>]", line[1])[0], comments=True)
            parser.parse_args(words)


def test_program_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(f"\n  {command} " in text for command in COMMANDS)
    assert max(map(len, text.splitlines())) <= 80


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: anchor" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["completion"], ["completion", "tcsh"], ["--nonsense"]])
def test_wrong_usage_is_a_sentence_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "--help" in output.err
    assert "Traceback" not in output.err


def test_wrong_usage_has_an_envelope(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh", "--json"]) == 2
    envelope = json.loads(capsys.readouterr().out)
    assert set(envelope) == {"schema", "command", "status", "result", "error"}
    assert envelope["status"] == "usage"
    assert envelope["error"]["kind"] == "Misuse"


def test_version_names_the_paths_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.match(r"anchor \d+\.\d+\.\d+ \(hashing: .+, signatures: .+\)", capsys.readouterr().out)
    assert main(["--version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"].keys() == {"version", "hashing", "signatures"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)


def test_bash_completion_completes() -> None:
    script = subprocess.run(
        [sys.executable, "-m", "anchor.cli.main", "completion", "bash"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    for words, expected in (
        ("ver", "verify"),
        ("verify m --tr", "--trust"),
        ("trust re", "remove"),
        ("keys rev", "revoke"),
        ("promote a/b@1 --to sta", "staging"),
        ("approve a/b@1 --to prod", "production"),
        ("verify m --require-stage arch", "archived"),
    ):
        place = len(words.split())
        asked = f"{script}\nCOMP_WORDS=(anchor {words}); COMP_CWORD={place}; _anchor; echo ${{COMPREPLY[*]}}"
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [expected]


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"]])
def test_a_terminal_without_our_signs_is_no_error(arguments: list[str]) -> None:
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "anchor.cli.main", *arguments],
        capture_output=True, text=True, cwd=ROOT, env=narrow, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2026" in done.stdout


@pytest.mark.parametrize(("value", "colored"), [("1", False), ("", True)])
def test_no_color_counts_where_it_is_not_empty(
    value: str, colored: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    terminal = Terminal()
    monkeypatch.setattr(terminal.out, "isatty", lambda: True)
    assert ("\x1b" in terminal.paint("words", "red")) is colored


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m anchor.cli.main completion fish | head -c 10; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.endswith("0\n")
    assert done.stderr == ""


def run_in_shell(command: str) -> subprocess.CompletedProcess[str]:
    anchor = f"{sys.executable} -m anchor.cli.main"
    return subprocess.run(
        ["bash", "-c", command.replace("anchor", anchor, 1)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_a_closed_pipe_does_not_hide_how_it_ended(tmp_path: Path) -> None:
    for name, data in (("a", b"1"), ("b", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.bin").write_bytes(data)
    done = run_in_shell(f"anchor diff {tmp_path}/a {tmp_path}/b | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_who_stops_listening_stops_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        stream = Stream(pipe)
        assert [stream.write("epoch 2"), stream.write(" is final")] == ["", ""]


@pytest.mark.parametrize("option", ["", "--json"])
def test_a_result_that_cannot_be_written_is_no_success(option: str) -> None:
    done = run_in_shell(f"anchor completion fish {option} > /dev/full")
    assert done.returncode == 3
    assert done.stderr == "the result cannot be written: no space left on device\n"


def test_every_terminal_can_show_every_text() -> None:
    done = run_in_shell("COLUMNS=wide PYTHONIOENCODING=ascii anchor --help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0x\\u2026" in done.stdout


ROOT_OF_NOTHING = "00" * 32


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "x", "--trust", f"{ROOT_OF_NOTHING}:0", "--model", "\udcff/x"],
        ["verify", "x", "--trust", f"{ROOT_OF_NOTHING}:0", "--model", "a/x@\udcff"],
        ["verify", "x", "--trust", f"{ROOT_OF_NOTHING}:{'0' * 5000}"],
        ["verify", "x", "--trust", f"{ROOT_OF_NOTHING}:{1 << 64}"],
        ["trust", "add", "lab", f"{ROOT_OF_NOTHING}:0", "--publisher", f"\udcff=ed25519:{'66' * 32}"],
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"anchor {words[0]}: ")


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\u202eb", "line\nbreak", "\x07bell", "tab\t"])
def test_nothing_from_outside_steers_the_terminal(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown != text


def test_tables_fit() -> None:
    table = format_table(["name", "bytes"], [["x" * 200, "1"], ["short", "12345"]])
    assert all(len(line) <= 80 for line in table.splitlines())
    assert "…" in table
    assert table.splitlines()[1].endswith("    1")


def test_sizes_are_for_people() -> None:
    assert [format_bytes(n) for n in (0, 999, 90_868_376)] == ["0 B", "999 B", "90.9 MB"]


def test_progress_is_silent_off_a_terminal() -> None:
    terminal, written = Terminal(), io.StringIO()
    terminal.err = Stream(written)
    with terminal.progress("hashing", 10) as advance:
        advance(10)
    assert written.getvalue() == ""


def test_the_drawn_error_tree_is_the_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    defined = [
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.AnchorError) and name != "AnchorError"
    ]
    assert sorted(drawn) == sorted(defined)


@pytest.mark.parametrize("arguments", [["init"], ["status", "--ledger"], ["keygen"]])
def test_a_name_that_no_file_can_have_is_told(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, 5000 * "a"]) == 3
    assert "file name too long" in capsys.readouterr().err


def test_no_command_reaches_the_terminal_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err
