"""The registry of builders, and their requests (gloas/beacon-chain)."""

from __future__ import annotations

from anchor.consensus.containers.gloas import (
    Builder,
    BuilderDepositRequest,
    BuilderExitRequest,
    BuilderPendingPayment,
)
from anchor.consensus.containers.phase0 import DepositMessage
from anchor.consensus.forks.arithmetic import require_uint64
from anchor.consensus.forks.gloas.accessors import GloasAccessors
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.signing import compute_domain
from anchor.errors import InvalidTransition
from anchor.params import (
    BUILDER_INDEX_FLAG,
    BUILDER_WITHDRAWAL_PREFIX,
    DOMAIN_BUILDER_DEPOSIT,
    FAR_FUTURE_EPOCH,
    PAYLOAD_BUILDER_VERSION,
)
from anchor.types import BLSPubkey, BuilderIndex, Bytes32, Epoch, Gwei, ValidatorIndex


def is_builder_index(validator_index: ValidatorIndex) -> bool:
    """Whether the index in a withdrawal is a builder's."""
    return validator_index & BUILDER_INDEX_FLAG != 0


def convert_builder_index_to_validator_index(builder_index: BuilderIndex) -> ValidatorIndex:
    """How a withdrawal names a builder."""
    return builder_index | BUILDER_INDEX_FLAG


def convert_validator_index_to_builder_index(validator_index: ValidatorIndex) -> BuilderIndex:
    """The builder that a withdrawal names."""
    return validator_index & ~BUILDER_INDEX_FLAG


