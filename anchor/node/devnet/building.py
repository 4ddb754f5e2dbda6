"""Making a devnet's folder: a network of several operators, founded as any other, each with a folder here.

node-1/ledger       what the node keeps
node-1/validators   its keys
node-1.log          what it said
administrator.key   registers publishers
phrase, operators   passphrase of all keys, and the operators' token: a devnet has no secrets
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from anchor.consensus.text import format_identity
from anchor.errors import Misuse
from anchor.files import PRIVATE, new_folder, write_new
from anchor.node.clock import Clock
from anchor.node.devnet.plan import MAX_NODES, Member, Plan, get_node_folder, save_plan
from anchor.node.founding import draw_draft, found_network, start_folder
from anchor.node.keys import (
    SECRET_BYTES,
    Randomness,
    derive_administrator_key,
    encode_key_file,
    encrypt_secret,
)
from anchor.node.validators.deposits import make_deposits
from anchor.node.validators.folder import make_validators

GENESIS_DELAY: Final = 5
"""Seconds from founding the network to its first slot: nodes need some to start."""
PHRASE_FILE: Final = "phrase"
ADMINISTRATOR: Final = "administrator.key"
OPERATORS: Final = "operators"
VALIDATORS: Final = "validators"
LEDGER: Final = "ledger"


def build_devnet(
    folder: Path, nodes: int, validators: int, seconds_per_slot: int, clock: Clock, randomness: Randomness
) -> Plan:
    """Makes `folder` a devnet of `nodes` nodes that share `validators`. Raises Misuse, Unavailable."""
    if not 0 < nodes <= MAX_NODES or validators < nodes:
        raise Misuse(f"A devnet has 1 to {MAX_NODES} nodes, each with a validator or more.")
    plan = Plan("devnet", seconds_per_slot, token=randomness(32).hex())
    plan.members.extend(_make_members(nodes, validators))
    with new_folder(folder) as staged:
        phrase = randomness(16).hex()
        write_new(staged / PHRASE_FILE, phrase.encode() + b"\n", mode=PRIVATE)
        write_new(staged / OPERATORS, plan.token.encode() + b"\n", mode=PRIVATE)
        administrator = _make_administrator(staged, phrase, randomness)
        draft = draw_draft("devnet", [administrator], seconds_per_slot, randomness)
        given = []
        for member in plan.members:
            own = get_node_folder(staged, member) / VALIDATORS
            own.mkdir(parents=True, mode=0o700)
            keyring = make_validators(own, member.validators, phrase, randomness)
            given.append(make_deposits(f"node-{member.number:02}", draft.fork_version, keyring))
        founded = found_network(draft, given, clock.now() + GENESIS_DELAY)
        for member in plan.members:
            start_folder(get_node_folder(staged, member) / LEDGER, founded)
        save_plan(staged, plan)
    return plan


def _make_members(nodes: int, validators: int) -> Iterator[Member]:
    """Nodes on free ports, with as equal shares as can be."""
    first = 0
    for number, port in enumerate(find_ports(nodes), 1):
        share = validators // nodes + (number <= validators % nodes)
        yield Member(number, port, share, first)
        first += share


def find_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [taken.getsockname()[1] for taken in sockets]


def _make_administrator(folder: Path, phrase: str, randomness: Randomness) -> bytes:
    """Makes the administrator's key file; returns the public key."""
    secret = randomness(SECRET_BYTES)
    public = derive_administrator_key(secret).public.public_key
    file = encrypt_secret(secret, phrase, randomness, kind="administrator", identity=format_identity(public))
    write_new(folder / ADMINISTRATOR, encode_key_file(file), mode=PRIVATE)
    return public
