"""Blocks with bids, columns by their block, votes on payloads (gloas/p2p-interface)."""

from __future__ import annotations

from anchor.consensus.containers.gloas import SignedExecutionPayloadEnvelope
from anchor.consensus.containers.gloas_network import (
    DataColumnSidecar,
    PartialDataColumnGroupID,
    PartialDataColumnSidecar,
)
from anchor.consensus.containers.phase0 import AttestationData, BeaconBlock
from anchor.consensus.fork_choice.bellatrix import PayloadStatus
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.gossip.base import Statuses, ignore_unless
from anchor.consensus.gossip.deneb import BlobBlocks, SingleVotes
from anchor.consensus.gossip.fulu import Columns

LIMITS = {
    "proposer_slashings": "MAX_PROPOSER_SLASHINGS",
    "attester_slashings": "MAX_ATTESTER_SLASHINGS_ELECTRA",
    "attestations": "MAX_ATTESTATIONS_ELECTRA",
    "voluntary_exits": "MAX_VOLUNTARY_EXITS",
    "bls_to_execution_changes": "MAX_BLS_TO_EXECUTION_CHANGES",
    "payload_attestations": "MAX_PAYLOAD_ATTESTATIONS",
}
"""Lists of a body, which have no limit by their types, and the constants that limit them."""


class BidBlocks(BlobBlocks):
    """Blocks hold bids; payloads come apart."""

    def verify_block_limits(self, block: BeaconBlock) -> None:
        body: Body = block.body
        for name, limit in LIMITS.items():
            self.rules.verify_count(name, len(getattr(body, name)), self.preset[limit])
        self.rules.verify_count("deposits", len(body.deposits), 0)
        self.rules.verify_request_counts(body.parent_execution_requests)

    def verify_block_parent(self, store: Store, block: BeaconBlock, statuses: Statuses) -> None:
        self.verify_known(store, block.parent_root)

    def verify_block_content(self, store: Store, block: BeaconBlock, statuses: Statuses) -> None:
        bid, parent = self.choice.get_bid(block), block.parent_root
        full = self.choice.is_parent_node_full(store, block)
        ignore_unless(
            not full or self.choice.is_payload_verified(store, parent),
            lambda: f"The block of slot {block.slot} builds on its parent's payload, which has not come.",
        )
        self.verify_blob_count(block.slot, len(bid.blob_kzg_commitments))
        require(
            bid.parent_block_root == parent,
            lambda: f"The bid in the block of slot {block.slot} builds on another block.",
        )

    def verify_block_on_parent(self, store: Store, block: BeaconBlock, state: State) -> None:
        bid = self.choice.get_bid(block)
        require(
            self.choice.is_parent_node_full(store, block) or bid.parent_block_hash == state.latest_block_hash,
            lambda: f"The bid in the block of slot {block.slot} builds on another payload.",
        )


class BidColumns(Columns):
    """Columns name their block, whose bid has the commitments."""

    def validate_data_column_sidecar(  # type: ignore[override]  # columns have another form
        self, store: Store, sidecar: DataColumnSidecar, time_ms: int, subnet_id: int
    ) -> None:
        """The first column of its block and index."""
        root, index = sidecar.beacon_block_root, sidecar.index
        key = "data_column_sidecar", root, index
        self.ignore_seen(key)
        self.verify_column_subnet(index, subnet_id)
        self.ignore_future(store, sidecar.slot, time_ms)
        commitments = self.get_commitments(store, root, sidecar.slot)
        self.choice.verify_data_column_sidecar(sidecar, commitments)
        self.choice.verify_data_column_sidecar_kzg_proofs(sidecar, commitments)
        self.seen.keys.add(key)

    def validate_partial_data_column_sidecar(  # type: ignore[override]  # no header, no time
        self,
        store: Store,
        sidecar: PartialDataColumnSidecar,
        group_id: PartialDataColumnGroupID,
        column_index: int,
    ) -> None:
        """Some cells of a column whose block has come."""
        require(self.verify_cell_counts(sidecar) > 0, lambda: "A partial column is empty.")
        commitments = self.get_commitments(store, group_id.beacon_block_root, group_id.slot)
        self.verify_cells(sidecar, commitments, column_index)

    def get_commitments(self, store: Store, root: bytes, slot: int) -> tuple[bytes, ...]:
        """What the bid of a block commits to. Raises an error unless the block is there, and of `slot`."""
        self.verify_known(store, root)
        block = store.blocks[root]
        require(block.slot == slot, lambda: f"A column is of slot {slot}, its block of slot {block.slot}.")
        commitments: tuple[bytes, ...] = self.choice.get_bid(block).blob_kzg_commitments
        return commitments


class PayloadVotes(SingleVotes):
    """The index of a vote says whether the block's payload came."""

    def verify_vote_index(self, data: AttestationData) -> None:
        require(data.index <= 1, lambda: f"A vote of slot {data.slot} has index {data.index}, not 0 or 1.")

    def verify_vote_place(self, store: Store, data: AttestationData, statuses: Statuses) -> None:
        super().verify_vote_place(store, data, statuses)
        root, index = data.beacon_block_root, data.index
        require(
            index == 0 or store.blocks[root].slot != data.slot,
            lambda: f"A vote for a block of its own slot {data.slot} has index 1.",
        )
        if index == 0:
            return
        status = statuses.get(root, PayloadStatus.SYNCING)
        ignore_unless(
            self.choice.is_payload_verified(store, root) and status is not PayloadStatus.SYNCING,
            lambda: f"The payload of block {root.hex()} has not come, or is yet to be judged.",
        )
        require(status is not PayloadStatus.INVALID, lambda: f"The payload of block {root.hex()} is invalid.")


class Envelopes(BidBlocks):
    """The topic execution_payload."""

    def validate_execution_payload_envelope(
        self, store: Store, signed: SignedExecutionPayloadEnvelope
    ) -> None:
        """The first payload of a builder for a block: the one that the block's bid promises."""
        envelope, payload = signed.message, signed.message.payload
        root, slot = envelope.beacon_block_root, payload.slot_number
        key = "execution_payload", root, envelope.builder_index
        self.ignore_seen(key)
        self.verify_known(store, root)
        start = self.rules.compute_start_slot_at_epoch(store.finalized_checkpoint.epoch)
        ignore_unless(slot >= start, lambda: f"The payload is of slot {slot}, and slot {start} is finalised.")
        block = store.blocks[root]
        bid, what = self.choice.get_bid(block), f"The payload of slot {block.slot}"
        requests = self.rules.hash_tree_root(envelope.execution_requests)
        for name, value, expected in (
            ("slot", slot, block.slot),
            ("builder_index", envelope.builder_index, bid.builder_index),
            ("block_hash", payload.block_hash, bid.block_hash),
            ("requests", requests, bid.execution_requests_root),
        ):
            self.rules.verify_equal(what, name, value, expected)
        self.rules.verify_request_counts(envelope.execution_requests)
        limit = self.preset.MAX_WITHDRAWALS_PER_PAYLOAD
        self.rules.verify_count("withdrawals", len(payload.withdrawals), limit)
        self.rules.verify_envelope_signature(store.block_states[root], signed)
        self.seen.keys.add(key)
        self.seen.payloads[payload.block_hash] = payload
