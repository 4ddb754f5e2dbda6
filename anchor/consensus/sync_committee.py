"""Signatures of sync committees (altair/beacon-chain, altair/light-client/sync-protocol)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anchor.consensus.containers.altair import SyncCommittee
from anchor.merkle.bits import Bits

Y_SIGN = 0x20
"""The bit of a compressed point's first byte that tells it from its negative."""
Verify = Callable[[Sequence[bytes], bytes, bytes], bool]
"""Whether the owners of keys signed a message: a method of `Signatures`."""


def is_signed_by(
    committee: SyncCommittee, seats: Bits, message: bytes, signature: bytes, verify: Verify
) -> bool:
    """Whether the members on `seats` of a committee signed `message`.

    Where more than half of them did, their keys' sum is the committee's own `aggregate_pubkey` less the keys
    of those who are absent: few are to be parsed (docs/decisions/0018). Where that does not verify, the
    specification's way has the last word.
    """
    signers = [committee.pubkeys[seat] for seat in seats.get_set_indices()]
    absent = [pubkey for pubkey, is_there in zip(committee.pubkeys, seats, strict=True) if not is_there]
    if len(absent) < len(signers):
        keys = [committee.aggregate_pubkey, *map(negate_key, absent)]
        if verify(keys, message, signature):
            return True
    return verify(signers, message, signature)


def negate_key(pubkey: bytes) -> bytes:
    """The encoding of the point on the other side: the sum of both is infinity."""
    return bytes((pubkey[0] ^ Y_SIGN, *pubkey[1:]))
