"""`anchor completion`: a script that completes commands and options in a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

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
    script = writers[options.shell](_collect_options(), _collect_choices())
    return Outcome(text=script, result={"shell": options.shell, "script": script})


def _collect_options() -> dict[str, list[str]]:
    """The long options of every command."""
    from anchor.cli.main import COMMANDS, build_parser

    return {
        name: [
            option
            for action in build_parser(name)._actions
            for option in action.option_strings
            if option.startswith("--") and option != "--debug"
        ]
        for name in COMMANDS
    }


def _collect_choices() -> dict[str, list[str]]:
    """Words that a command's own arguments choose from."""
    from anchor.cli.main import COMMANDS, build_parser

    return {
        name: [str(choice) for action in build_parser(name)._actions for choice in action.choices or ()]
        for name in COMMANDS
    }


def _bash(options: dict[str, list[str]], choices: dict[str, list[str]]) -> str:
    cases = "\n".join(
        [
            f'    {name}) words="{" ".join(words)}" choices="{" ".join(choices[name])}" ;;'
            for name, words in options.items()
        ]
    )
    return f"""\
_anchor() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words="" choices=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(options)} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$choices" -- "$current")) ;;
  esac
}}
complete -o default -F _anchor anchor"""


def _zsh(options: dict[str, list[str]], choices: dict[str, list[str]]) -> str:
    return f"#compdef anchor\nautoload -U +X bashcompinit && bashcompinit\n{_bash(options, choices)}"


def _fish(options: dict[str, list[str]], choices: dict[str, list[str]]) -> str:
    from anchor.cli.main import COMMANDS

    top = "complete -c anchor -n __fish_use_subcommand"
    lines = [f"{top} -l help", f"{top} -l version"]
    for name, words in options.items():
        below = f"complete -c anchor -n '__fish_seen_subcommand_from {name}'"
        lines.append(f"{top} -a {name} -d '{COMMANDS[name]}'")
        lines += [f"{below} -l {word[2:]}" for word in words]
        lines += [f"{below} -a '{' '.join(choices[name])}'"] if choices[name] else []
    return "\n".join(lines)
