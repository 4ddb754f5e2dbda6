"""From deneb to electra (electra/fork)."""

from __future__ import annotations

from anchor.consensus.forks.electra.block import ElectraBlockProcessing
from anchor.consensus.forks.phase0.base import State
from anchor.merkle.lazy import np
from anchor.params import (
    COMPOUNDING_WITHDRAWAL_PREFIX,
    FAR_FUTURE_EPOCH,
    UNSET_DEPOSIT_REQUESTS_START_INDEX,
)


class Electra(ElectraBlockProcessing):
    """The rules of electra."""

    def upgrade(self, pre: State) -> State:
        """A state of deneb as a state of electra (upgrade_to_electra)."""
        exit_epochs = pre.validators.column("exit_epoch")
        last_exit = int(exit_epochs[exit_epochs != FAR_FUTURE_EPOCH].max(initial=0))
        next_epoch = self.compute_activation_exit_epoch(self.get_current_epoch(pre))
        post = self.carry_over(
            pre,
            deposit_requests_start_index=UNSET_DEPOSIT_REQUESTS_START_INDEX,
            deposit_balance_to_consume=0,
            exit_balance_to_consume=0,
            earliest_exit_epoch=max(last_exit, next_epoch) + 1,
            consolidation_balance_to_consume=0,
            earliest_consolidation_epoch=next_epoch,
            pending_deposits=(),
            pending_partial_withdrawals=(),
            pending_consolidations=(),
        )
        post.exit_balance_to_consume = self.get_activation_exit_churn_limit(post)
        post.consolidation_balance_to_consume = self.get_consolidation_churn_limit(post)
        self.queue_inactive_balances(post)
        credentials = post.validators.column("withdrawal_credentials")
        for index in np.flatnonzero(credentials[:, 0] == COMPOUNDING_WITHDRAWAL_PREFIX[0]).tolist():
            self.queue_excess_active_balance(post, index)  # early adopters go through the churn as well
        return post

    def queue_inactive_balances(self, state: State) -> None:
        """Sends the stake of validators that wait for activation through the queue of deposits."""
        validators = state.validators
        waiting = np.flatnonzero(validators.column("activation_epoch") == FAR_FUTURE_EPOCH)
        since = validators.column("activation_eligibility_epoch")[waiting]
        rows = waiting[np.argsort(since, kind="stable")]
        if not len(rows):
            return
        for index in rows.tolist():
            self.queue_balance(state, index, state.balances[index])
        state.balances[rows] = 0
        validators.write("effective_balance", rows, 0)
        validators.write("activation_eligibility_epoch", rows, FAR_FUTURE_EPOCH)
