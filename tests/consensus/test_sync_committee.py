"""A committee's signature by the short way is judged as by the specification's."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER, PyEcc
from anchor.consensus.sync_committee import is_signed_by, negate_key
from anchor.merkle.bits import Bits
from anchor.params import G2_POINT_AT_INFINITY
from tests.consensus.light_clients import BLS, SEATS, make_committee, make_secret_keys, sign

MESSAGE = b"\x05" * 32
COMMITTEE = make_committee(1)


@pytest.mark.parametrize("absent", [0, 1, SEATS // 2 - 1, SEATS // 2, SEATS - 1, SEATS])
def test_whoever_signed_is_found_to_have(absent: int) -> None:
    random = Random(absent)
    there = random.sample(range(SEATS), SEATS - absent)
    signed = sign(MESSAGE, 1, there, SEATS)
    bits, signature = signed.sync_committee_bits, signed.sync_committee_signature
    for claimed in (bits, bits.with_bit(0, not bits[0]), bits.with_bit(SEATS - 1, not bits[SEATS - 1])):
        for message in (MESSAGE, bytes(32)):
            signers = [COMMITTEE.pubkeys[seat] for seat in claimed.get_set_indices()]
            for verify in (BLS.fast_aggregate_verify, BLS.eth_fast_aggregate_verify):
                expected = verify(signers, message, signature)
                assert is_signed_by(COMMITTEE, claimed, message, signature, verify) == expected
                assert expected == (message == MESSAGE and claimed == bits and absent < SEATS) or not any(
                    claimed
                )


def test_only_the_absent_are_parsed() -> None:
    parsed: list[bytes] = []

    class Counting(Bls):
        def _parse_key(self, pubkey: bytes) -> Any:
            parsed.append(pubkey)
            return super()._parse_key(pubkey)

    signed = sign(MESSAGE, 1, range(2, SEATS), SEATS)
    bits, signature = signed.sync_committee_bits, signed.sync_committee_signature
    assert is_signed_by(COMMITTEE, bits, MESSAGE, signature, Counting().fast_aggregate_verify)
    assert parsed == [COMMITTEE.aggregate_pubkey, *map(negate_key, COMMITTEE.pubkeys[:2])]


def test_a_sum_that_is_not_the_committees_changes_nothing() -> None:
    """No valid state has one; the members' own keys decide then."""
    signed = sign(MESSAGE, 1, range(1, SEATS), SEATS)
    bits, signature = signed.sync_committee_bits, signed.sync_committee_signature
    for wrong in (COMMITTEE.pubkeys[0], b"\xc0" + bytes(47), bytes(48)):
        committee = COMMITTEE.replace(aggregate_pubkey=wrong)
        assert is_signed_by(committee, bits, MESSAGE, signature, BLS.fast_aggregate_verify)


def test_members_that_cancel_out_sign_nothing() -> None:
    keys = [*COMMITTEE.pubkeys[:2], *map(negate_key, COMMITTEE.pubkeys[:2]), COMMITTEE.pubkeys[2]]
    committee = COMMITTEE.replace(pubkeys=tuple(keys), aggregate_pubkey=COMMITTEE.pubkeys[2])
    verify = BLS.fast_aggregate_verify
    four = Bits([True] * 4 + [False])
    assert not is_signed_by(committee, four, MESSAGE, G2_POINT_AT_INFINITY, verify)
    secret = make_secret_keys(1, SEATS)[2]
    assert is_signed_by(committee, Bits([True] * 5), MESSAGE, BLS.sign(secret, MESSAGE), verify)


def test_the_negative_of_a_key() -> None:
    """By the reference's arithmetic."""
    reference = Bls(PyEcc())
    for secret in (1, 2, ORDER - 1, make_secret_keys(1, SEATS)[0]):
        assert negate_key(reference.sk_to_pk(secret)) == reference.sk_to_pk(ORDER - secret)
