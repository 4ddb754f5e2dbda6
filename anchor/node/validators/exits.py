"""How validators leave: a voluntary exit, signed with their keys (phase0/validator)."""

from __future__ import annotations

from collections.abc import Sequence

from anchor.consensus.containers.phase0 import SignedVoluntaryExit, VoluntaryExit
from anchor.consensus.duties import Keyring
from anchor.consensus.forks.registry import find_validator
from anchor.errors import InvalidTransition, Misuse
from anchor.node.publishing import Standing
from anchor.params import DOMAIN_VOLUNTARY_EXIT


def find_pubkeys(keyring: Keyring, words: Sequence[str]) -> list[bytes]:
    """The keys that are named, in hexadecimal digits. Raises Misuse for one that is not there."""
    known = {f"0x{pubkey.hex()}": pubkey for pubkey in keyring.secret_keys}
    for word in words:
        if word not in known:
            raise Misuse(f"There is no key {word!a} here.", fix="Name it as its keystore's file does: 0x…")
    return [known[word] for word in words]


def sign_exit(standing: Standing, keyring: Keyring, pubkey: bytes) -> SignedVoluntaryExit:
    """The exit of a validator, from now on. Raises InvalidTransition when it may not leave."""
    ledger, state = standing.ledger, standing.get_head().state
    index = find_validator(state.validators, pubkey)
    if index is None:
        raise InvalidTransition(f"0x{pubkey.hex()} is no validator of this network.")
    epoch = ledger.get_current_epoch(state)
    message = VoluntaryExit(epoch=epoch, validator_index=index)
    domain = ledger.get_domain(state, DOMAIN_VOLUNTARY_EXIT, epoch)
    signature = keyring.sign([pubkey], ledger.compute_signing_root(message, domain))
    wish = SignedVoluntaryExit(message=message, signature=signature)
    ledger.process_voluntary_exit(state.copy(), wish)
    return wish
