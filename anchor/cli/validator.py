"""`anchor validator`: keys that vote, what they signed, and how they join and leave a network."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anchor.cli.actions import Takes, add_action, require_action
from anchor.cli.ledgers import add_node_options, open_node, parse_count, parse_position
from anchor.cli.output import Outcome, Terminal, format_table, printable
from anchor.cli.secrets import add_passphrase_option, read_passphrase, unlock_administrator
from anchor.errors import Misuse

if TYPE_CHECKING:
    from anchor.consensus.containers.entries import SignedEntry
    from anchor.consensus.duties import Keyring
    from anchor.node.founding import Description
    from anchor.node.publishing import Standing
    from anchor.node.validators.admissions import Proposal

HELP = """\
Make the keys of validators, and keep the record of what they signed. A key that
signs twice is slashed: never run two nodes with the same keys, and never use a
copy of their folder.

keygen            keys for a network, or its draft, and DIR/deposits.json
propose DEPOSITS  to a running network: what its operators are to consent to
consent PROPOSAL  the consent of all keys in --keystores
admit PROPOSAL CONSENT …
                  an administrator brings them in, with two thirds of the stake
exit PUBKEY …     validators of --keystores leave, by way of a --node
export            the record of what the keys signed, for another machine
import RECORD     takes such a record over, before the keys sign here
resume            the record is lost or old, and the keys sign nowhere else:
                  they sign again what comes after now
"""
EXAMPLES = """
anchor validator keygen --network draft.json --operator 'Lab A' --count 16 \\
  --out keys/
anchor validator propose keys/deposits.json --network network.json \\
  -o proposal.json
anchor validator consent proposal.json --network lab/network.json \\
  --keystores keys/ -o consent-a.json
anchor validator admit proposal.json consent-a.json consent-b.json \\
  --key admin.key --node https://node.example:8960 --trust lab
anchor validator export --keystores keys/ -o record.json
anchor validator import record.json --keystores keys/
"""
ACTIONS: Final = {
    "keygen": Takes((), ("network", "operator", "count", "out"), ("passphrase_file",)),
    "propose": Takes(("DEPOSITS",), ("network", "output")),
    "consent": Takes(("PROPOSAL",), ("network", "keystores", "output"), ("passphrase_file",)),
    "admit": Takes(("PROPOSAL", "CONSENT…"), ("key", "node", "trust"), ("passphrase_file",)),
    "exit": Takes(("PUBKEY…",), ("keystores", "node", "trust"), ("passphrase_file",)),
    "export": Takes((), ("keystores", "output")),
    "import": Takes(("RECORD",), ("keystores",)),
    "resume": Takes((), ("network", "keystores"), ("justified",)),
}
OPTIONS: Final = {
    *("network", "operator", "count", "out", "output", "keystores", "justified", "passphrase_file"),
    *("key", "node", "trust"),
}


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_action(parser, ACTIONS)
    parser.add_argument("--network", metavar="FILE", help="its network.json; for new keys, or its draft")
    parser.add_argument("--operator", metavar="NAME", help="what you are called, for everyone to read")
    parser.add_argument("--count", metavar="N", type=parse_count, help="how many keys to make")
    parser.add_argument("--out", metavar="DIR", help="a new folder for them, or one that has keys")
    parser.add_argument("--keystores", metavar="DIR", help="the folder of the keys")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it; never overwritten")
    parser.add_argument(
        "--justified",
        metavar="EPOCH",
        type=parse_position,
        help="resume: the network's justified epoch, where it waits for these very keys",
    )
    parser.add_argument("--key", metavar="FILE", help="the administrator's key")
    add_node_options(parser)
    add_passphrase_option(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Does one of them."""
    require_action("validator", options, ACTIONS, OPTIONS)
    actions = {
        "keygen": _keygen,
        "propose": _propose,
        "consent": _consent,
        "admit": _admit,
        "exit": _exit,
        "export": _export,
        "import": _import,
        "resume": _resume,
    }
    return actions[options.action](options, terminal)


