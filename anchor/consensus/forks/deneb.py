"""Deneb: blobs, and votes that count for longer (deneb/beacon-chain, deneb/fork)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from anchor.consensus.containers import deneb as containers
from anchor.consensus.containers.phase0 import AttestationData, VoluntaryExit
from anchor.consensus.execution import NewPayloadRequest
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.capella import Capella
from anchor.consensus.forks.phase0.base import Body, State, convert_record
from anchor.consensus.signing import compute_domain
from anchor.merkle.container import Container
from anchor.merkle.hashing import sha256
from anchor.params import DOMAIN_VOLUNTARY_EXIT, VERSIONED_HASH_VERSION_KZG
from anchor.types import Domain, Epoch, KZGCommitment, VersionedHash


def kzg_commitment_to_versioned_hash(commitment: KZGCommitment) -> VersionedHash:
    """How the execution layer names a blob."""
    return VERSIONED_HASH_VERSION_KZG + sha256(commitment)[1:]


class Deneb(Capella):
    """The rules of deneb."""

    name: ClassVar[str] = "deneb"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    def get_validator_activation_churn_limit(self, state: State) -> int:
        cap: int = self.config.MAX_PER_EPOCH_ACTIVATION_CHURN_LIMIT
        return min(cap, self.get_validator_churn_limit(state))

    # Attestations and exits

    def verify_inclusion_delay(self, state: State, data: AttestationData) -> None:
        """Raises InvalidTransition when a vote is included too early; its target's epoch bounds the end."""
        first = data.slot + self.preset.MIN_ATTESTATION_INCLUSION_DELAY
        require(
            first <= state.slot,
            lambda: (
                f"An attestation for slot {data.slot} may be included from slot {first}, not at {state.slot}."
            ),
        )

    def is_timely_target(self, inclusion_delay: int) -> bool:
        """True: a right vote for the target counts whenever it may be included."""
        return True

    def get_voluntary_exit_domain(self, state: State, wish: VoluntaryExit) -> Domain:
        """What an exit's signature is bound to: capella for ever, so that exits stay valid."""
        version = self.config.CAPELLA_FORK_VERSION
        return compute_domain(DOMAIN_VOLUNTARY_EXIT, version, state.genesis_validators_root)

    # Blobs

    def get_max_blobs_per_block(self, epoch: Epoch) -> int:
        """How many blobs a block of `epoch` may commit to."""
        return self.config.MAX_BLOBS_PER_BLOCK  # type: ignore[no-any-return]

    def verify_execution_payload(self, state: State, body: Body) -> None:
        super().verify_execution_payload(state, body)
        count, limit = (
            len(body.blob_kzg_commitments),
            self.get_max_blobs_per_block(self.get_current_epoch(state)),
        )
        require(count <= limit, lambda: f"A block may commit to {limit} blobs, and does to {count}.")

    def get_new_payload_request(self, state: State, body: Body) -> NewPayloadRequest:
        hashes = tuple([kzg_commitment_to_versioned_hash(c) for c in body.blob_kzg_commitments])
        return NewPayloadRequest(body.execution_payload, hashes, state.latest_block_header.parent_root)

    def upgrade(self, pre: State) -> State:
        """A state of capella as a state of deneb (upgrade_to_deneb)."""
        header = convert_record(
            pre.latest_execution_payload_header,
            self.records["ExecutionPayloadHeader"],
            blob_gas_used=0,
            excess_blob_gas=0,
        )
        return self.carry_over(pre, latest_execution_payload_header=header)
