"""Domains and signing roots: what a consensus signature covers (phase0/beacon-chain, helper functions)."""

from __future__ import annotations

from functools import lru_cache

from anchor.merkle.hashing import sha256


@lru_cache(maxsize=64)
def compute_fork_data_root(current_version: bytes, genesis_validators_root: bytes) -> bytes:
    """The root of ForkData: tells forks and chains apart in signatures."""
    return sha256(current_version.ljust(32, b"\0") + genesis_validators_root)


def compute_domain(
    domain_type: bytes, fork_version: bytes, genesis_validators_root: bytes = bytes(32)
) -> bytes:
    """The domain of messages of `domain_type` under one fork of one chain."""
    return domain_type + compute_fork_data_root(fork_version, genesis_validators_root)[:28]


def compute_signing_root(object_root: bytes, domain: bytes) -> bytes:
    """The root of SigningData: the message that a signature over an object with this root signs."""
    return sha256(object_root + domain)