def _keygen(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.documents import require_name
    from anchor.node.founding import read_fork_version
    from anchor.node.validators.folder import PATTERN

    folder, version = Path(options.out), read_fork_version(Path(options.network))
    require_name(options.operator, "An operator's name")
    make = _add_keys if any(folder.glob(PATTERN)) else _make_keys
    pubkeys, deposits = make(options, folder, version)
    place = printable(str(folder))
    text = (
        f"Made {options.count} keys in {place}, encrypted.\n\n"
        f"Hand {printable(str(deposits))} over: it is public, and proves that you have the keys.\n"
        f"Back the keystores up, but use them in one place only: {place}."
    )
    return Outcome(text, {"folder": options.out, "deposits": str(deposits), "pubkeys": pubkeys})


def _make_keys(options: Namespace, folder: Path, version: bytes) -> tuple[list[str], Path]:
    """A new folder of keys: all of it, or none. Returns the keys, and where their deposits are."""
    from anchor.files import new_folder, require_new_folder
    from anchor.node.validators.deposits import FILE, make_deposits, write_deposits
    from anchor.node.validators.folder import make_validators

    require_new_folder(folder)
    password = read_passphrase(options.passphrase_file, f"the keys in {folder}", confirm=True)
    with new_folder(folder) as staged:
        keyring = make_validators(staged, options.count, password, os.urandom)
        write_deposits(staged / FILE, make_deposits(options.operator, version, keyring))
    return _name(keyring), folder / FILE


def _add_keys(options: Namespace, folder: Path, version: bytes) -> tuple[list[str], Path]:
    """More keys in a folder that has some; their deposits are in a file of their own."""
    from anchor.node.validators.deposits import find_free, make_deposits, write_deposits
    from anchor.node.validators.folder import add_validators

    password = read_passphrase(options.passphrase_file, f"the keys in {folder}")
    keyring = add_validators(folder, options.count, password, os.urandom)
    path = find_free(folder)
    write_deposits(path, make_deposits(options.operator, version, keyring))
    return _name(keyring), path


def _name(keyring: Keyring) -> list[str]:
    return [f"0x{pubkey.hex()}" for pubkey in keyring.secret_keys]


def _read_network(options: Namespace) -> Description:
    from anchor.node.founding import read_description

    return read_description(Path(options.network))


def _propose(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.clock import SystemClock
    from anchor.node.validators.admissions import propose, write_proposal
    from anchor.node.validators.deposits import read_deposits

    given = read_deposits(Path(options.words[0]))
    proposal = propose(_read_network(options), given, SystemClock().now())
    write_proposal(Path(options.output), proposal)
    name = printable(options.output)
    text = (
        f"{_describe_proposal(proposal)}\n\n"
        "Operators with two thirds of the stake must consent, each with:\n\n"
        f"  anchor validator consent {name} --network network.json \\\n"
        "    --keystores DIR -o CONSENT\n\n"
        "Then an administrator brings them in:\n\n"
        f"  anchor validator admit {name} CONSENT … --key FILE --node URL \\\n"
        "    --trust ROOT:EPOCH"
    )
    return Outcome(text, _show_proposal(proposal) | {"proposal": options.output})


def _describe_proposal(proposal: Proposal) -> str:
    shown = _show_proposal(proposal)
    rows = [(pubkey, shown["operator"]) for pubkey in shown["pubkeys"]]
    return format_table(("VALIDATOR", "OPERATOR"), rows)


def _show_proposal(proposal: Proposal) -> dict[str, Any]:
    pubkeys = [f"0x{admission.deposit.pubkey.hex()}" for admission in proposal.admissions]
    return {
        "operator": proposal.operator,
        "pubkeys": pubkeys,
        "expiry_epoch": int(proposal.admissions[0].expiry_epoch),
    }


def _consent(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.validators.admissions import consent, read_proposal, write_consent
    from anchor.node.validators.folder import find_keystores, load_keyring

    network, proposal = _read_network(options), read_proposal(Path(options.words[0]))
    paths = find_keystores(Path(options.keystores))
    password = read_passphrase(options.passphrase_file, f"the keys in {options.keystores}")
    keyring = load_keyring(paths, password)
    write_consent(Path(options.output), consent(network, proposal, keyring))
    text = (
        f"{_describe_proposal(proposal)}\n\n"
        f"{len(keyring.secret_keys)} keys consent to these, in {printable(options.output)}."
    )
    result = _show_proposal(proposal) | {"consent": options.output, "keys": len(keyring.secret_keys)}
    return Outcome(text, result)


def _admit(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.consensus.text import format_checkpoint
    from anchor.node.publishing import write_admissions
    from anchor.node.validators.admissions import describe_network, gather, read_consent, read_proposal

    proposal, *given = map(Path, options.words)
    wanted, consents = read_proposal(proposal), [read_consent(path) for path in given]
    administrator, remote = unlock_administrator(options), open_node(options, terminal)
    if remote is None:
        raise Misuse("An administrator brings validators in at a node.", fix="Name it with --node.")

    def write(chain: Standing) -> list[SignedEntry]:
        ledger, state = chain.ledger, chain.get_head().state
        admissions = gather(ledger, state, describe_network(state), wanted, consents)
        return write_admissions(chain, admissions, administrator)

    said = remote.record(write)
    text = (
        f"{_describe_proposal(wanted)}\n\n"
        "They are in the registry; that is final. They vote from the epoch in which the\n"
        "network activates them: start their node with --keystores now."
    )
    result = _show_proposal(wanted)
    return Outcome(text, result | {"entries": list(said.positions), "final": format_checkpoint(said.final)})


def _exit(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.node.validators.exits import find_pubkeys, sign_exit
    from anchor.node.validators.folder import find_keystores, load_keyring

    remote, folder = open_node(options, terminal), options.keystores
    if remote is None:
        raise Misuse("A validator leaves by way of a node.", fix="Name it with --node.")
    paths = find_keystores(Path(folder))
    keyring = load_keyring(paths, read_passphrase(options.passphrase_file, f"the keys in {folder}"))
    pubkeys = find_pubkeys(keyring, options.words)
    seen = remote.remote.look()
    wishes = [sign_exit(seen, keyring, pubkey) for pubkey in pubkeys]
    for wish in wishes:
        remote.remote.send_exit(wish)
    indices = [int(wish.message.validator_index) for wish in wishes]
    text = (
        f"{'1 validator asks' if len(wishes) == 1 else f'{len(wishes)} validators ask'} to leave, "
        f"by way of {printable(options.node)}.\n"
        "Keep their node up until they have left: they vote for some epochs yet, and can\n"
        "be slashed for longer. See their exit_epoch at /anchor/v1/validators/INDEX."
    )
    return Outcome(text, {"validators": indices, "pubkeys": [f"0x{pubkey.hex()}" for pubkey in pubkeys]})


def _export(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.files import write_new
    from anchor.node.validators.folder import open_records

    with open_records(Path(options.keystores)) as records:
        data, count = records.export_interchange(), len(records.get_pubkeys())
    write_new(Path(options.output), data)
    text = (
        f"Wrote what {count} keys signed to {printable(options.output)} (EIP-3076, version 5).\n"
        "It is out of date as soon as a node signs with them again."
    )
    return Outcome(text, {"record": options.output, "validators": count})


def _import(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.files import read_bounded
    from anchor.node.validators.folder import open_records
    from anchor.node.validators.interchange import MAX_FILE_BYTES

    path = Path(options.words[0])
    data = read_bounded(path, MAX_FILE_BYTES, "a record of what validators signed")
    with open_records(Path(options.keystores), create=True) as records:
        count = records.import_interchange(data, str(path))
    text = f"What {count} keys signed is now known in {printable(options.keystores)}."
    return Outcome(text, {"validators": count})


def _resume(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.consensus.presets import LEDGER
    from anchor.node.clock import SystemClock
    from anchor.node.validators.folder import resume_folder

    network = _read_network(options)
    epoch = network.get_epoch(SystemClock().now()) + 1  # a clock may have been ahead
    source = epoch if options.justified is None else min(options.justified, epoch)
    slot = (epoch + 1) * LEDGER.SLOTS_PER_EPOCH - 1
    folder = Path(options.keystores)
    count = resume_folder(folder, network.network_id, slot=slot, source=source, target=epoch)
    text = (
        f"{count} keys sign again from epoch {epoch + 1} on, as soon as the network has justified\n"
        f"epoch {source}. If anything else signs with them, they are slashed."
    )
    return Outcome(text, {"validators": count, "epoch": epoch + 1, "justified": source})
