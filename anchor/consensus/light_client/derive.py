"""Light-client data that a full node derives (altair … gloas, light-client/full-node).

Each record is in the form of the fork that rules in its attested (or bootstrap) header's slot.
"""

from __future__ import annotations

from typing import Any

from anchor.consensus.containers.phase0 import BeaconBlockHeader
from anchor.consensus.light_client.headers import Branch, Forms, Header
from anchor.merkle.gindex import GeneralizedIndex, get_depth
from anchor.merkle.proof import build_proof
from anchor.merkle.scope import Scope
from anchor.merkle.ssz import get_generalized_index
from anchor.params import EXECUTION_BLOCK_HASH_GINDEX_GLOAS, EXECUTION_PAYLOAD_GINDEX

Block = Any
"""A SignedBeaconBlock of the deriver's fork."""
State = Any
"""A BeaconState of the deriver's fork."""
Record = Any
"""A record in the deriver's form, which the method names."""


class Deriver:
    """Makes light-client data out of one fork's blocks and states; `scope` has the fork's records."""

    def __init__(self, forms: Forms, scope: Scope) -> None:
        self._forms, self._scope = forms, scope

    def block_to_light_client_header(self, block: Block) -> Header:
        """The header of a block."""
        message = block.message
        beacon = BeaconBlockHeader(
            slot=message.slot,
            proposer_index=message.proposer_index,
            parent_root=message.parent_root,
            state_root=message.state_root,
            body_root=self._scope.hash_tree_root(message.body),
        )
        header = self._default("LightClientHeader").replace(beacon=beacon)
        if "execution" in header.fields:
            execution = self._to_execution_header(message.body.execution_payload)
            branch = self._prove(message.body, EXECUTION_PAYLOAD_GINDEX)
            return header.replace(execution=execution, execution_branch=branch)
        if "execution_block_hash" in header.fields:
            bid = message.body.signed_execution_payload_bid.message
            branch = self._prove(message.body, EXECUTION_BLOCK_HASH_GINDEX_GLOAS)
            return header.replace(execution_block_hash=bid.parent_block_hash, execution_branch=branch)
        return header

    def _to_execution_header(self, payload: Any) -> Record:
        """A payload with roots for its lists."""
        schemas = self._scope.schema(type(payload)).schemas
        kind = self._scope.schema("ExecutionPayloadHeader").record
        values = {}
        for name in kind.fields:
            listed = name.removesuffix("_root")
            if listed in ("transactions", "withdrawals"):
                values[name] = schemas[listed].hash_tree_root(getattr(payload, listed))
            else:
                values[name] = getattr(payload, name)
        return kind(**values)

    def upgrade_header(self, header: Header) -> Header:
        """A header in this form, given in it or an earlier fork's: what it commits to is the same."""
        empty, slot = self._default("LightClientHeader"), header.beacon.slot
        if not self._forms.has_started("capella", slot):
            return empty.replace(beacon=header.beacon)
        if "execution" in empty.fields:
            execution = header.execution  # the blobs' gas is zero in one that has none
            values = {name: getattr(execution, name, 0) for name in empty.execution.fields}
            return header.replace(execution=type(empty.execution)(**values))
        if "execution_block_hash" in header.fields:
            return header
        schema = self._forms.execution_schema_at_slot(slot)
        inside = build_proof(schema.tree(header.execution), get_generalized_index(schema, "block_hash"))
        branch = (*inside, *header.execution_branch)
        padding = (bytes(32),) * (get_depth(EXECUTION_BLOCK_HASH_GINDEX_GLOAS) - len(branch))
        return empty.replace(
            beacon=header.beacon,
            execution_block_hash=header.execution.block_hash,
            execution_branch=padding + branch,
        )

    def create_light_client_bootstrap(self, header: Header, state: State) -> Record:
        """Where a light client starts that trusts the block of `header`, which leads to `state`."""
        index = self._forms.current_sync_committee_gindex_at_slot(state.slot)
        return self._scope.schema("LightClientBootstrap").record(
            header=header,
            current_sync_committee=state.current_sync_committee,
            current_sync_committee_branch=self._prove(state, index),
        )

    def create_unsigned_update(self, header: Header, state: State, finalized: Header | None) -> Record:
        """The update that attests the block of `header`, which leads to `state`: it lacks the signature.

        `finalized` is the header of the state's finalised checkpoint, in any form; None where it isn't known.
        """
        forms, slot = self._forms, header.beacon.slot
        update = self._default("LightClientUpdate").replace(
            attested_header=header,
            next_sync_committee=state.next_sync_committee,
            next_sync_committee_branch=self._prove(state, forms.next_sync_committee_gindex_at_slot(slot)),
        )
        if finalized is None:
            return update
        if finalized.beacon.slot:  # the genesis block's header is left out: the checkpoint's root is zero
            update = update.replace(finalized_header=self.upgrade_header(finalized))
        branch = self._prove(state, forms.finalized_root_gindex_at_slot(slot))
        return update.replace(finality_branch=branch)

    def create_light_client_update(self, unsigned: Record, block: Any) -> Record:
        """`unsigned`, signed by the sync aggregate in a child of the attested block, of any fork.

        Only the committee of the attested block's period vouches for the next one.
        """
        period, slot = self._forms.compute_sync_committee_period_at_slot, block.message.slot
        update = unsigned.replace(sync_aggregate=block.message.body.sync_aggregate, signature_slot=slot)
        if period(slot) == period(update.attested_header.beacon.slot):
            return update
        empty = self._default("LightClientUpdate")
        return update.replace(
            next_sync_committee=empty.next_sync_committee,
            next_sync_committee_branch=empty.next_sync_committee_branch,
        )

    def create_light_client_finality_update(self, update: Any) -> Record:
        """The part of an update that tells what is final."""
        return self._cut(update, "LightClientFinalityUpdate")

    def create_light_client_optimistic_update(self, update: Any) -> Record:
        """The part of an update that tells what is newest."""
        return self._cut(update, "LightClientOptimisticUpdate")

    def _cut(self, update: Any, name: str) -> Record:
        kind = self._scope.schema(name).record
        return kind.from_values([getattr(update, field) for field in kind.fields])

    def _default(self, name: str) -> Any:
        return self._scope.schema(name).default()

    def _prove(self, record: Any, index: GeneralizedIndex) -> Branch:
        return build_proof(self._scope.schema(type(record)).tree(record), index)
