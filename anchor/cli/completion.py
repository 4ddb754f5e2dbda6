"""`anchor completion`: a script that completes commands and options in a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from shlex import quote
from typing import NamedTuple

from anchor.cli.output import Outcome, Terminal

HELP = "Print a completion script for your shell."
EXAMPLES = """
anchor completion bash > ~/.local/share/bash-completion/completions/anchor
anchor completion zsh > ~/.zfunc/_anchor
anchor completion fish > ~/.config/fish/completions/anchor.fish
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell to complete in")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Writes the script from the parsers themselves."""
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    script = writers[options.shell](_collect_words())
    return Outcome(text=script, result={"shell": options.shell, "script": script})


class Words(NamedTuple):
    """What can be written after a command."""

    options: list[str]
    """Long ones."""
    choices: list[str]
    """Of its own arguments."""
    values: dict[str, list[str]]
    """Of options that choose from a few words."""


def _collect_words() -> dict[str, Words]:
    """The words of every command, by its name."""
    from anchor.cli.main import COMMANDS, build_parser

    found = {}
    for name in COMMANDS:
        words = Words([], [], {})
        for action in build_parser(name)._actions:
            choices = [str(choice) for choice in action.choices or ()]
            long = [word for word in action.option_strings if word.startswith("--") and word != "--debug"]
            words.options.extend(long)
            if not action.option_strings:
                words.choices.extend(choices)
            elif choices:
                words.values.update(dict.fromkeys(long, choices))
        found[name] = words
    return found


def _bash(commands: dict[str, Words]) -> str:
    cases = "\n".join(
        [
            f'    {name}) words="{" ".join(words.options)}" choices="{" ".join(words.choices)}" ;;'
            for name, words in commands.items()
        ]
    )
    values = "\n".join(
        [
            f'    "{name} {option}") choices="{" ".join(choices)}" ;;'
            for name, words in commands.items()
            for option, choices in words.values.items()
        ]
    )
    return f"""\
_anchor() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words="" choices=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD - 1]}}" in
{values}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$choices" -- "$current")) ;;
  esac
}}
complete -o default -F _anchor anchor"""


def _zsh(commands: dict[str, Words]) -> str:
    return f"#compdef anchor\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: dict[str, Words]) -> str:
    from anchor.cli.main import COMMANDS

    top = "complete -c anchor -n __fish_use_subcommand"
    lines = [f"{top} -l help", f"{top} -l version"]
    for name, words in commands.items():
        below = f"complete -c anchor -n '__fish_seen_subcommand_from {name}'"
        lines.append(f"{top} -a {name} -d {quote(COMMANDS[name])}")
        for option in words.options:
            values = f" -x -a '{' '.join(words.values[option])}'" if option in words.values else ""
            lines.append(f"{below} -l {option[2:]}{values}")
        lines += [f"{below} -a '{' '.join(words.choices)}'"] if words.choices else []
    return "\n".join(lines)
