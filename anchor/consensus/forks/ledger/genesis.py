"""How a ledger network begins, and what makes it this one and no other (specs/03-ledger §2, rules 16, 17)."""

from __future__ import annotations

from typing import Final

from anchor.consensus.containers.ledger import Administrator, Genesis, Network, NetworkId
from anchor.consensus.forks.ledger.accessors import State
from anchor.consensus.forks.ledger.admission import verify_deposit
from anchor.consensus.forks.ledger.block import BlockProcessing
from anchor.consensus.presets import Config, make_ledger_config
from anchor.consensus.schemes import require_point
from anchor.errors import InvalidEntry
from anchor.params import CLOCKS
from anchor.types import Root, Version

KNOWN_SUFFIXES: Final = frozenset(
    bytes.fromhex(suffix)
    for suffix in (
        "000000",  # mainnet
        "000001",  # the minimal preset, local networks
        "001020",  # goerli
        "017000",  # holesky
        "000910",  # hoodi
        "002009",  # pyrmont
        "000064",  # gnosis
        "00006f",  # chiado
        "ffffff",  # a configuration's placeholder
    )
)
"""Last three bytes of the fork versions of networks that count their forks in the first byte."""
KNOWN_PREFIXES: Final = frozenset(bytes.fromhex(prefix) for prefix in ("900000", "800000"))
"""First three bytes of those that count in the last: sepolia, ropsten."""


def is_known_fork_version(version: Version) -> bool:
    """Whether `version` is some Ethereum network's, now or at a later fork."""
    return version[1:] in KNOWN_SUFFIXES or version[:3] in KNOWN_PREFIXES


def compute_config(genesis: Genesis) -> Config:
    """The configuration of the network that starts from `genesis`."""
    return make_ledger_config(genesis.fork_version, genesis.seconds_per_slot)


def verify_genesis(genesis: Genesis) -> None:
    """Raises InvalidEntry, or InvalidSignature for an unsafe key, for a genesis that no network may have."""
    if is_known_fork_version(genesis.fork_version):
        raise InvalidEntry(
            f"The fork version 0x{genesis.fork_version.hex()} is another network's.", fix="Draw a random one."
        )
    if genesis.nonce == bytes(32):
        raise InvalidEntry("The network's nonce is zero.", fix="Draw a random one.")
    if genesis.clock not in CLOCKS or genesis.seconds_per_slot == 0:
        raise InvalidEntry(
            f"There is no clock {genesis.clock} with slots of {genesis.seconds_per_slot} seconds."
        )
    if not genesis.administrators or len(set(genesis.administrators)) != len(genesis.administrators):
        raise InvalidEntry("A genesis names at least one administrator, and each only once.")
    for key in genesis.administrators:
        require_point(key, "administrator's key")
    pubkeys = {deposit.pubkey for deposit in genesis.deposits}
    if not pubkeys or len(pubkeys) != len(genesis.deposits):
        raise InvalidEntry("A genesis has at least one validator, and each only once.")


class LedgerGenesis(BlockProcessing):
    """The first state."""

    def initialize_ledger_state(self, genesis: Genesis) -> State:
        """The state from which the network of `genesis` starts: the only one that it can start from.

        Raises InvalidEntry or InvalidSignature: the genesis breaks a rule, or a validator's key is not
        proven to be possessed.
        """
        verify_genesis(genesis)
        state = self.get_empty_genesis_state(genesis.nonce, genesis.genesis_time)
        state.genesis_time = genesis.genesis_time
        state.eth1_data = self.scope.schema("Eth1Data").default()  # frozen (rule 16)
        for deposit in genesis.deposits:
            verify_deposit(self, deposit)
            self.add_validator_to_registry(
                state, deposit.pubkey, deposit.withdrawal_credentials, deposit.amount
            )
        self.process_genesis_activations(state)
        self._set_ledger(state, genesis)
        committee = self.get_next_sync_committee(state)
        state.current_sync_committee = state.next_sync_committee = committee
        self.process_weak_subjectivity_period(state)
        return state

    def _set_ledger(self, state: State, genesis: Genesis) -> None:
        administrators = [Administrator(key=key, sequence=0) for key in genesis.administrators]
        state.administrators = tuple(administrators)
        state.timestamp = genesis.genesis_time
        state.network = Network(
            nonce=genesis.nonce,
            clock=genesis.clock,
            seconds_per_slot=genesis.seconds_per_slot,
            weak_subjectivity_period=0,  # computed below
        )
        state.genesis_validators_root = self.compute_network_id(state)

    def compute_network_id(self, state: State) -> Root:
        """What tells the network from every other, given its first state (rule 17)."""
        schemas = self.scope.schema("BeaconState").schemas
        network_id = NetworkId(
            validators=schemas["validators"].hash_tree_root(state.validators),
            administrators=schemas["administrators"].hash_tree_root(state.administrators),
            nonce=state.network.nonce,
            genesis_fork_version=state.fork.current_version,
            genesis_time=state.genesis_time,
            clock=state.network.clock,
            seconds_per_slot=state.network.seconds_per_slot,
        )
        return self.hash_tree_root(network_id)
