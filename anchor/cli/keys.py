"""`anchor keys`: who may sign in a publisher's name, on a ledger."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from anchor.cli.keygen import root_file
from anchor.cli.ledgers import add_place_options, look, parse_position, unlock
from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.plain import describe_keys, keys_count, show_publisher
from anchor.cli.secrets import add_passphrase_options, add_root_key_options
from anchor.errors import Misuse

if TYPE_CHECKING:
    from anchor.cli.recording import Said
    from anchor.node.chain import State

HELP = """\
Say who may sign in a publisher's name, with the publisher's root key.

list      publishers, and from which entry to which each set of keys counts
register  a publisher who has yet to publish here: an approver, say
rotate    from now on --key signs; what the keys before it signed still counts
revoke    what the keys valid at entry --since signed, there or later, counts
          no more; with --everything, nothing of this publisher's does, for good
"""
EXAMPLES = """
anchor keygen alice-2.key --root-key alice.key.root
anchor keys rotate --key alice-2.key --root-key alice.key.root
anchor keys revoke --since 17 --reason stolen --root-key alice.key.root
anchor keys register --key bob.key
anchor keys list
"""
TAKES: Final = {
    "list": set[str](),
    "register": {"key", "root_key"},
    "rotate": {"key", "root_key"},
    "revoke": {"root_key", "since", "reason", "everything"},
}
NEEDS: Final = {"register": ("key",), "rotate": ("key", "root_key"), "revoke": ("since", "root_key")}
MAX_NAMED: Final = 10
"""Versions that are named one by one; --json has all."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("action", choices=list(TAKES), help="what to do")
    parser.add_argument("--key", metavar="FILE", help="the signing key to set (anchor keygen)")
    add_root_key_options(parser, "the publisher's root key (register: default the key's FILE.root)")
    parser.add_argument(
        "--since", metavar="ENTRY", type=parse_position, help="the first entry that counts no more"
    )
    parser.add_argument("--reason", help="why, for everyone to read")
    parser.add_argument(
        "--everything", action="store_true", default=None, help="the root key was stolen; no way back"
    )
    add_passphrase_options(parser)
    add_place_options(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Reads keys, or records what changes them."""
    _require_options(options)
    actions = {"list": _list, "register": _register, "rotate": _rotate, "revoke": _revoke}
    return actions[options.action](options, terminal)


def _require_options(options: Namespace) -> None:
    action, fix = options.action, "See: anchor keys --help"
    for name in set().union(*TAKES.values()) - TAKES[action]:
        if getattr(options, name) is not None:
            raise Misuse(f"`anchor keys {action}` takes no {_spell(name)}.", fix=fix)
    for name in NEEDS.get(action, ()):
        if getattr(options, name) is None:
            raise Misuse(f"`anchor keys {action}` needs {_spell(name)}.", fix=fix)


def _spell(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# What changes them


def _register(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.publishing import write_registration

    root = options.root_key or str(root_file(options.key))
    ledger, author = unlock(options, terminal, key=options.key, root=root)
    said = ledger.record(lambda chain: write_registration(chain, author, ledger.administrator))
    result = _to_result(said, author.identity)
    name = terminal.paint(result["publisher"], "bold")
    return Outcome(f"{name} is registered, and {printable(options.key)} signs for it; that is final.", result)


def _rotate(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.publishing import write_rotation

    ledger, author = unlock(options, terminal, key=options.key, root=options.root_key)
    said = ledger.record(lambda chain: [write_rotation(chain, author)])
    result = _to_result(said, author.identity)
    first = result["key_sets"][-1]["valid_from"]
    text = (
        f"{printable(options.key)} signs from entry {first} on, and no other key; that is final.\n"
        "What earlier keys signed before still counts. If a thief signed with one of\n"
        "them, take back what came from the thief's first entry on:\n\n"
        f"  anchor keys revoke --since ENTRY --root-key {printable(options.root_key)}"
    )
    return Outcome(text, result)


def _revoke(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.publishing import write_key_revocation, write_publisher_revocation

    since, reason = options.since, options.reason or ""
    write = write_publisher_revocation if options.everything else write_key_revocation
    ledger, author = unlock(options, terminal, root=options.root_key)
    said = ledger.record(lambda chain: [write(chain, author, since, reason)])
    result = _to_result(said, author.identity)
    result |= {"since": since, "reason": reason, "versions": _list_fallen(said.state, author.identity)}
    return Outcome(_describe_revocation(result, bool(options.everything)), result)


def _to_result(said: Said, identity: bytes) -> dict[str, Any]:
    """How the publisher stands, and where that was recorded."""
    from anchor.consensus.text import format_checkpoint

    index = [known.root_key for known in said.state.publishers].index(identity)
    shown = show_publisher(said.state, index)
    return {**shown, "entry": said.positions[-1], "final": format_checkpoint(said.final)}


def _list_fallen(state: State, identity: bytes) -> list[str]:
    """Versions of the publisher whose keys count no more where they were published."""
    return [
        f"{version.model.decode()}@{version.version.decode()}"
        for version in state.versions
        if state.publishers[version.publisher].root_key == identity and not keys_count(state, version)
    ]


def _describe_revocation(result: dict[str, Any], everything: bool) -> str:
    whose = "this publisher" if everything else "the keys that were valid then"
    lines = [f"From entry {result['since']} on, nothing by {whose} counts; that is final."]
    if fallen := result["versions"]:
        named = [f"  {printable(name)}" for name in fallen[-MAX_NAMED:]]
        lines += ["What was published so no longer verifies:", "", *named]
        lines += [f"  … and {len(fallen) - MAX_NAMED} older"] if len(fallen) > MAX_NAMED else []
        lines += ["", "Publish what is yours of it again, as new versions."] if not everything else [""]
    if not everything:
        lines.append("Stages that those keys set, and versions that they revoked, stay: see anchor log.")
        if result["key_sets"][-1]["valid_until"] is not None:
            lines.append("There is no signing key now. Set one with: anchor keys rotate")
    lines += ["Bundles made before do not show it. Hand out the new checkpoint, which does:", ""]
    return "\n".join([*lines, f"  {result['final']}"])


# What they are


def _list(options: Namespace, terminal: Terminal) -> Outcome:
    with look(options, terminal) as chain:
        state = chain.get_head().state
        publishers = [show_publisher(state, index) for index in range(len(state.publishers))]
    text = "\n\n".join([_describe(publisher, terminal) for publisher in publishers])
    return Outcome(text or "No publisher is registered yet.", {"publishers": publishers})


def _describe(publisher: dict[str, Any], terminal: Terminal) -> str:
    lines = [terminal.paint(publisher["publisher"], "bold")]
    if publisher["organisations"]:
        lines.append(f"  publishes      {', '.join(publisher['organisations'])}")
    lines += [
        f"  {_describe_range(keys):<13}  {describe_keys(keys['keys'])}" for keys in publisher["key_sets"]
    ]
    if not publisher["key_sets"]:
        lines.append("  no signing keys yet")
    if publisher["revoked_from"] is not None:
        lines.append(f"  revoked from entry {publisher['revoked_from']} on")
    return "\n".join(lines)


def _describe_range(keys: dict[str, Any]) -> str:
    first, stop = keys["valid_from"], keys["valid_until"]
    if stop is None:
        return f"entry {first} on"
    if stop <= first:
        return "no entry"
    return f"entry {first} to {stop - 1}" if stop > first + 1 else f"entry {first}"
