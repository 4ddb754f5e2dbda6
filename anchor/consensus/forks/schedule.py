"""Which fork rules when: a chain's states and blocks across its upgrades."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from anchor.consensus.bls import Signatures
from anchor.consensus.containers.phase0 import BeaconBlock, SignedBeaconBlock
from anchor.consensus.execution import ExecutionEngine, accept_payload
from anchor.consensus.fork_epochs import get_fork_epoch, get_fork_version
from anchor.consensus.forks.altair import Altair
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.bellatrix import Bellatrix
from anchor.consensus.forks.capella import Capella
from anchor.consensus.forks.deneb import Deneb
from anchor.consensus.forks.electra import Electra
from anchor.consensus.forks.fulu import Fulu
from anchor.consensus.forks.gloas import Gloas
from anchor.consensus.forks.phase0 import Phase0
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.presets import Config, Preset
from anchor.errors import Misuse
from anchor.params import FAR_FUTURE_EPOCH
from anchor.types import Slot

FORKS: Final[tuple[type[Phase0], ...]] = (Phase0, Altair, Bellatrix, Capella, Deneb, Electra, Fulu, Gloas)
"""Every fork, in the order in which they follow each other."""


class ForkSchedule:
    """The forks that a network's configuration schedules. States pass from one to the next."""

    def __init__(
        self,
        preset: Preset,
        config: Config,
        signatures: Signatures,
        engine: ExecutionEngine = accept_payload,
    ) -> None:
        epochs = [get_fork_epoch(config, kind.name) for kind in FORKS]
        scheduled = [
            (kind, epoch) for kind, epoch in zip(FORKS, epochs, strict=True) if epoch < FAR_FUTURE_EPOCH
        ]
        self.forks = [kind(preset, config, signatures, engine) for kind, _ in scheduled]
        self.start_slots = [epoch * preset.SLOTS_PER_EPOCH for _, epoch in scheduled]

    def get_fork_at_slot(self, slot: Slot) -> Phase0:
        """The fork whose rules hold in `slot`."""
        return self.forks[bisect_right(self.start_slots, slot) - 1]

    def get_fork_of(self, state: State) -> Phase0:
        """The fork that a state belongs to, by its form and its version.

        Raises Misuse for a state of another network: a ledger's version may be one that a fork here has.
        """
        version = state.fork.current_version
        for fork in self.forks:
            is_form = type(state) is fork.records["BeaconState"]
            if is_form and version == get_fork_version(fork.config, fork.name):
                return fork
        raise Misuse(f"This network has no fork of version {version.hex()} whose states have this form.")

    def verify_block_form(self, block: BeaconBlock) -> None:
        """Raises InvalidTransition unless a block is of the fork whose slot it claims."""
        fork = self.get_fork_at_slot(block.slot)
        require(
            type(block.body) is fork.records["BeaconBlockBody"],
            lambda: f"The block of slot {block.slot} is not in the form of {fork.name}, whose slot it is.",
        )

    def process_slots(self, state: State, slot: Slot) -> State:
        """`state` after slots have passed up to `slot`, with the upgrades on the way.

        The given state is used up: what is returned may be it, or a new one.
        """
        require(state.slot < slot, lambda: f"The state of slot {state.slot} cannot advance to {slot}.")
        fork = self.get_fork_of(state)
        following = self.forks.index(fork) + 1
        for later, start in zip(self.forks[following:], self.start_slots[following:], strict=True):
            if start > slot:
                break
            if state.slot < start:
                fork.process_slots(state, start)
            state, fork = later.upgrade(state), later
        if state.slot < slot:
            fork.process_slots(state, slot)
        return state

    def state_transition(
        self, pre_state: State, signed_block: SignedBeaconBlock, validate_result: bool = True
    ) -> State:
        """The state after a block, as `Phase0.state_transition`, across forks."""
        block = signed_block.message
        self.verify_block_form(block)
        fork = self.get_fork_at_slot(block.slot)
        fork.verify_block_distance(pre_state, block)
        state = self.process_slots(pre_state.copy(), block.slot)
        fork.apply_block(state, signed_block, validate_result)
        return state
