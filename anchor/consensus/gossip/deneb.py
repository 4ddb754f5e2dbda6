"""Blobs, votes that stay valid for an epoch (deneb), votes by committee bits (electra/p2p-interface)."""

from __future__ import annotations

from typing import Any

from anchor.consensus import kzg
from anchor.consensus.containers.deneb import BlobSidecar
from anchor.consensus.containers.electra import SingleAttestation
from anchor.consensus.containers.phase0 import AttestationData, BeaconBlock
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.gossip.base import NO_STATUSES, Statuses, ignore_unless
from anchor.consensus.gossip.bellatrix import MergedBlocks
from anchor.consensus.gossip.votes import Votes
from anchor.merkle.proof import verify_merkle_branch
from anchor.merkle.ssz import get_generalized_index
from anchor.params import DOMAIN_BEACON_ATTESTER
from anchor.types import CommitteeIndex


class BlobBlocks(MergedBlocks):
    """Blocks may commit to so many blobs; the topic blob_sidecar_{subnet_id}."""

    blob_subnets = "BLOB_SIDECAR_SUBNET_COUNT"
    """The constant of a network's configuration that says how many subnets there are."""

    def verify_block_content(self, store: Store, block: BeaconBlock, statuses: Statuses) -> None:
        super().verify_block_content(store, block, statuses)
        commitments = block.body.blob_kzg_commitments  # type: ignore[attr-defined]  # of deneb on
        self.verify_blob_count(block.slot, len(commitments))

    def verify_blob_count(self, slot: int, count: int) -> None:
        """Raises InvalidTransition for more blobs than a block may have."""
        limit = self.rules.get_max_blobs_per_block(self.rules.compute_epoch_at_slot(slot))
        require(count <= limit, lambda: f"The block of slot {slot} has {count} blobs, of {limit} at most.")

    def validate_blob_sidecar(self, store: Store, sidecar: BlobSidecar, time_ms: int, subnet_id: int) -> None:
        """The first blob of its block's slot, proposer and index, proven to be the block's."""
        header, index = sidecar.signed_block_header.message, sidecar.index
        key = "blob_sidecar", header.slot, header.proposer_index, index
        self.ignore_seen(key)
        self.verify_blob_count(header.slot, index + 1)
        subnet = index % self.config[self.blob_subnets]
        require(subnet_id == subnet, lambda: f"Blob {index} is for subnet {subnet}, not {subnet_id}.")
        self.verify_header_time(store, header, time_ms)
        self.verify_known(store, header.parent_root)
        self.verify_header(store, header, sidecar.signed_block_header.signature)
        self.verify_blob(sidecar)
        self.verify_expected_proposer(store, header)
        self.seen.keys.add(key)

    def verify_blob(self, sidecar: BlobSidecar) -> None:
        """Raises an error unless the block commits to the blob: InvalidProof, InvalidTransition."""
        body, index = self.rules.scope.schema("BeaconBlockBody"), sidecar.index
        place = get_generalized_index(body, "blob_kzg_commitments", index)
        leaf = body.schemas["blob_kzg_commitments"].element.hash_tree_root(sidecar.kzg_commitment)
        root = sidecar.signed_block_header.message.body_root
        verify_merkle_branch(leaf, sidecar.kzg_commitment_inclusion_proof, place, root, f"blob {index}")
        proven = kzg.verify_blob_kzg_proof_batch(
            [sidecar.blob], [sidecar.kzg_commitment], [sidecar.kzg_proof]
        )
        require(proven, lambda: f"Blob {index} is not what its commitment says.")


class RecentVotes(Votes):
    """Votes are passed on until the epoch after theirs ends (EIP-7045)."""

    def verify_vote_time(self, store: Store, data: AttestationData, time_ms: int) -> None:
        self.ignore_future(store, data.slot, time_ms)
        epoch = self.rules.compute_epoch_at_slot(data.slot)
        ignore_unless(
            self.is_current_or_previous_epoch(store, epoch, time_ms),
            lambda: f"A vote of slot {data.slot} comes too late.",
        )


class SingleVotes(RecentVotes):
    """Who votes alone gives its index, and an aggregate its committee by a bit (EIP-7549)."""

    def verify_vote_index(self, data: AttestationData) -> None:
        """Raises InvalidTransition unless the index says nothing."""
        require(data.index == 0, lambda: f"A vote of slot {data.slot} has index {data.index}, not 0.")

    def get_aggregate_committee_index(self, aggregate: Any) -> CommitteeIndex:
        self.verify_vote_index(aggregate.data)
        committees = self.rules.get_committee_indices(aggregate.committee_bits)
        require(len(committees) == 1, lambda: f"An aggregate is of committees {committees}, not of one.")
        index: CommitteeIndex = committees[0]
        return index

    def validate_beacon_attestation(  # type: ignore[override]  # votes have another form
        self,
        store: Store,
        attestation: SingleAttestation,
        time_ms: int,
        subnet_id: int,
        statuses: Statuses = NO_STATUSES,
    ) -> None:
        """The first vote of a validator for its epoch, on its committee's subnet."""
        data, index = attestation.data, attestation.attester_index
        key = "attestation", data.target.epoch, index
        self.ignore_seen(key)
        self.verify_vote_index(data)
        state, committee = self.get_voters(store, data, attestation.committee_index, time_ms, subnet_id)
        require(
            index in committee,
            lambda: f"Validator {index} is not in committee {attestation.committee_index} of {data.slot}.",
        )
        message = self.compute_message(state, data, DOMAIN_BEACON_ATTESTER, data.target.epoch)
        self.verify_signature(state, index, message, attestation.signature, f"a vote of slot {data.slot}")
        self.verify_vote_place(store, data, statuses)
        self.seen.keys.add(key)
