"""A ledger as the Beacon API shows it: its blocks and states, and what light clients need, made on demand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final

from anchor.bundle.build import build_trusted_block
from anchor.bundle.types import LEDGER_SCOPE, TrustedBlock
from anchor.bundle.updates import derive_update
from anchor.chain.beacon.networks import Network
from anchor.consensus.containers.altair import LightClientHeader, LightClientUpdate
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import Checkpoint, SignedBeaconBlock
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms
from anchor.consensus.presets import LEDGER
from anchor.errors import NoSuchRecord
from anchor.node.beacon import ShownBlock, ShownState, Standing, missing
from anchor.node.chain import Chain
from anchor.node.health import judge_health
from anchor.node.status import Status
from anchor.params import LOGICAL_CLOCK
from anchor.types import Root, Slot

PERIOD_SLOTS: Final = LEDGER.SLOTS_PER_EPOCH * LEDGER.EPOCHS_PER_SYNC_COMMITTEE_PERIOD
LOOK: Final = 2 * LEDGER.SLOTS_PER_EPOCH
"""Slots at the end of a period, or of the chain, in which an update is looked for."""
MAX_UPDATES: Final = 4
"""Updates that one question is answered with: each may take the replay of many blocks."""


class LedgerView:
    """One moment of a ledger."""

    def __init__(self, chain: Chain, status: Status) -> None:
        self._chain, self._status = chain, status
        self.network = _make_network(chain.genesis, status.network_id)
        """As whoever syncs from it knows it."""
        self._deriver = Deriver(Forms(LEDGER, self.network.config), LEDGER_SCOPE)

    # Blocks and states

    def find_block(self, block_id: str) -> ShownBlock:
        """Any block; the one that stands for the genesis too."""
        root = self._find_root(block_id)
        signed = self._get_genesis() if root == self._status.genesis.root else self._chain.get_block(root)
        is_final = signed.message.slot <= self._final_slot
        return ShownBlock(self.network.forks["ledger"], root, signed, is_final)

    def _get_genesis(self) -> SignedBeaconBlock:
        """What stands for the genesis: an empty block that leads to its state."""
        signed: SignedBeaconBlock = LEDGER_SCOPE.schema(SignedBeaconBlock).default()
        state_root = self._chain.get_header(self._status.genesis.root).state_root
        return signed.replace(message=signed.message.replace(state_root=state_root))

    @cached_property
    def _final_slot(self) -> Slot:
        return self._chain.get_slot(self._status.finalized.root)

    def _find_root(self, block_id: str) -> Root:
        named = self._get_named().get(block_id)
        if named is not None:
            return named
        if block_id.startswith("0x"):
            return bytes.fromhex(block_id[2:])
        slot = int(block_id)
        found = self._chain.list_blocks(slot, 1) if slot <= self._status.slot else []
        if slot == 0:
            return self._status.genesis.root
        if not found or found[0].slot != slot:
            raise missing("block", block_id)
        return found[0].root

    def _get_named(self) -> dict[str, Root]:
        status = self._status
        return {
            "head": status.head,
            "finalized": status.finalized.root,
            "justified": status.justified.root,
            "genesis": status.genesis.root,
        }

    def find_state(self, state_id: str) -> ShownState:
        """The state after any block."""
        block = self.find_block(self._find_block_id(state_id))
        state = self._chain.get_state(block.root)
        return ShownState(block, state, lambda: self._chain.scope.encode(state))

    def _find_block_id(self, state_id: str) -> str:
        """Which block leads to a state."""
        if not state_id.startswith("0x"):
            return state_id
        state_root = bytes.fromhex(state_id[2:])
        root = self._chain.find_root_by_state(state_root)
        if root is None and self._get_genesis().message.state_root != state_root:
            raise missing("state", state_id)
        return "genesis" if root is None else f"0x{root.hex()}"

    def get_finality(self, state_id: str) -> tuple[Checkpoint, Checkpoint, Checkpoint]:
        """By a state; of the newest, what its votes have made final already."""
        if state_id in ("head", "finalized"):
            return self._status.justified, self._status.justified, self._status.finalized
        state = self.find_state(state_id).state
        return (
            state.previous_justified_checkpoint,
            state.current_justified_checkpoint,
            state.finalized_checkpoint,
        )

    def get_standing(self, now: float) -> Standing:
        """By the clock; by a logical clock, it is always up to date."""
        network, slot = self.network, self._status.slot
        distance = 0 if network.has_logical_clock else max(0, network.compute_slot(now) - slot)
        return Standing(slot, distance, judge_health(self._status, self._chain.genesis, int(now)).is_good)

    # Light clients

    def make_bootstrap(self, root: Root) -> Any:
        """Of a final block."""
        header = LightClientHeader(beacon=self._get_final_header(root))
        return self._deriver.create_light_client_bootstrap(header, self._chain.get_state(root))

    def make_trusted_block(self, root: Root) -> TrustedBlock:
        """Of a final block."""
        return build_trusted_block(self._get_final_header(root), self._chain.get_state(root))

    def _get_final_header(self, root: Root) -> Any:
        header = self._chain.get_header(root)
        if header.slot > self._final_slot:
            raise NoSuchRecord(f"Block 0x{root.hex()} is not final here.")
        return header

    def list_updates(self, start: int, count: int) -> Sequence[Any]:
        """One of each period: the last that a committee of it signed."""
        last = self._status.slot // PERIOD_SLOTS
        periods = range(start, min(start + min(count, MAX_UPDATES), last + 1))
        found = [self._find_update(period * PERIOD_SLOTS, (period + 1) * PERIOD_SLOTS) for period in periods]
        return [update for update in found if update is not None]

    def get_finality_update(self) -> Any:
        """The last that a committee signed."""
        update = self._find_update(0, self._status.slot + 1)
        if update is None:
            raise NoSuchRecord("No block of this ledger says yet that anything is final.")
        return self._deriver.create_light_client_finality_update(update)

    def _find_update(self, start: Slot, stop: Slot) -> LightClientUpdate | None:
        """The last in slots start … stop - 1 that two thirds of the seats signed, where anything is final."""
        newest = self._chain.get_slot(self._chain.get_root_before(stop - 1))
        blocks = self._chain.get_blocks_between(max(newest - LOOK, start), newest + 1)
        for attested, signing in reversed(list(pairwise(blocks))):
            bits = signing.message.body.sync_aggregate.sync_committee_bits  # type: ignore[attr-defined]
            if 3 * bits.count_set() >= 2 * len(bits):
                return derive_update(self._chain, attested, signing)
        return None


@lru_cache(maxsize=4)
def _make_network(genesis: Genesis, network_id: Root) -> Network:
    config, is_logical = compute_config(genesis), genesis.clock == LOGICAL_CLOCK
    time = genesis.genesis_time
    return Network(config.name, LEDGER, config, network_id, time, has_logical_clock=is_logical)
