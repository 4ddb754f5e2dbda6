"""What an attacker does: bundles put together from parts, links signed by whoever takes part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anchor.bundle.types import Link, Vote, root_of
from anchor.consensus.containers.phase0 import AttestationData, Checkpoint, Validator
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.merkle.bits import Bits
from anchor.params import DOMAIN_BEACON_ATTESTER, FAR_FUTURE_EPOCH
from tests.consensus.ledgers import BLS, make_secret_key

GENESIS = Checkpoint(epoch=0, root=b"\1" * 32)
STAKE = 32 * 10**9


def make_validator(index: int, **changes: object) -> Validator:
    """A validator whose secret key is `make_secret_key(index)`, active for good."""
    validator = Validator(
        pubkey=BLS.sk_to_pk(make_secret_key(index)),
        withdrawal_credentials=bytes(32),
        effective_balance=STAKE,
        slashed=False,
        activation_eligibility_epoch=0,
        activation_epoch=0,
        exit_epoch=FAR_FUTURE_EPOCH,
        withdrawable_epoch=FAR_FUTURE_EPOCH,
    )
    return validator.replace(**changes)


def make_vote(slot: int, voters: Iterable[int], validators: int, *, index: int = 0, head: int = 9) -> Vote:
    """A vote of `voters`, of so many validators."""
    participants = Bits([i in set(voters) for i in range(validators)])
    return Vote(slot=slot, index=index, beacon_block_root=bytes([head]) * 32, participants=participants)


def sign_link(
    votes: Sequence[Vote],
    source: Checkpoint,
    target: Checkpoint,
    *,
    fork_version: bytes,
    network_id: bytes,
) -> Link:
    """The link of `votes`, signed by all of their participants."""
    domain = compute_domain(DOMAIN_BEACON_ATTESTER, fork_version, network_id)
    signatures = []
    for vote in votes:
        data = AttestationData(
            slot=vote.slot,
            index=vote.index,
            beacon_block_root=vote.beacon_block_root,
            source=source,
            target=target,
        )
        message = compute_signing_root(root_of(data), domain)
        voters = vote.participants.get_set_indices()
        signatures += [BLS.sign(make_secret_key(voter), message) for voter in voters]
    return Link(votes=tuple(votes), signature=BLS.aggregate(signatures))
