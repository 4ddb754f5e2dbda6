"""Light-client data that a full node derives (altair … gloas, light-client/full-node).

Each record is in the form of the fork that rules in its attested (or bootstrap) header's slot.
"""

from __future__ import annotations

from typing import Any

from anchor.consensus.containers.phase0 import BeaconBlockHeader
from anchor.consensus.light_client.headers import Branch, Forms, Header
from anchor.errors import Misuse
from anchor.merkle.gindex import GeneralizedIndex, get_depth
from anchor.merkle.proof import build_proof
from anchor.merkle.scope import Scope
from anchor.params import EXECUTION_BLOCK_HASH_GINDEX_GLOAS, EXECUTION_PAYLOAD_GINDEX

Block = Any
"""A SignedBeaconBlock of any fork."""
State = Any
"""A BeaconState of any fork."""
Record = Any
"""A record in the fork's form that the method names."""


class Deriver:
    """Makes light-client data in one fork's form; blocks and states may be of that fork or an earlier one."""

    def __init__(self, forms: Forms, scope: Scope) -> None:
        self._forms, self._scope = forms, scope

    def block_to_light_client_header(self, block: Block, scope: Scope) -> Header:
        """The header of a block, whose records are those of `scope`."""
        message = block.message
        beacon = BeaconBlockHeader(
            slot=message.slot,
            proposer_index=message.proposer_index,
            parent_root=message.parent_root,
            state_root=message.state_root,
            body_root=scope.hash_tree_root(message.body),
        )
        empty = self._default("LightClientHeader")
        if "execution_branch" not in empty.fields or not self._forms.has_started("capella", message.slot):
            return empty.replace(beacon=beacon)
        body = scope.schema("BeaconBlockBody").tree(message.body)
        if "execution" in empty.fields:
            execution = self._to_execution_header(message.body.execution_payload, scope)
            branch = build_proof(body, EXECUTION_PAYLOAD_GINDEX)
            return empty.replace(beacon=beacon, execution=execution, execution_branch=branch)
        return self._to_gloas_header(empty.replace(beacon=beacon), message, scope)

    def _to_gloas_header(self, header: Header, message: Any, scope: Scope) -> Header:
        body = message.body
        if self._forms.has_started("gloas", message.slot):
            index = EXECUTION_BLOCK_HASH_GINDEX_GLOAS
            block_hash = body.signed_execution_payload_bid.message.parent_block_hash
        else:
            index = self._forms.block_hash_gindex_at_slot(message.slot)
            block_hash = body.execution_payload.block_hash
        branch = build_proof(scope.schema("BeaconBlockBody").tree(body), index)
        wanted = get_depth(EXECUTION_BLOCK_HASH_GINDEX_GLOAS)
        return header.replace(execution_block_hash=block_hash, execution_branch=_lengthen(branch, wanted))

    def _to_execution_header(self, payload: Any, scope: Scope) -> Record:
        """A payload with roots for its lists, in this fork's form."""
        empty = self._default("ExecutionPayloadHeader")
        schemas = scope.schema(type(payload)).schemas
        values = {}
        for name in empty.fields:
            listed = name.removesuffix("_root")
            if listed in ("transactions", "withdrawals"):
                values[name] = schemas[listed].hash_tree_root(getattr(payload, listed))
            else:  # the blobs' gas is zero in a payload that has none
                values[name] = getattr(payload, name, getattr(empty, name))
        return type(empty)(**values)

    def create_light_client_bootstrap(self, state: State, block: Block, scope: Scope) -> Record:
        """Where a light client that trusts `block` starts; `state` is the one that the block leads to."""
        header = self.block_to_light_client_header(block, scope)
        if scope.hash_tree_root(state) != header.beacon.state_root:
            raise Misuse("The state is not the one that the block leads to.")
        index = self._forms.current_sync_committee_gindex_at_slot(state.slot)
        empty = self._default("LightClientBootstrap")
        return empty.replace(
            header=header,
            current_sync_committee=state.current_sync_committee,
            current_sync_committee_branch=_prove(scope, state, index, empty.current_sync_committee_branch),
        )

    def create_light_client_update(
        self,
        block: Block,
        attested: tuple[State, Block, Scope],
        finalized: tuple[Block, Scope] | None,
    ) -> Record:
        """What the sync aggregate in `block` says of its parent, `attested`, and of what is final there.

        `finalized` is the block of the attested state's finalised checkpoint, where it is known.
        """
        state, attested_block, scope = attested
        slot, forms = attested_block.message.slot, self._forms
        empty = self._default("LightClientUpdate")
        update = empty.replace(
            attested_header=self.block_to_light_client_header(attested_block, scope),
            sync_aggregate=block.message.body.sync_aggregate,
            signature_slot=block.message.slot,
        )
        period = forms.compute_sync_committee_period_at_slot
        if period(slot) == period(block.message.slot):
            index = forms.next_sync_committee_gindex_at_slot(slot)
            update = update.replace(
                next_sync_committee=state.next_sync_committee,
                next_sync_committee_branch=_prove(scope, state, index, empty.next_sync_committee_branch),
            )
        if finalized is not None:
            final_block, final_scope = finalized
            if final_block.message.slot:
                header = self.block_to_light_client_header(final_block, final_scope)
                update = update.replace(finalized_header=header)
            index = forms.finalized_root_gindex_at_slot(slot)
            update = update.replace(finality_branch=_prove(scope, state, index, empty.finality_branch))
        return update

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


def _prove(scope: Scope, state: State, index: GeneralizedIndex, like: Branch) -> Branch:
    """The branch of a node of `state`, as long as `like`."""
    return _lengthen(build_proof(scope.schema(type(state)).tree(state), index), len(like))


def _lengthen(branch: Branch, length: int) -> Branch:
    """A branch of an earlier fork in a later one's form: zero nodes first."""
    return (bytes(32),) * (length - len(branch)) + tuple(branch)
