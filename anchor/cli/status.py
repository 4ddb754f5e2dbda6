"""`anchor status`: how a ledger stands, and its newest models."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from anchor.cli.ledgers import add_last_option, add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, format_table, printable
from anchor.cli.plain import keys_count, show_approvals

if TYPE_CHECKING:
    from anchor.node.chain import Chain
    from anchor.node.status import Status

HELP = "Show a ledger's finality and its newest models."
EXAMPLES = """
anchor status
anchor status --ledger /srv/models/ledger --json
"""
MAX_ROWS: Final = 10
"""Versions that are shown, the newest; --json has as many as --last asks for."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger_option(parser)
    add_last_option(parser, "versions", MAX_ROWS)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Reads the newest state."""
    from anchor.node.folder import NETWORK, open_reader
    from anchor.node.founding import read_description
    from anchor.params import LOGICAL_CLOCK

    folder = get_folder(options)
    with open_reader(folder) as chain:
        status = chain.get_status()
        total, versions = _list_versions(chain, options.last)
        is_alone = chain.genesis.clock == LOGICAL_CLOCK
    operators = 1 if is_alone else read_description(folder / NETWORK).operators
    result = _to_result(status, operators) | {"versions_total": total, "versions": versions}
    return Outcome(_describe(result, status, terminal), result)


def _list_versions(chain: Chain, last: int) -> tuple[int, list[dict[str, Any]]]:
    """How many versions there are, and the newest, newest first."""
    from anchor.consensus.text import format_time_exactly, get_stage_name

    state = chain.get_head().state
    versions = state.versions
    shown = [
        {
            "model": version.model.decode(),
            "version": version.version.decode(),
            "stage": get_stage_name(version.stage),
            "revoked": version.revoked,
            "keys_count": keys_count(state, version),
            **show_approvals(state, version),
            "manifest_root": version.manifest_root,
            "entry": version.entry,
            "published": format_time_exactly(chain.get_entry(version.entry)[0].timestamp),
        }
        for version in versions[::-1][:last]
    ]
    return len(versions), shown


def _to_result(status: Status, operators: int | None) -> dict[str, Any]:
    from anchor.consensus.text import format_checkpoint, format_time_exactly

    return {
        "name": status.name,
        "network_id": status.network_id,
        "genesis": format_checkpoint(status.genesis),
        "head": {
            "root": status.head,
            "slot": status.slot,
            "epoch": status.epoch,
            "time": format_time_exactly(status.timestamp),
        },
        "justified": format_checkpoint(status.justified),
        "finalized": format_checkpoint(status.finalized),
        "validators": status.validators,
        "operators": operators,
        "entries": status.entries,
        "final_entries": status.final_entries,
        "may_sign": status.may_sign,
    }


def _describe(result: dict[str, Any], status: Status, terminal: Terminal) -> str:
    from anchor.consensus.text import format_time

    role = "" if status.may_sign else "; a copy that only reads"
    waiting, operators = status.entries - status.final_entries, result["operators"]
    when = "until something more is recorded" if operators == 1 else "yet"
    pending = f"; the last {waiting} not final {when}" if waiting else ""
    kept = {1: "one operator", None: "several operators"}.get(operators, f"{operators} operators")
    name = terminal.paint(printable(status.name), "bold")
    lines = [
        f"ledger     {name}: {kept}, {status.validators} validators{role}",
        f"network    0x{status.network_id.hex()}",
        f"genesis    {result['genesis']}",
        f"final      {result['finalized']}",
        f"newest     slot {status.slot}, epoch {status.epoch}, {format_time(status.timestamp)}",
        f"entries    {status.entries}{pending}",
    ]
    versions = result["versions"]
    if not versions:
        return "\n".join([*lines, "", "Nothing is published yet."])
    rows = [
        (
            version["model"],
            version["version"],
            _describe_stage(version),
            version["published"][:16].replace("T", " "),
            str(version["entry"]),
        )
        for version in versions
    ]
    lines += ["", format_table(("MODEL", "VERSION", "STAGE", "PUBLISHED (UTC)", "ENTRY"), rows)]
    hidden = result["versions_total"] - len(versions)
    return "\n".join([*lines, f"… and {hidden} older"] if hidden else lines)


def _describe_stage(version: dict[str, Any]) -> str:
    """How a version stands, in a few words."""
    if version["revoked"]:
        return "revoked"
    if not version["keys_count"]:
        return "its keys revoked"
    needed, stage = version["approvals_needed"], str(version["stage"])
    if not needed or stage not in ("development", "staging"):
        return stage
    return f"{stage}, {len(version['approved_by'])} of {needed} approved"