class Builders(GloasAccessors):
    """Builders hold a balance, from which they pay for the right to make payloads."""

    def get_builder(self, state: State, index: BuilderIndex) -> Builder:
        """The builder at `index`. Raises InvalidTransition when there is none."""
        if index >= len(state.builders):
            raise InvalidTransition(f"There is no builder {index}: the registry holds {len(state.builders)}.")
        builder: Builder = state.builders[index]
        return builder

    def set_builder(self, state: State, index: BuilderIndex, builder: Builder) -> None:
        """Writes a builder over the one at `index`, or behind the last."""
        state.builders = (*state.builders[:index], builder, *state.builders[index + 1 :])

    def find_builder(self, state: State, pubkey: BLSPubkey) -> BuilderIndex | None:
        """The index of the builder with this key, or None."""
        found = (index for index, builder in enumerate(state.builders) if builder.pubkey == pubkey)
        return next(found, None)

    def is_active_builder(self, state: State, index: BuilderIndex) -> bool:
        """Whether a builder's deposit is final, and it hasn't begun to exit."""
        builder = self.get_builder(state, index)
        is_final = builder.deposit_epoch < state.finalized_checkpoint.epoch
        return is_final and builder.withdrawable_epoch == FAR_FUTURE_EPOCH

    def is_builder_withdrawal_credential(self, withdrawal_credentials: Bytes32) -> bool:
        """Whether a deposit is meant for a builder."""
        return withdrawal_credentials[:1] == BUILDER_WITHDRAWAL_PREFIX

    def get_pending_balance_to_withdraw_for_builder(self, state: State, index: BuilderIndex) -> Gwei:
        """What a builder owes."""
        payments = [payment.withdrawal for payment in state.builder_pending_payments]
        owed = [*state.builder_pending_withdrawals, *payments]
        return sum([withdrawal.amount for withdrawal in owed if withdrawal.builder_index == index])

    def can_builder_cover_bid(self, state: State, index: BuilderIndex, amount: Gwei) -> bool:
        """Whether a builder could pay `amount` beside all that it owes, and keep the minimum."""
        owed = self.get_pending_balance_to_withdraw_for_builder(state, index)
        return self.get_builder(state, index).balance >= self.preset.MIN_DEPOSIT_AMOUNT + owed + amount

    # Registry

    def add_builder_to_registry(
        self, state: State, pubkey: BLSPubkey, withdrawal_credentials: Bytes32, amount: Gwei, epoch: Epoch
    ) -> None:
        """Makes a builder, in the place of one that is gone if there is one."""
        current = self.get_current_epoch(state)
        gone = (i for i, b in enumerate(state.builders) if b.withdrawable_epoch <= current and b.balance == 0)
        builder = Builder(
            pubkey=pubkey,
            version=PAYLOAD_BUILDER_VERSION,
            execution_address=withdrawal_credentials[12:],
            balance=amount,
            deposit_epoch=epoch,
            withdrawable_epoch=FAR_FUTURE_EPOCH,
        )
        self.set_builder(state, next(gone, len(state.builders)), builder)

    def increase_builder_balance(self, state: State, index: BuilderIndex, amount: Gwei) -> None:
        """Adds `amount` to a builder's balance."""
        builder = self.get_builder(state, index)
        balance = require_uint64(builder.balance + amount, f"The balance of builder {index}")
        self.set_builder(state, index, builder.replace(balance=balance))

    def process_builder_deposit_request(self, state: State, request: BuilderDepositRequest) -> None:
        """Tops up the builder with this key, or makes one when the deposit's signature is valid."""
        if not self.is_builder_withdrawal_credential(request.withdrawal_credentials):
            return
        epoch, index = self.get_current_epoch(state), self.find_builder(state, request.pubkey)
        if index is not None:
            builder = self.get_builder(state, index)
            if builder.withdrawable_epoch != FAR_FUTURE_EPOCH and builder.balance == 0:
                withdrawable_epoch = epoch + self.config.MIN_BUILDER_WITHDRAWABILITY_DELAY
                self.set_builder(state, index, builder.replace(withdrawable_epoch=withdrawable_epoch))
            self.increase_builder_balance(state, index, request.amount)
        elif self.is_valid_builder_deposit_signature(request):
            credentials = request.withdrawal_credentials
            self.add_builder_to_registry(state, request.pubkey, credentials, request.amount, epoch)

    def is_valid_builder_deposit_signature(self, request: BuilderDepositRequest) -> bool:
        """Whether a builder's deposit proves possession of its key; valid on all forks of the network."""
        message = DepositMessage(
            pubkey=request.pubkey,
            withdrawal_credentials=request.withdrawal_credentials,
            amount=request.amount,
        )
        domain = compute_domain(DOMAIN_BUILDER_DEPOSIT, self.config.GENESIS_FORK_VERSION)
        root = self.compute_signing_root(message, domain)
        return self.signatures.verify(request.pubkey, root, request.signature)

    def process_builder_exit_request(self, state: State, request: BuilderExitRequest) -> None:
        """Schedules a builder's exit when its address asks for it and it owes nothing; else does nothing."""
        index = self.find_builder(state, request.pubkey)
        if index is None or not self.is_active_builder(state, index):
            return
        builder = self.get_builder(state, index)
        owed = self.get_pending_balance_to_withdraw_for_builder(state, index)
        if builder.execution_address == request.source_address and owed == 0:
            epoch = self.get_current_epoch(state) + self.config.MIN_BUILDER_WITHDRAWABILITY_DELAY
            self.set_builder(state, index, builder.replace(withdrawable_epoch=epoch))

    # Payments

    def set_builder_payment(self, state: State, place: int, payment: BuilderPendingPayment) -> None:
        """Writes the payment at `place`: slots of the previous epoch, then of this one."""
        payments = state.builder_pending_payments
        state.builder_pending_payments = (*payments[:place], payment, *payments[place + 1 :])

    def get_empty_payment(self) -> BuilderPendingPayment:
        """No payment."""
        payment: BuilderPendingPayment = self.scope.schema(BuilderPendingPayment).default()
        return payment

    def settle_builder_payment(self, state: State, place: int) -> None:
        """Makes the payment at `place` due."""
        withdrawal = state.builder_pending_payments[place].withdrawal
        if withdrawal.amount > 0:
            state.builder_pending_withdrawals = (*state.builder_pending_withdrawals, withdrawal)
        self.set_builder_payment(state, place, self.get_empty_payment())

    def slash_validator(
        self, state: State, slashed_index: ValidatorIndex, whistleblower_index: ValidatorIndex | None = None
    ) -> None:
        super().slash_validator(state, slashed_index, whistleblower_index)
        for place, payment in enumerate(state.builder_pending_payments):
            if payment.proposer_index == slashed_index:
                self.set_builder_payment(state, place, self.get_empty_payment())
