"""Blocks with payloads (bellatrix, capella), and changes of credentials (capella/p2p-interface)."""

from __future__ import annotations

from anchor.consensus.containers.capella import SignedBLSToExecutionChange
from anchor.consensus.containers.phase0 import BeaconBlock
from anchor.consensus.fork_choice.bellatrix import PayloadStatus
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.gossip.base import Base, Statuses, ignore_unless
from anchor.consensus.gossip.blocks import Blocks


class PayloadBlocks(Blocks):
    """A refused parent is its sender's fault only while nobody has judged its payload."""

    def is_execution_enabled(self, state: State, body: Body) -> bool:
        """Whether a block's payload counts."""
        return bool(self.rules.is_execution_enabled(state, body))

    def verify_block_parent(self, store: Store, block: BeaconBlock, statuses: Statuses) -> None:
        parent = block.parent_root
        if parent in self.seen.unimported:
            justified = store.block_states[store.justified_checkpoint.root]
            judged = statuses.get(parent, PayloadStatus.SYNCING) is not PayloadStatus.SYNCING
            ignore_unless(
                not (judged and self.is_execution_enabled(justified, block.body)),
                lambda: f"The parent of the block of slot {block.slot} was refused, its payload judged.",
            )
        self.verify_known(store, parent)

    def verify_block_content(self, store: Store, block: BeaconBlock, statuses: Statuses) -> None:
        state, body = self.get_head_state(store), block.body
        if not self.is_execution_enabled(state, body):
            return
        ignore_unless(
            statuses.get(block.parent_root) is not PayloadStatus.INVALID,
            lambda: f"The parent of the block of slot {block.slot} has a payload that is invalid.",
        )
        payload = body.execution_payload  # type: ignore[attr-defined]  # of bellatrix on
        time = self.rules.compute_time_at_slot(state.genesis_time, block.slot)
        require(
            payload.timestamp == time,
            lambda: f"The payload of slot {block.slot} has time {payload.timestamp}, and the slot {time}.",
        )


class MergedBlocks(PayloadBlocks):
    """The merge is past."""

    def is_execution_enabled(self, state: State, body: Body) -> bool:
        return True


class CredentialChanges(Base):
    """The topic bls_to_execution_change."""

    def validate_bls_to_execution_change(
        self, store: Store, signed: SignedBLSToExecutionChange, time_ms: int
    ) -> None:
        """The first change of a validator's credentials."""
        key = "bls_to_execution_change", signed.message.validator_index
        self.ignore_seen(key)
        ignore_unless(
            not self.is_future_epoch(store, self.config.CAPELLA_FORK_EPOCH, time_ms),
            lambda: "There are no changes of credentials before capella.",
        )
        self.rules.process_bls_to_execution_change(self.get_head_state(store).copy(), signed)
        self.seen.keys.add(key)
