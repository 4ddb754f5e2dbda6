"""New validators: proof of possession, and the consent of two thirds of the stake (rule 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchor.consensus.containers.entries import Admission, AdmitValidator
from anchor.consensus.containers.phase0 import DepositData
from anchor.consensus.forks.arithmetic import to_flags
from anchor.consensus.forks.ledger.accessors import Context, State
from anchor.consensus.forks.registry import find_validator, get_active_flags, get_pubkeys
from anchor.consensus.signing import compute_signing_root
from anchor.errors import InvalidEntry, InvalidSignature
from anchor.merkle.lazy import np
from anchor.merkle.scope import hash_tree_root
from anchor.params import DOMAIN_ADMISSION
from anchor.types import Root

if TYPE_CHECKING:
    from anchor.consensus.forks.altair import Altair


def compute_admission_signing_root(fork: Altair, state: State, admission: Admission) -> Root:
    """What each validator signs who admits another."""
    return compute_signing_root(hash_tree_root(admission), fork.get_domain(state, DOMAIN_ADMISSION))


def verify_admit_validator(context: Context, body: AdmitValidator) -> None:
    """Raises InvalidEntry or InvalidSignature unless the key is new, possessed, and wanted by two thirds."""
    fork, state, admission = context.fork, context.state, body.admission
    epoch = fork.get_current_epoch(state)
    if admission.expiry_epoch < epoch:
        raise InvalidEntry(
            f"The admission expired in epoch {admission.expiry_epoch}, and now is epoch {epoch}."
        )
    if find_validator(state.validators, admission.deposit.pubkey) is not None:
        raise InvalidEntry(f"Validator 0x{admission.deposit.pubkey.hex()} is in the registry already.")
    verify_deposit(fork, admission.deposit)
    _verify_consent(context, body)


def verify_deposit(fork: Altair, deposit: DepositData) -> None:
    """Raises InvalidEntry unless the stake is the ledger's, InvalidSignature unless the key is possessed."""
    stake = fork.preset.MAX_EFFECTIVE_BALANCE
    if deposit.amount != stake:
        raise InvalidEntry(f"A validator of the ledger has a stake of {stake} Gwei, not {deposit.amount}.")
    credentials = deposit.withdrawal_credentials
    if not fork.is_valid_deposit_signature(deposit.pubkey, credentials, deposit.amount, deposit.signature):
        raise InvalidSignature(f"Possession of the validator key 0x{deposit.pubkey.hex()} is not proven.")


def _verify_consent(context: Context, body: AdmitValidator) -> None:
    fork, state = context.fork, context.state
    voters = np.flatnonzero(to_flags(body.participants))
    active = get_active_flags(state.validators, fork.get_current_epoch(state))
    active &= ~state.validators.column("slashed").astype(np.bool_)
    if len(body.participants) > len(active) or not active[voters].all():
        raise InvalidEntry("The admission counts on validators who are not active, or are slashed.")
    consenting = fork.get_total_balance(state, voters)
    total = fork.get_total_active_balance(state)
    if not len(voters) or 3 * consenting < 2 * total:
        raise InvalidEntry(
            f"Of a stake of {total} Gwei, {consenting} admit the validator: less than two thirds."
        )
    message = compute_admission_signing_root(fork, state, body.admission)
    pubkeys = get_pubkeys(state.validators, voters)
    if not fork.signatures.fast_aggregate_verify(pubkeys, message, body.signature):
        raise InvalidSignature("The aggregate signature of the admission is not by those who it says.")


def apply_admit_validator(context: Context, body: AdmitValidator) -> None:
    """Adds the validator; it is activated as Altair's queue lets it in."""
    deposit = body.admission.deposit
    context.fork.add_validator_to_registry(
        context.state, deposit.pubkey, deposit.withdrawal_credentials, deposit.amount
    )
