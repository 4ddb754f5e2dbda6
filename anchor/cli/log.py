"""`anchor log`: what a ledger recorded, in order."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from anchor.cli.ledgers import add_last_option, add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, format_table, printable
from anchor.cli.plain import describe_keys, show_keys, show_policy

if TYPE_CHECKING:
    from anchor.consensus.containers.entries import SignedEntry
    from anchor.node.chain import Chain
    from anchor.node.records import StoredEntry

HELP = "List what was published, approved, promoted and revoked, and who may."
EXAMPLES = """
anchor log
anchor log --model acme/tiny --last 100
anchor log --json
"""
DEFAULT_LAST: Final = 20
WORDS: Final = {
    "register-publisher": "register publisher",
    "rotate-keys": "set signing keys",
    "revoke-keys": "revoke keys",
    "revoke-publisher": "revoke publisher",
    "claim-organisation": "claim organisation",
    "promote": "move to",
    "revoke-version": "revoke version",
    "set-policy": "set policy",
    "admit-validator": "admit validator",
}
"""Kinds of entries in plain words, where they are others."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger_option(parser)
    parser.add_argument("--model", metavar="ORG/NAME", help="only what is about this model")
    add_last_option(parser, "entries", DEFAULT_LAST)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Reads entries from the newest back."""
    from anchor.node.folder import open_reader

    with open_reader(get_folder(options)) as chain:
        status = chain.get_status()
        entries = _collect(chain, status.entries, options.last, options.model)
    result = {"entries_total": status.entries, "final_entries": status.final_entries, "entries": entries}
    return Outcome(_describe(entries, options.model), result)


def _collect(chain: Chain, total: int, last: int, model: str | None) -> list[dict[str, Any]]:
    """The newest `last` entries (about `model`), oldest first."""
    found: list[dict[str, Any]] = []
    stop = total
    while stop and len(found) < last:
        start = max(stop - 256, 0)
        page = [_to_result(*pair) for pair in chain.get_entries(start, stop)]
        found = [entry for entry in page if model in (None, entry.get("model"))] + found
        stop = start
    return found[-last:]


def _to_result(stored: StoredEntry, signed: SignedEntry) -> dict[str, Any]:
    from anchor.consensus.text import format_identity, format_time_exactly

    entry = signed.entry
    body = entry.body.data
    words = re.findall("[A-Z][a-z]*", type(body).__name__)
    return {
        "entry": stored.position,
        "root": stored.root,
        "slot": stored.slot,
        "time": format_time_exactly(stored.timestamp),
        "kind": "-".join(words).lower(),
        "author": format_identity(entry.author),
        "sequence": entry.sequence,
        **_to_plain(body),
    }


def _to_plain(body: Any) -> dict[str, Any]:
    """What an entry says, field by field."""
    from anchor.consensus.text import format_identity, get_stage_name

    plain: dict[str, Any] = {}
    for name, value in zip(body.fields, body.values(), strict=True):
        if name in ("model", "version", "name", "reason"):
            plain[name] = value.decode("utf-8", "backslashreplace")
        elif name.endswith("_stage"):
            plain[name] = get_stage_name(value)
        elif name == "root_key":
            plain[name] = format_identity(value)
        elif name == "keys":
            plain[name] = show_keys(value)
        elif name == "policy":
            plain |= show_policy(value)
        elif name == "admission":
            plain["validator"] = value.deposit.pubkey
        elif name not in ("participants", "signature"):
            plain[name] = value
    return plain


def _describe(entries: list[dict[str, Any]], model: str | None) -> str:
    if not entries:
        return f"Nothing is recorded of {printable(model)}." if model else "Nothing is recorded yet."
    rows = [
        (
            str(entry["entry"]),
            entry["time"][:16].replace("T", " "),
            _say_what(entry),
            printable(_say(entry)),
            entry["author"][8:16],
        )
        for entry in entries
    ]
    return format_table(("ENTRY", "TIME (UTC)", "WHAT", "OF", "BY"), rows)


def _say_what(entry: dict[str, Any]) -> str:
    """What happened, and the stage that it leads to, which no narrow table may cut off."""
    words = WORDS.get(entry["kind"], entry["kind"])
    return f"{words} {entry['to_stage']}" if "to_stage" in entry else words


def _say(entry: dict[str, Any]) -> str:
    """What an entry is about, in a few words."""
    about = "@".join([entry[name] for name in ("model", "version") if name in entry])
    about = about or entry.get("name") or entry.get("root_key", "")[8:16]
    if "keys" in entry:
        about = describe_keys(entry["keys"])
    elif "since" in entry:
        about = f"from entry {entry['since']} on"
    elif "validator" in entry:
        about = f"0x{entry['validator'].hex()[:16]}…"
    elif "approvers" in entry:
        about = f"{about}: {entry['approvals_needed']} of {len(entry['approvers'])} approve"
    return f"{about}: {entry['reason']}" if entry.get("reason") else about
