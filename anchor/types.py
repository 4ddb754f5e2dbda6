"""Named quantities, and the marks that give a Python annotation its SSZ size.

A record says what it holds with ordinary annotations; a mark inside `Annotated` says how long:

    slot: Slot                                             # uint64
    parent_root: Root                                      # ByteVector[32]
    votes: Annotated[tuple[Vote, ...], Limit("MAX_VOTES")] # List[Vote, MAX_VOTES]
    bits: Annotated[Bits, Limit(2048)]                     # Bitlist[2048]

A size is a number, or a sum of products of numbers and names ("A * B + 2"): names are looked up in a preset.
"""

from __future__ import annotations

from typing import Annotated

Buffer = bytes | bytearray | memoryview
"""What is hashed."""
Size = int | str
"""A number, or an expression over a preset's constants: "NAME", "NAME * NAME + 2"."""


class _Mark:
    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, vars(self).values()))})"


class Width(_Mark):
    """An unsigned integer of `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size


class Length(_Mark):
    """Exactly this many: Vector, ByteVector, Bitvector."""

    def __init__(self, size: Size) -> None:
        self.size = size


class Limit(_Mark):
    """At most this many: List, ByteList, Bitlist."""

    def __init__(self, size: Size) -> None:
        self.size = size


class Progressive(_Mark):
    """Any number, in a tree that grows with it (EIP-7916): ProgressiveList, ProgressiveBitlist."""


uint8 = Annotated[int, Width(1)]
uint16 = Annotated[int, Width(2)]
uint32 = Annotated[int, Width(4)]
uint64 = Annotated[int, Width(8)]
uint128 = Annotated[int, Width(16)]
uint256 = Annotated[int, Width(32)]
boolean = bool

Bytes4 = Annotated[bytes, Length(4)]
Bytes20 = Annotated[bytes, Length(20)]
Bytes32 = Annotated[bytes, Length(32)]
Bytes48 = Annotated[bytes, Length(48)]
Bytes96 = Annotated[bytes, Length(96)]

Slot = Annotated[int, Width(8)]
"""A slot number: the ledger's unit of time, one possible block each."""
Epoch = Annotated[int, Width(8)]
"""An epoch number: SLOTS_PER_EPOCH slots."""
CommitteeIndex = Annotated[int, Width(8)]
ValidatorIndex = Annotated[int, Width(8)]
"""A position in the validator registry."""
Gwei = Annotated[int, Width(8)]
"""An amount of stake in 10⁻⁹ ether."""
Root = Annotated[bytes, Length(32)]
"""A hash tree root."""
Version = Annotated[bytes, Length(4)]
"""A fork's version."""
DomainType = Annotated[bytes, Length(4)]
Domain = Annotated[bytes, Length(32)]
BLSPubkey = Annotated[bytes, Length(48)]
"""A compressed point of G1."""
BLSSignature = Annotated[bytes, Length(96)]
"""A compressed point of G2."""
Hash32 = Annotated[bytes, Length(32)]
"""A hash that is not of our making: an execution or proof-of-work block's."""
ExecutionAddress = Annotated[bytes, Length(20)]
WithdrawalIndex = Annotated[int, Width(8)]
BuilderIndex = Annotated[int, Width(8)]
"""A position in the builder registry (gloas)."""
ParticipationFlags = Annotated[int, Width(1)]
"""Bits of the duties that a validator fulfilled in an epoch (altair)."""
KZGCommitment = Annotated[bytes, Length(48)]
KZGProof = Annotated[bytes, Length(48)]
VersionedHash = Annotated[bytes, Length(32)]
