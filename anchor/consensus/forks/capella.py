"""Capella: withdrawals, and credentials that name an address (capella/beacon-chain, capella/fork)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from anchor.consensus.containers import capella as containers
from anchor.consensus.containers.capella import HistoricalSummary, SignedBLSToExecutionChange, Withdrawal
from anchor.consensus.containers.phase0 import BeaconBlock
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.bellatrix import Bellatrix
from anchor.consensus.forks.phase0.base import Body, State, convert_record
from anchor.consensus.forks.registry import get_validator
from anchor.consensus.signing import compute_domain
from anchor.merkle.container import Container
from anchor.merkle.hashing import sha256
from anchor.merkle.lazy import np
from anchor.params import (
    BLS_WITHDRAWAL_PREFIX,
    DOMAIN_BLS_TO_EXECUTION_CHANGE,
    ETH1_ADDRESS_WITHDRAWAL_PREFIX,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ExpectedWithdrawals(NamedTuple):
    """What a block must withdraw, and how much of each queue that uses up."""

    withdrawals: tuple[Withdrawal, ...]
    processed_partials: int = 0
    """Entries of `pending_partial_withdrawals`, since electra."""
    processed_builder_payments: int = 0
    """Entries of `builder_pending_withdrawals`, since gloas."""
    swept_builders: int = 0
    """Builders that the sweep has passed, since gloas."""


class Capella(Bellatrix):
    """The rules of capella."""

    name: ClassVar[str] = "capella"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    def process_block(self, state: State, block: BeaconBlock) -> None:
        body: Body = block.body
        self.process_block_header(state, block)
        self.process_withdrawals(state, body.execution_payload)
        self.process_execution_payload(state, body, self.engine)
        self.process_randao(state, body)
        self.process_eth1_data(state, body)
        self.process_operations(state, body)
        self.process_sync_aggregate(state, body.sync_aggregate)

    def is_merge_transition_complete(self, state: State) -> bool:
        """True: there is no capella before the merge."""
        return True

    def process_operations(self, state: State, body: Body) -> None:
        super().process_operations(state, body)
        self._for_operations(state, body.bls_to_execution_changes, self.process_bls_to_execution_change)

    def process_bls_to_execution_change(self, state: State, signed: SignedBLSToExecutionChange) -> None:
        """Lets a validator's stake be withdrawn to an address, as its withdrawal key demands."""
        change = signed.message
        index, pubkey = change.validator_index, change.from_bls_pubkey
        credentials = get_validator(state.validators, index).withdrawal_credentials
        require(
            credentials[:1] == BLS_WITHDRAWAL_PREFIX and credentials[1:] == sha256(pubkey)[1:],
            lambda: f"The credentials of validator {index} are not of withdrawal key {pubkey.hex()}.",
        )
        domain = compute_domain(
            DOMAIN_BLS_TO_EXECUTION_CHANGE, self.config.GENESIS_FORK_VERSION, state.genesis_validators_root
        )
        message = self.compute_signing_root(change, domain)
        self.require_signature(
            pubkey, message, signed.signature, lambda: f"the change of credentials of {index}"
        )
        changed = ETH1_ADDRESS_WITHDRAWAL_PREFIX + bytes(11) + change.to_execution_address
        state.validators.write("withdrawal_credentials", index, changed)

    # History

    def process_epoch(self, state: State) -> None:
        self.process_justification_and_finalization(state)
        self.process_inactivity_updates(state)
        self.process_rewards_and_penalties(state)
        self.process_registry_updates(state)
        self.process_slashings(state)
        self.process_eth1_data_reset(state)
        self.process_effective_balance_updates(state)
        self.process_slashings_reset(state)
        self.process_randao_mixes_reset(state)
        self.process_historical_summaries_update(state)
        self.process_participation_flag_updates(state)
        self.process_sync_committee_updates(state)

    def process_historical_summaries_update(self, state: State) -> None:
        """Keeps the roots of a full period's block and state roots."""
        if self.is_historical_period_end(state):
            summary = HistoricalSummary(
                block_summary_root=self.field_root(state, "block_roots"),
                state_summary_root=self.field_root(state, "state_roots"),
            )
            state.historical_summaries = (*state.historical_summaries, summary)

    # Withdrawals

    def process_withdrawals(self, state: State, payload: Any) -> None:
        """Takes from balances what the payload withdraws, which must be what is due."""
        expected = self.get_expected_withdrawals(state)
        require(
            payload.withdrawals == expected.withdrawals,
            lambda: (
                f"The payload of slot {state.slot} makes {len(payload.withdrawals)} withdrawals, "
                f"which are not the {len(expected.withdrawals)} that are due."
            ),
        )
        self.apply_withdrawals(state, expected)

    def get_expected_withdrawals(self, state: State) -> ExpectedWithdrawals:
        """What the next payload must withdraw."""
        return ExpectedWithdrawals(self.get_validators_sweep_withdrawals(state, ()))

    def get_validators_sweep_withdrawals(
        self, state: State, prior: Sequence[Withdrawal]
    ) -> tuple[Withdrawal, ...]:
        """Withdrawals of whole and excess balances, from where the sweep stands, after the `prior` ones."""
        count = len(state.validators)
        length = min(count, self.preset.MAX_VALIDATORS_PER_WITHDRAWALS_SWEEP)
        start = state.next_withdrawal_validator_index
        require(start < count, lambda: f"The sweep of withdrawals stands at validator {start}, of {count}.")
        rows = (start + np.arange(length)) % count
        balances = state.balances.array[rows]
        for withdrawal in prior:
            balances[rows == withdrawal.validator_index] -= withdrawal.amount
        amounts = self.get_withdrawable_amounts(state, rows, balances)
        due = np.flatnonzero(amounts)[: self.preset.MAX_WITHDRAWALS_PER_PAYLOAD - len(prior)]
        first = state.next_withdrawal_index + len(prior)
        return tuple(
            [
                self.make_withdrawal(state, first + i, int(rows[place]), int(amounts[place]))
                for i, place in enumerate(due)
            ]
        )

    def get_withdrawable_amounts(
        self, state: State, rows: NDArray[np.int64], balances: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """What leaves validators with these balances: all, what is over the maximum, or nothing.

        (The specification's `is_fully_withdrawable_validator` and `is_partially_withdrawable_validator`.)
        """
        validators, epoch = state.validators, self.get_current_epoch(state)
        able = self.get_withdrawal_credential_flags(validators.column("withdrawal_credentials")[rows])
        fully = able & (validators.column("withdrawable_epoch")[rows] <= epoch)
        limits = self.get_max_effective_balances(state, rows)
        at_limit = able & (validators.column("effective_balance")[rows] == limits)
        excess = balances - np.minimum(balances, limits)
        return np.where(fully, balances, excess * at_limit)

    def get_withdrawal_credential_flags(self, credentials: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """(n,): whether credentials, (n, 32), name an address (has_eth1_withdrawal_credential)."""
        flags: NDArray[np.bool_] = credentials[:, 0] == ETH1_ADDRESS_WITHDRAWAL_PREFIX[0]
        return flags

    def make_withdrawal(self, state: State, index: int, validator_index: int, amount: int) -> Withdrawal:
        """A withdrawal to the address in a validator's credentials."""
        credentials = state.validators.column("withdrawal_credentials")[validator_index].tobytes()
        return Withdrawal(
            index=index, validator_index=validator_index, address=credentials[12:], amount=amount
        )

    def apply_withdrawals(self, state: State, expected: ExpectedWithdrawals) -> None:
        """Takes withdrawals from balances, and moves the sweep on."""
        withdrawals = expected.withdrawals
        for withdrawal in withdrawals:
            self.apply_withdrawal(state, withdrawal)
        state.next_withdrawal_index += len(withdrawals)
        next_index = state.next_withdrawal_validator_index + self.preset.MAX_VALIDATORS_PER_WITHDRAWALS_SWEEP
        if len(withdrawals) == self.preset.MAX_WITHDRAWALS_PER_PAYLOAD:
            next_index = withdrawals[-1].validator_index + 1  # a full payload stops the sweep early
        state.next_withdrawal_validator_index = next_index % len(state.validators)

    def apply_withdrawal(self, state: State, withdrawal: Withdrawal) -> None:
        """Takes a withdrawal from its balance."""
        self.decrease_balance(state, withdrawal.validator_index, withdrawal.amount)

    def upgrade(self, pre: State) -> State:
        """A state of bellatrix as a state of capella (upgrade_to_capella)."""
        return self.carry_over(
            pre,
            latest_execution_payload_header=convert_record(
                pre.latest_execution_payload_header,
                self.records["ExecutionPayloadHeader"],
                withdrawals_root=bytes(32),
            ),
            next_withdrawal_index=0,
            next_withdrawal_validator_index=0,
            historical_summaries=(),
        )
