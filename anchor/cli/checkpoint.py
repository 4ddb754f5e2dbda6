"""`anchor checkpoint`: the checkpoints in the code, and the next one from a chain that is final here."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchor.cli.ledgers import add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal, printable
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.hardcoded import TABLES, RootAt, Table, get_table, look_back, verify_growth
from anchor.consensus.text import format_checkpoint
from anchor.errors import Misuse

HELP = """\
Show the checkpoints that this release carries, or propose the next one for its
code, from the finalised chain of a ledger or of a folder of `anchor sync`.

No branch that conflicts with one of them is ever adopted, whatever its weight.
A table only grows: what conflicts with it, or is no later, is not proposed.
"""
EXAMPLES = """
anchor checkpoint list
anchor checkpoint propose --ledger ledger/
anchor checkpoint propose --data anchor-sync
"""
CODE, FROZEN = "anchor/consensus/hardcoded.py", "tests/consensus/test_hardcoded.py"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a table would gain."""

    table: Table
    """As it is; without entries where the network has none yet."""
    checkpoint: Checkpoint
    entries: Mapping[int, bytes]
    """The checkpoint; for a network's first entry, after the genesis."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("action", choices=["list", "propose"], help="list what is in the code, or propose")
    add_ledger_option(parser)
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of `anchor sync`, not a ledger")


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Lists, or proposes."""
    if options.action == "list":
        if options.ledger is not None or options.data is not None:
            raise Misuse("`anchor checkpoint list` shows what is in the code.", fix="Leave the folder out.")
        return _list()
    if options.ledger is not None and options.data is not None:
        raise Misuse("A proposal is of one chain.", fix="Give --ledger or --data.")
    return _show(_propose_of_folder(options.data) if options.data else _propose_of_ledger(options))


def _list() -> Outcome:
    lines = []
    for table in TABLES:
        lines.append(f"{table.name}  0x{table.network_id.hex()}")
        lines += [f"  {position:>9,}  0x{root.hex()}" for position, root in table.entries.items()]
    found = {
        table.name: {
            "network_id": table.network_id,
            "entries": {str(position): root for position, root in table.entries.items()},
        }
        for table in TABLES
    }
    return Outcome("\n".join(lines), found)


def _propose_of_ledger(options: Namespace) -> Proposal:
    """The newest final checkpoint of a ledger: every entry's epoch is looked at."""
    from anchor.node.folder import open_reader

    with open_reader(get_folder(options)) as chain:
        status = chain.get_status()
        final = status.finalized

        def root_at(epoch: int) -> bytes | None:
            return chain.get_checkpoint(epoch).root if epoch <= final.epoch else None

        return _propose(status.network_id, status.name, final, root_at)


def _propose_of_folder(folder: Path) -> Proposal:
    """The checkpoint of a folder of `anchor sync`, verified again: as far back as its state shows."""
    from anchor.chain.beacon.checkpoint import verify_pair
    from anchor.chain.beacon.folder import load_checkpoint

    stored = load_checkpoint(folder)
    if not stored.is_trusted:
        raise Misuse(
            f"{folder} holds what endpoints said, which nobody vouched for.",
            fix="Sync with --trust, and propose from that.",
        )
    found = verify_pair(stored.network, stored.checkpoint, stored.block, stored.state, now=time.time())
    root_at = look_back(found.checkpoint, found.state, found.network.preset.SLOTS_PER_EPOCH)
    return _propose(found.state.genesis_validators_root, found.network.name, found.checkpoint, root_at)


def _propose(network_id: bytes, name: str, final: Checkpoint, root_at: RootAt) -> Proposal:
    table = get_table(network_id)
    verify_growth(table, final, root_at)
    own = {final.epoch: final.root}
    if table.entries:
        return Proposal(table, final, own)
    genesis = root_at(0)
    if genesis is None:
        raise Misuse(
            f"A network's first row is its genesis block, and the state at epoch {final.epoch} is too far "
            "from it to show it.",
            fix="Propose from an earlier checkpoint.",
        )
    return Proposal(Table(name, network_id, {}), final, {0: genesis} | own)


def _show(proposal: Proposal) -> Outcome:
    table, known = proposal.table, proposal.checkpoint
    row, frozen = _print_rows(proposal)
    newest = max(table.entries, default=None)
    held = "none of this network yet" if newest is None else f"up to epoch {newest:,}"
    lines = [
        f"The next checkpoint of {printable(table.name)}",
        f"  network id   0x{table.network_id.hex()}",
        f"  checkpoint   {format_checkpoint(known)}",
        f"  in the code  {held}",
        "",
        f"For {CODE}, {'in the table of that network' if table.entries else 'at the end of TABLES'}:",
        row,
        "",
        f"For {FROZEN}, {'below that network id' if table.entries else 'at the end'}:",
        frozen,
    ]
    result: dict[str, Any] = {
        "network": table.name,
        "network_id": table.network_id,
        "checkpoint": format_checkpoint(known),
        "row": row,
        "frozen": frozen,
    }
    return Outcome("\n".join(lines), result)


def _print_rows(proposal: Proposal) -> tuple[str, str]:
    """What is added to the table, and to the test that holds what was shipped."""
    table, indent = proposal.table, " " * 8
    rows = [f'{indent}{epoch}: "{root.hex()}",' for epoch, root in proposal.entries.items()]
    frozen = [f"    {epoch} {root.hex()}" for epoch, root in proposal.entries.items()]
    if table.entries:
        return "\n".join(rows), "\n".join(frozen)
    name = json.dumps(table.name, ensure_ascii=False)
    whole = ["    _table(", f"{indent}{name},", f'{indent}"{table.network_id.hex()}",', f"{indent}{{"]
    whole += [*[f"    {row}" for row in rows], f"{indent}}},", "    ),"]
    return "\n".join(whole), "\n".join([table.network_id.hex(), *frozen])
