"""Records of altair (altair/beacon-chain, altair/validator, altair/light-client/sync-protocol)."""

from __future__ import annotations

from typing import Annotated

from anchor.consensus.containers import collect_records, phase0
from anchor.consensus.containers.phase0 import BeaconBlockHeader
from anchor.merkle.bits import Bits
from anchor.merkle.columns import Column
from anchor.merkle.container import Container
from anchor.merkle.gindex import get_depth
from anchor.params import CURRENT_SYNC_COMMITTEE_GINDEX, FINALIZED_ROOT_GINDEX, NEXT_SYNC_COMMITTEE_GINDEX
from anchor.types import (
    BLSPubkey,
    BLSSignature,
    Bytes32,
    Length,
    Limit,
    ParticipationFlags,
    Root,
    Slot,
    ValidatorIndex,
    uint64,
)


class SyncAggregate(Container):
    """The sync committee's signature of the previous slot's block, and who took part."""

    sync_committee_bits: Annotated[Bits, Length("SYNC_COMMITTEE_SIZE")]
    sync_committee_signature: BLSSignature


class SyncCommittee(Container):
    """The keys of those who sign every block of a period, for light clients."""

    pubkeys: Annotated[tuple[BLSPubkey, ...], Length("SYNC_COMMITTEE_SIZE")]
    aggregate_pubkey: BLSPubkey


class BeaconBlockBody(phase0.BeaconBlockBody):
    """Adds the sync committee's signature."""

    sync_aggregate: SyncAggregate


class BeaconState(
    phase0.BeaconState,
    renames={
        "previous_epoch_attestations": "previous_epoch_participation",
        "current_epoch_attestations": "current_epoch_participation",
    },
):
    """Flags a validator instead of pending attestations; inactivity scores; sync committees."""

    previous_epoch_participation: Annotated[Column[ParticipationFlags], Limit("VALIDATOR_REGISTRY_LIMIT")]
    current_epoch_participation: Annotated[Column[ParticipationFlags], Limit("VALIDATOR_REGISTRY_LIMIT")]
    inactivity_scores: Annotated[Column[uint64], Limit("VALIDATOR_REGISTRY_LIMIT")]
    current_sync_committee: SyncCommittee
    next_sync_committee: SyncCommittee


class SyncCommitteeMessage(Container):
    """One member's signature of a block."""

    slot: Slot
    beacon_block_root: Root
    validator_index: ValidatorIndex
    signature: BLSSignature


class SyncCommitteeContribution(Container):
    """A subcommittee's signatures of a block, aggregated."""

    slot: Slot
    beacon_block_root: Root
    subcommittee_index: uint64
    aggregation_bits: Annotated[Bits, Length("SYNC_SUBCOMMITTEE_SIZE")]
    signature: BLSSignature


class ContributionAndProof(Container):
    """A contribution, with the proof that its maker was chosen to aggregate."""

    aggregator_index: ValidatorIndex
    contribution: SyncCommitteeContribution
    selection_proof: BLSSignature


class SignedContributionAndProof(Container):
    """A contribution with its aggregator's signature."""

    message: ContributionAndProof
    signature: BLSSignature


class SyncAggregatorSelectionData(Container):
    """What is signed to learn whether one is chosen to aggregate."""

    slot: Slot
    subcommittee_index: uint64


class LightClientHeader(Container):
    """What a light client knows of a block."""

    beacon: BeaconBlockHeader


class LightClientBootstrap(Container):
    """A trusted header's sync committee, with its branch: where a light client starts."""

    header: LightClientHeader
    current_sync_committee: SyncCommittee
    current_sync_committee_branch: Annotated[
        tuple[Bytes32, ...], Length(get_depth(CURRENT_SYNC_COMMITTEE_GINDEX))
    ]


class LightClientUpdate(Container):
    """A header signed by a sync committee, the next committee, and what is final."""

    attested_header: LightClientHeader
    next_sync_committee: SyncCommittee
    """Proven in the attested header's state; all zero when the update doesn't bring it."""
    next_sync_committee_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(NEXT_SYNC_COMMITTEE_GINDEX))]
    finalized_header: LightClientHeader
    """Proven in the attested header's state; all zero when the update doesn't bring it."""
    finality_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(FINALIZED_ROOT_GINDEX))]
    sync_aggregate: SyncAggregate
    signature_slot: Slot
    """The slot at which the signature was made: after the attested header's."""


class LightClientFinalityUpdate(Container):
    """A signed header and what is final there, within a period."""

    attested_header: LightClientHeader
    finalized_header: LightClientHeader
    finality_branch: Annotated[tuple[Bytes32, ...], Length(get_depth(FINALIZED_ROOT_GINDEX))]
    sync_aggregate: SyncAggregate
    signature_slot: Slot


class LightClientOptimisticUpdate(Container):
    """A signed header, which need not become final."""

    attested_header: LightClientHeader
    sync_aggregate: SyncAggregate
    signature_slot: Slot


RECORDS = collect_records(globals(), phase0.RECORDS)
