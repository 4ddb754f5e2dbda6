"""How a running network takes new validators in: proposed, consented to by two thirds of stake, brought in.

    deposits ─► propose ─► every operator: consent ─► admit, by an administrator

Nobody needs to be on the network to propose, or to consent: files go from hand to hand. A consent holds the
signature of every key that its operator has, one by one, so that those who may not vote can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anchor.consensus.bls import Bls
from anchor.consensus.containers.entries import Admission, AdmitValidator
from anchor.consensus.containers.phase0 import DepositData
from anchor.consensus.duties import Keyring
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.admission import verify_deposit
from anchor.consensus.forks.registry import get_active_flags, get_pubkeys
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.errors import InvalidEntry, InvalidSignature, WrongNetwork
from anchor.merkle.bits import Bits
from anchor.merkle.lazy import np
from anchor.merkle.scope import hash_tree_root
from anchor.node.documents import Kind, read_bytes, read_document, read_name, show_bytes, write_document
from anchor.node.founding import Description
from anchor.node.validators.deposits import Deposits, read_deposit, show_deposit
from anchor.params import DOMAIN_ADMISSION

PROPOSAL: Final = Kind("anchor-admissions/1", "the admissions of validators")
CONSENT: Final = Kind("anchor-consent/1", "an operator's consent to admissions")
LIFETIME: Final = 4096
"""Epochs in which a proposal can be consented to and brought in."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Validators that an operator wants to bring in."""

    operator: str
    network_id: bytes
    admissions: tuple[Admission, ...]


@dataclass(frozen=True, slots=True)
class Consent:
    """Signatures of validators over admissions."""

    network_id: bytes
    signatures: Mapping[bytes, Mapping[bytes, bytes]]
    """By what is signed, and by public key."""


def describe_network(state: Any) -> Description:
    """The network that a state is of."""
    return Description(
        network_id=bytes(state.genesis_validators_root),
        fork_version=bytes(state.fork.current_version),
        genesis_time=int(state.genesis_time),
        seconds_per_slot=int(state.network.seconds_per_slot),
    )


def compute_message(network: Description, admission: Admission) -> bytes:
    """What each validator signs who admits another (specs/03 §3.7.1)."""
    domain = compute_domain(DOMAIN_ADMISSION, network.fork_version, network.network_id)
    return compute_signing_root(hash_tree_root(admission), domain)


def propose(network: Description, given: Deposits, now: int) -> Proposal:
    """The admissions of an operator's validators, to be consented to in the next while.

    Raises WrongNetwork, InvalidEntry or InvalidSignature for deposits that no network would admit.
    """
    if given.fork_version != network.fork_version:
        raise WrongNetwork(
            f"The deposits of {given.operator!a} are for another network.",
            fix="Make them for this one: anchor validator keygen --network network.json",
        )
    _verify_deposits(network, given.deposits)
    expiry = network.get_epoch(now) + LIFETIME
    admissions = [Admission(deposit=deposit, expiry_epoch=expiry) for deposit in given.deposits]
    return Proposal(given.operator, network.network_id, tuple(admissions))


def _verify_deposits(network: Description, deposits: Iterable[DepositData]) -> None:
    ledger = network.make_ledger()
    for deposit in deposits:
        verify_deposit(ledger, deposit)


def consent(network: Description, proposal: Proposal, keyring: Keyring) -> Consent:
    """The consent of all keys in `keyring`. Raises as `propose` does."""
    _require_network(network, proposal.network_id, "The proposal")
    _verify_deposits(network, [admission.deposit for admission in proposal.admissions])
    messages = [compute_message(network, admission) for admission in proposal.admissions]
    pubkeys = list(keyring.secret_keys)
    signed = {message: {key: keyring.sign([key], message) for key in pubkeys} for message in messages}
    return Consent(network.network_id, signed)


def _require_network(network: Description, network_id: bytes, what: str) -> None:
    if network_id != network.network_id:
        raise WrongNetwork(
            f"{what} is for network 0x{network_id.hex()}, and this is 0x{network.network_id.hex()}.",
            fix="Give the network.json of the network that it is meant for.",
        )


