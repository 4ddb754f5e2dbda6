"""The first state, from deposits (phase0/beacon-chain, genesis)."""

from __future__ import annotations

from collections.abc import Sequence

from anchor.consensus.containers.phase0 import Deposit, DepositData, Eth1Data, Fork
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.phase0.block import BlockProcessing
from anchor.merkle.columns import Column
from anchor.merkle.lazy import np
from anchor.merkle.sequences import List
from anchor.params import DEPOSIT_CONTRACT_TREE_DEPTH, GENESIS_EPOCH
from anchor.types import Hash32


class Genesis(BlockProcessing):
    """How a chain begins."""

    def initialize_beacon_state_from_eth1(
        self, eth1_block_hash: Hash32, eth1_timestamp: int, deposits: Sequence[Deposit]
    ) -> State:
        """The state from which a chain starts, given the deposit contract's first deposits.

        Raises InvalidTransition when a deposit is not proven by those up to it.
        """
        state = self.get_empty_genesis_state(eth1_block_hash, eth1_timestamp)
        leaves = List(self.scope.schema(DepositData), 2**DEPOSIT_CONTRACT_TREE_DEPTH)
        data = tuple([deposit.data for deposit in deposits])
        for count, deposit in enumerate(deposits, 1):
            state.eth1_data = Eth1Data(
                deposit_root=leaves.hash_tree_root(data[:count]),
                deposit_count=len(deposits),
                block_hash=eth1_block_hash,
            )
            self.process_deposit(state, deposit)
        self.process_genesis_activations(state)
        state.genesis_validators_root = self.field_root(state, "validators")
        return state

    def get_empty_genesis_state(self, eth1_block_hash: Hash32, eth1_timestamp: int) -> State:
        """A state without validators."""
        state = self.scope.schema("BeaconState").default()
        version = self.config.GENESIS_FORK_VERSION
        state.genesis_time = eth1_timestamp + self.config.GENESIS_DELAY
        state.fork = Fork(previous_version=version, current_version=version, epoch=GENESIS_EPOCH)
        state.eth1_data = state.eth1_data.replace(block_hash=eth1_block_hash)
        body = self.scope.schema("BeaconBlockBody")
        state.latest_block_header = state.latest_block_header.replace(
            body_root=body.hash_tree_root(body.default())
        )
        mix = np.frombuffer(eth1_block_hash, np.uint8)
        state.randao_mixes = Column(np.tile(mix, (self.preset.EPOCHS_PER_HISTORICAL_VECTOR, 1)))
        return state

    def process_genesis_activations(self, state: State) -> None:
        """Activates everyone with a full stake."""
        balances, limit = state.balances.array, self.preset.MAX_EFFECTIVE_BALANCE
        rounded = balances - balances % self.preset.EFFECTIVE_BALANCE_INCREMENT
        effective = np.minimum(rounded, limit)
        full = np.flatnonzero(effective == limit)
        state.validators.write("effective_balance", slice(None), effective)
        state.validators.write("activation_eligibility_epoch", full, GENESIS_EPOCH)
        state.validators.write("activation_epoch", full, GENESIS_EPOCH)

    def is_valid_genesis_state(self, state: State) -> bool:
        """Whether a chain may start from `state`: late enough, and with enough validators."""
        active = len(self.get_active_validator_indices(state, GENESIS_EPOCH))
        enough: bool = active >= self.config.MIN_GENESIS_ACTIVE_VALIDATOR_COUNT
        return enough and bool(state.genesis_time >= self.config.MIN_GENESIS_TIME)
