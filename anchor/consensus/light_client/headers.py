"""Headers of light clients, each in the form of its own fork (altair … gloas, light-client/sync-protocol).

A header's form is its record class; which commitments hold in it is told by its slot. So nothing is ever
upgraded: a store keeps headers as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anchor.consensus.containers.capella import ExecutionPayloadHeader as CapellaExecution
from anchor.consensus.containers.deneb import ExecutionPayloadHeader as DenebExecution
from anchor.consensus.fork_epochs import get_fork_epoch
from anchor.consensus.presets import Config, Preset
from anchor.merkle.gindex import GeneralizedIndex, get_depth
from anchor.merkle.proof import compute_merkle_root, is_valid_merkle_branch
from anchor.merkle.scope import Scope
from anchor.merkle.ssz import Schema, get_generalized_index
from anchor.params import (
    CURRENT_SYNC_COMMITTEE_GINDEX,
    CURRENT_SYNC_COMMITTEE_GINDEX_ELECTRA,
    CURRENT_SYNC_COMMITTEE_GINDEX_GLOAS,
    EXECUTION_BLOCK_HASH_GINDEX,
    EXECUTION_BLOCK_HASH_GINDEX_DENEB,
    EXECUTION_BLOCK_HASH_GINDEX_GLOAS,
    EXECUTION_PAYLOAD_GINDEX,
    FINALIZED_ROOT_GINDEX,
    FINALIZED_ROOT_GINDEX_ELECTRA,
    FINALIZED_ROOT_GINDEX_GLOAS,
    NEXT_SYNC_COMMITTEE_GINDEX,
    NEXT_SYNC_COMMITTEE_GINDEX_ELECTRA,
    NEXT_SYNC_COMMITTEE_GINDEX_GLOAS,
)
from anchor.types import Bytes32, Epoch, Root, Slot

Header = Any
"""A LightClientHeader of any fork."""
Branch = Sequence[bytes]


class Forms:
    """What headers and branches commit to, by slot, on one network."""

    def __init__(self, preset: Preset, config: Config) -> None:
        self.preset, self.config = preset, config
        scope = Scope(preset)
        self._capella, self._deneb = scope.schema(CapellaExecution), scope.schema(DenebExecution)

    def compute_epoch_at_slot(self, slot: Slot) -> Epoch:
        """The epoch that `slot` lies in."""
        return slot // self.preset.SLOTS_PER_EPOCH

    def compute_sync_committee_period_at_slot(self, slot: Slot) -> int:
        """The sync committee period that `slot` lies in."""
        return self.compute_epoch_at_slot(slot) // self.preset.EPOCHS_PER_SYNC_COMMITTEE_PERIOD

    def has_started(self, fork: str, slot: Slot) -> bool:
        """Whether `fork` rules in `slot`, or did before it."""
        return self.compute_epoch_at_slot(slot) >= get_fork_epoch(self.config, fork)

    def _by_slot(self, slot: Slot, altair: int, electra: int, gloas: int) -> GeneralizedIndex:
        if self.has_started("gloas", slot):
            return gloas
        return electra if self.has_started("electra", slot) else altair

    def finalized_root_gindex_at_slot(self, slot: Slot) -> GeneralizedIndex:
        """Where a state of `slot` has the root of its finalised checkpoint."""
        return self._by_slot(
            slot, FINALIZED_ROOT_GINDEX, FINALIZED_ROOT_GINDEX_ELECTRA, FINALIZED_ROOT_GINDEX_GLOAS
        )

    def current_sync_committee_gindex_at_slot(self, slot: Slot) -> GeneralizedIndex:
        """Where a state of `slot` has its current sync committee."""
        return self._by_slot(
            slot,
            CURRENT_SYNC_COMMITTEE_GINDEX,
            CURRENT_SYNC_COMMITTEE_GINDEX_ELECTRA,
            CURRENT_SYNC_COMMITTEE_GINDEX_GLOAS,
        )

    def next_sync_committee_gindex_at_slot(self, slot: Slot) -> GeneralizedIndex:
        """Where a state of `slot` has its next sync committee."""
        return self._by_slot(
            slot,
            NEXT_SYNC_COMMITTEE_GINDEX,
            NEXT_SYNC_COMMITTEE_GINDEX_ELECTRA,
            NEXT_SYNC_COMMITTEE_GINDEX_GLOAS,
        )

    def is_valid_light_client_header(self, header: Header) -> bool:
        """Whether what a header says of the execution layer is what its block's body commits to."""
        slot = header.beacon.slot
        if "execution_branch" not in header.fields:  # altair's form, which tells nothing
            return not self.has_started("capella", slot)
        if not self.has_started("capella", slot):
            return is_zero(header.execution_branch) and self._tells_nothing(header)
        if "execution" not in header.fields:
            index = self.block_hash_gindex_at_slot(slot)
            leaf = header.execution_block_hash
        elif self.has_started("gloas", slot) or not self._fits_its_fork(header):
            return False
        else:
            index, leaf = EXECUTION_PAYLOAD_GINDEX, self.get_lc_execution_root(header)
        return is_valid_normalized_merkle_branch(
            leaf, header.execution_branch, index, header.beacon.body_root
        )

    def is_empty(self, header: Header) -> bool:
        """Whether a header is left out: every field is zero."""
        beacon = header.beacon
        if beacon.slot or beacon.proposer_index:
            return False
        if not is_zero([beacon.parent_root, beacon.state_root, beacon.body_root]):
            return False
        tells = "execution_branch" in header.fields
        return not tells or (is_zero(header.execution_branch) and self._tells_nothing(header))

    def _tells_nothing(self, header: Header) -> bool:
        if "execution" not in header.fields:
            return bool(header.execution_block_hash == bytes(32))
        schema = self._deneb if "blob_gas_used" in header.execution.fields else self._capella
        return bool(header.execution.values() == schema.default().values())

    def _fits_its_fork(self, header: Header) -> bool:
        """Blobs' gas is zero before deneb, and not left out after it."""
        has_blobs = "blob_gas_used" in header.execution.fields
        if self.has_started("deneb", header.beacon.slot):
            return has_blobs
        return not has_blobs or (header.execution.blob_gas_used, header.execution.excess_blob_gas) == (0, 0)

    def execution_schema_at_slot(self, slot: Slot) -> Schema[Any]:
        """The SSZ type whose root a block of `slot`, from capella to fulu, has of its execution payload."""
        return self._deneb if self.has_started("deneb", slot) else self._capella

    def block_hash_gindex_at_slot(self, slot: Slot) -> GeneralizedIndex:
        """Where a block's body of `slot` has the execution block's hash."""
        if self.has_started("gloas", slot):
            return EXECUTION_BLOCK_HASH_GINDEX_GLOAS
        return (
            EXECUTION_BLOCK_HASH_GINDEX_DENEB
            if self.has_started("deneb", slot)
            else EXECUTION_BLOCK_HASH_GINDEX
        )

    def get_lc_execution_root(self, header: Header) -> Root:
        """The root of the execution payload's header: from gloas on its hash, before capella zero."""
        slot = header.beacon.slot
        if not self.has_started("capella", slot):
            return bytes(32)
        if "execution" in header.fields:
            return self.execution_schema_at_slot(slot).hash_tree_root(header.execution)
        if self.has_started("gloas", slot):
            return bytes(header.execution_block_hash)
        inside = get_generalized_index(self.execution_schema_at_slot(slot), "block_hash")
        depth = get_depth(inside)
        outer = len(header.execution_branch) - get_depth(EXECUTION_PAYLOAD_GINDEX)
        branch = header.execution_branch[outer - depth : outer]
        return compute_merkle_root(header.execution_block_hash, branch, inside)


def is_zero(branch: Branch) -> bool:
    """Whether a branch is left out: all its nodes are zero."""
    return not any(map(any, branch))


def is_valid_normalized_merkle_branch(
    leaf: Bytes32, branch: Branch, index: GeneralizedIndex, root: Root
) -> bool:
    """Whether `leaf` stands at `index`, by a branch that a later fork may have lengthened with zero nodes."""
    extra = len(branch) - get_depth(index)
    return (
        extra >= 0 and is_zero(branch[:extra]) and is_valid_merkle_branch(leaf, branch[extra:], index, root)
    )