def gather(
    ledger: Ledger, state: Any, network: Description, proposal: Proposal, given: Sequence[Consent]
) -> list[AdmitValidator]:
    """The admissions with all consents that count in `state`: by validators that are active, not slashed.

    Raises WrongNetwork, InvalidSignature for a signature that is not its key's, InvalidEntry when two thirds
    of the stake are not there.
    """
    _require_network(network, proposal.network_id, "The proposal")
    for one in given:
        _require_network(network, one.network_id, "The consent")
    pubkeys = get_pubkeys(state.validators, np.arange(len(state.validators)))
    flags = get_active_flags(state.validators, ledger.get_current_epoch(state))
    flags &= state.validators.column("slashed") == 0
    able = [pubkey if flag else b"" for pubkey, flag in zip(pubkeys, flags.tolist(), strict=True)]
    gathered = []
    for admission in proposal.admissions:
        message = compute_message(network, admission)
        signatures: dict[bytes, bytes] = {}
        for one in given:
            signatures |= one.signatures.get(message, {})
        gathered.append(_join(ledger, state, admission, message, able, signatures))
    return gathered


def _join(
    ledger: Ledger,
    state: Any,
    admission: Admission,
    message: bytes,
    able: Sequence[bytes],
    signatures: Mapping[bytes, bytes],
) -> AdmitValidator:
    bls, voters = Bls(), Bits([pubkey in signatures for pubkey in able])
    chosen = [pubkey for pubkey in able if pubkey in signatures]
    for pubkey in chosen:
        if not bls.verify(pubkey, message, signatures[pubkey]):
            raise InvalidSignature(
                f"The consent of validator 0x{pubkey.hex()} is not signed with its key.",
                fix="Ask its operator for the file again.",
            )
    indices = np.asarray([index for index, pubkey in enumerate(able) if pubkey in signatures], dtype=np.int64)
    consenting = ledger.get_total_balance(state, indices) if chosen else 0
    total = ledger.get_total_active_balance(state)
    if 3 * consenting < 2 * total:
        raise InvalidEntry(
            f"{len(chosen)} validators with {consenting / total:.0%} of the stake consent to "
            f"0x{admission.deposit.pubkey.hex()}, and two thirds of the stake must.",
            fix="Ask more operators for: anchor validator consent",
        )
    aggregate = bls.aggregate([signatures[pubkey] for pubkey in chosen])
    return AdmitValidator(admission=admission, participants=voters, signature=aggregate)


# Their files


def write_proposal(path: Path, proposal: Proposal) -> None:
    """Writes a new file with a proposal. Raises as `write_document`."""
    fields = {
        "operator": proposal.operator,
        "network_id": show_bytes(proposal.network_id),
        "admissions": [
            {"deposit": show_deposit(one.deposit), "expiry_epoch": int(one.expiry_epoch)}
            for one in proposal.admissions
        ],
    }
    write_document(path, PROPOSAL, fields)


def read_proposal(path: Path) -> Proposal:
    """The proposal in the file at `path`. Raises as `read_document`."""

    def read(document: Any) -> Proposal:
        entries = [
            (read_deposit(entry["deposit"]), entry["expiry_epoch"]) for entry in document["admissions"]
        ]
        if not entries or {type(expiry) for _, expiry in entries} != {int}:
            raise TypeError(path)
        return Proposal(
            read_name(document["operator"]),
            read_bytes(document["network_id"], 32),
            tuple([Admission(deposit=deposit, expiry_epoch=expiry) for deposit, expiry in entries]),
        )

    return read_document(path, read, PROPOSAL)


def write_consent(path: Path, given: Consent) -> None:
    """Writes a new file with a consent. Raises as `write_document`."""
    signatures = {
        show_bytes(message): {show_bytes(key): show_bytes(signature) for key, signature in signed.items()}
        for message, signed in given.signatures.items()
    }
    fields = {"network_id": show_bytes(given.network_id), "signatures": signatures}
    write_document(path, CONSENT, fields)


def read_consent(path: Path) -> Consent:
    """The consent in the file at `path`. Raises as `read_document`."""

    def read(document: Any) -> Consent:
        signatures = {
            read_bytes(message, 32): {
                read_bytes(key, 48): read_bytes(signature, 96) for key, signature in signed.items()
            }
            for message, signed in document["signatures"].items()
        }
        return Consent(read_bytes(document["network_id"], 32), signatures)

    return read_document(path, read, CONSENT)
