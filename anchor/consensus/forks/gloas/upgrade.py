"""From fulu to gloas (gloas/fork)."""

from __future__ import annotations

from anchor.consensus.containers.electra import PendingDeposit
from anchor.consensus.containers.gloas import ExecutionPayloadBid
from anchor.consensus.forks.gloas.block import GloasBlockProcessing
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.registry import get_pubkeys
from anchor.merkle.bits import Bits
from anchor.merkle.lazy import np
from anchor.params import BUILDER_INDEX_SELF_BUILD


class Gloas(GloasBlockProcessing):
    """The rules of gloas."""

    def upgrade(self, pre: State) -> State:
        """A state of fulu as a state of gloas (upgrade_to_gloas)."""
        length, epoch = self.preset.SLOTS_PER_EPOCH, self.get_current_epoch(pre)
        post = self.carry_over(
            pre,
            latest_block_hash=pre.latest_execution_payload_header.block_hash,
            builders=(),
            next_withdrawal_builder_index=0,
            execution_payload_availability=Bits([True] * self.preset.SLOTS_PER_HISTORICAL_ROOT),
            builder_pending_payments=(self.get_empty_payment(),) * (2 * length),
            builder_pending_withdrawals=(),
            latest_execution_payload_bid=self.get_bid_before_gloas(pre),
            payload_expected_withdrawals=(),
            ptc_window=((0,) * self.preset.PTC_SIZE,) * length,
        )
        for ahead in range(self.preset.MIN_SEED_LOOKAHEAD + 1):
            post.ptc_window += self.compute_ptcs(post, epoch + ahead)
        self.onboard_builders_from_pending_deposits(post)
        return post

    def get_bid_before_gloas(self, pre: State) -> ExecutionPayloadBid:
        """The bid that the last payload before the fork would have had."""
        header = pre.latest_execution_payload_header
        requests = self.scope.schema("ExecutionRequests")
        return ExecutionPayloadBid(
            parent_block_hash=header.parent_hash,
            parent_block_root=pre.latest_block_header.parent_root,
            block_hash=header.block_hash,
            prev_randao=header.prev_randao,
            fee_recipient=bytes(20),
            gas_limit=header.gas_limit,
            builder_index=BUILDER_INDEX_SELF_BUILD,
            slot=pre.latest_block_header.slot,
            value=0,
            execution_payment=0,
            blob_kzg_commitments=(),
            execution_requests_root=requests.hash_tree_root(requests.default()),
        )

    def onboard_builders_from_pending_deposits(self, state: State) -> None:
        """Makes builders of the queued deposits that are meant for builders."""
        known = set(get_pubkeys(state.validators, np.arange(len(state.validators))))
        kept: list[PendingDeposit] = []
        for deposit in state.pending_deposits:
            if deposit.pubkey in known:
                kept.append(deposit)
                continue
            index = self.find_builder(state, deposit.pubkey)
            if index is not None:
                self.increase_builder_balance(state, index, deposit.amount)
            elif not self.is_builder_deposit(kept, deposit):
                kept.append(deposit)
            elif self.is_signed_deposit(deposit):
                credentials, epoch = deposit.withdrawal_credentials, self.compute_epoch_at_slot(deposit.slot)
                self.add_builder_to_registry(state, deposit.pubkey, credentials, deposit.amount, epoch)
        state.pending_deposits = tuple(kept)

    def is_builder_deposit(self, queue: list[PendingDeposit], deposit: PendingDeposit) -> bool:
        """Whether a deposit is meant for a builder, and none before it makes a validator of its key."""
        is_for_builder = self.is_builder_withdrawal_credential(deposit.withdrawal_credentials)
        same_key = [other for other in queue if other.pubkey == deposit.pubkey]
        return is_for_builder and not any(self.is_signed_deposit(other) for other in same_key)

    def is_signed_deposit(self, deposit: PendingDeposit) -> bool:
        """Whether a deposit's signature is valid."""
        return self.is_valid_deposit_signature(
            deposit.pubkey, deposit.withdrawal_credentials, deposit.amount, deposit.signature
        )
