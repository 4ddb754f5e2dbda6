"""The public part of new validators' keys: deposits, each with proof that its key is possessed (rule 16)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from anchor.consensus.containers.phase0 import DepositData
from anchor.consensus.duties import Keyring, compute_deposit
from anchor.consensus.presets import LEDGER
from anchor.merkle.json import from_json, to_json
from anchor.merkle.scope import schema_of
from anchor.node.documents import Kind, read_bytes, read_document, read_name, show_bytes, write_document
from anchor.types import Version

FILE: Final = "deposits.json"
DEPOSITS: Final = Kind("anchor-deposits/1", "the deposits of validators")


@dataclass(frozen=True, slots=True)
class Deposits:
    """What an operator hands to a network that their validators are to be part of."""

    operator: str
    """What the operator is called: shown, and proven by nothing."""
    fork_version: Version
    """Of the network: the proofs hold on no other."""
    deposits: tuple[DepositData, ...]


def make_deposits(operator: str, fork_version: Version, keyring: Keyring) -> Deposits:
    """The deposits of all keys in `keyring`."""
    stake, bls = LEDGER.MAX_EFFECTIVE_BALANCE, keyring.bls
    made = [compute_deposit(secret, fork_version, stake, bls) for secret in keyring.secret_keys.values()]
    return Deposits(operator, fork_version, tuple(made))


def find_free(folder: Path) -> Path:
    """Where further deposits go: deposits-2.json, and so on."""
    return next(path for number in count(2) if not (path := folder / f"deposits-{number}.json").exists())


def write_deposits(path: Path, made: Deposits) -> None:
    """Writes a new file of deposits. Raises as `write_document`."""
    fields = {
        "operator": made.operator,
        "genesis_fork_version": show_bytes(made.fork_version),
        "deposits": [show_deposit(deposit) for deposit in made.deposits],
    }
    write_document(path, DEPOSITS, fields)


def read_deposits(path: Path) -> Deposits:
    """The deposits in the file at `path`; their proofs are not checked here. Raises as `read_document`."""
    return read_document(path, _from_json, DEPOSITS)


def _from_json(document: Any) -> Deposits:
    return Deposits(
        read_name(document["operator"]),
        read_bytes(document["genesis_fork_version"], 4),
        tuple([read_deposit(entry) for entry in document["deposits"]]),
    )


def show_deposit(deposit: DepositData) -> Any:
    """A deposit in JSON."""
    return to_json(schema_of(DepositData), deposit)


def read_deposit(entry: Any) -> DepositData:
    """The deposit that `show_deposit` shows. Raises MalformedSSZ."""
    deposit: DepositData = from_json(schema_of(DepositData), entry)
    return deposit
