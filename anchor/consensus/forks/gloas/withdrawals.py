"""Withdrawals of builders and validators (gloas/beacon-chain, withdrawals)."""

from __future__ import annotations

from collections.abc import Sequence

from anchor.consensus.containers.capella import Withdrawal
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.capella import ExpectedWithdrawals
from anchor.consensus.forks.gloas.builders import (
    convert_builder_index_to_validator_index,
    convert_validator_index_to_builder_index,
    is_builder_index,
)
from anchor.consensus.forks.gloas.payload import Payloads
from anchor.consensus.forks.phase0.base import State


class GloasWithdrawals(Payloads):
    """The withdrawals are fixed with the block, and bind the payload that follows."""

    def process_withdrawals(self, state: State) -> None:  # type: ignore[override]  # no payload to compare with
        """Takes what is due from balances, when the parent's payload came."""
        if state.latest_block_hash != state.latest_execution_payload_bid.block_hash:
            return
        expected = self.get_expected_withdrawals(state)
        self.apply_withdrawals(state, expected)
        state.payload_expected_withdrawals = expected.withdrawals

    def get_expected_withdrawals(self, state: State) -> ExpectedWithdrawals:
        payments = self.get_builder_withdrawals(state)
        partials, processed = self.get_pending_partial_withdrawals(state, payments)
        prior = payments + partials
        swept, passed = self.get_builders_sweep_withdrawals(state, prior)
        prior += swept
        return ExpectedWithdrawals(
            prior + self.get_validators_sweep_withdrawals(state, prior),
            processed_partials=processed,
            processed_builder_payments=len(payments),
            swept_builders=passed,
        )

    def get_builder_withdrawals(self, state: State) -> tuple[Withdrawal, ...]:
        """The payments of builders that are due."""
        limit = self.preset.MAX_WITHDRAWALS_PER_PAYLOAD - 1
        return tuple(
            [
                Withdrawal(
                    index=state.next_withdrawal_index + number,
                    validator_index=convert_builder_index_to_validator_index(due.builder_index),
                    address=due.fee_recipient,
                    amount=due.amount,
                )
                for number, due in enumerate(state.builder_pending_withdrawals[:limit])
            ]
        )

    def get_builders_sweep_withdrawals(
        self, state: State, prior: Sequence[Withdrawal]
    ) -> tuple[tuple[Withdrawal, ...], int]:
        """Whole balances of builders that left, after the `prior` withdrawals; how many were looked at."""
        epoch, count = self.get_current_epoch(state), len(state.builders)
        limit = self.preset.MAX_WITHDRAWALS_PER_PAYLOAD - 1
        start = state.next_withdrawal_builder_index
        require(start < max(count, 1), lambda: f"The sweep stands at builder {start}, of {count}.")
        withdrawals, passed = list(prior), 0
        for step in range(min(count, self.preset.MAX_BUILDERS_PER_WITHDRAWALS_SWEEP)):
            if len(withdrawals) >= limit:
                break
            index = (start + step) % count
            builder, named = state.builders[index], convert_builder_index_to_validator_index(index)
            balance = builder.balance - sum([w.amount for w in withdrawals if w.validator_index == named])
            if builder.withdrawable_epoch <= epoch and balance > 0:
                number = state.next_withdrawal_index + len(withdrawals)
                address = builder.execution_address
                withdrawals.append(
                    Withdrawal(index=number, validator_index=named, address=address, amount=balance)
                )
            passed += 1
        return tuple(withdrawals[len(prior) :]), passed

    def apply_withdrawals(self, state: State, expected: ExpectedWithdrawals) -> None:
        super().apply_withdrawals(state, expected)
        processed = expected.processed_builder_payments
        state.builder_pending_withdrawals = state.builder_pending_withdrawals[processed:]
        if state.builders:
            next_index = state.next_withdrawal_builder_index + expected.swept_builders
            state.next_withdrawal_builder_index = next_index % len(state.builders)

    def apply_withdrawal(self, state: State, withdrawal: Withdrawal) -> None:
        if not is_builder_index(withdrawal.validator_index):
            super().apply_withdrawal(state, withdrawal)
            return
        index = convert_validator_index_to_builder_index(withdrawal.validator_index)
        builder = self.get_builder(state, index)
        balance = max(builder.balance - withdrawal.amount, 0)
        self.set_builder(state, index, builder.replace(balance=balance))
