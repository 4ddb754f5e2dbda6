"""One store across a network's upgrades: each call goes to the fork whose rules hold.

The specification gives each fork its own fork choice, and says nothing of the passage. Here blocks and states
of several forks are in one store. A block of before gloas, which holds its payload, stays one node of the
tree; votes are compared by slots, before gloas by the last slot of their target epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from anchor.consensus.containers.phase0 import (
    Attestation,
    AttesterSlashing,
    BeaconBlock,
    Checkpoint,
    SignedBeaconBlock,
)
from anchor.consensus.fork_choice.bellatrix import BellatrixForkChoice, GetPowBlock, find_no_block
from anchor.consensus.fork_choice.deneb import (
    CapellaForkChoice,
    DenebForkChoice,
    Retrieve,
    retrieve_nothing,
)
from anchor.consensus.fork_choice.fulu import FuluForkChoice
from anchor.consensus.fork_choice.gloas import GloasForkChoice
from anchor.consensus.fork_choice.phase0 import ForkChoice
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.forks.schedule import ForkSchedule
from anchor.types import Slot

KINDS: Final[Mapping[str, type[ForkChoice]]] = {
    "bellatrix": BellatrixForkChoice,
    "capella": CapellaForkChoice,
    "deneb": DenebForkChoice,
    "electra": DenebForkChoice,
    "fulu": FuluForkChoice,
    "gloas": GloasForkChoice,
}
"""By fork; the others have phase0's."""


def make_fork_choice(
    rules: Any,
    get_pow_block: GetPowBlock = find_no_block,
    retrieve: Retrieve = retrieve_nothing,
    schedule: ForkSchedule | None = None,
) -> Any:
    """The fork choice of one fork, which asks these for blocks of proof of work, and for blobs or columns."""
    kind: Any = KINDS.get(rules.name, ForkChoice)
    if issubclass(kind, DenebForkChoice):
        return kind(rules, retrieve, schedule)
    if issubclass(kind, BellatrixForkChoice):
        return kind(rules, get_pow_block, schedule)
    return kind(rules, schedule)


class ScheduledForkChoice:
    """The fork choice of a network. What only some forks have is called on what `at_slot` returns."""

    def __init__(
        self,
        schedule: ForkSchedule,
        get_pow_block: GetPowBlock = find_no_block,
        retrieve: Retrieve = retrieve_nothing,
    ) -> None:
        self.schedule = schedule
        self._choices = {
            rules: make_fork_choice(rules, get_pow_block, retrieve, schedule) for rules in schedule.forks
        }

    def at_slot(self, slot: Slot) -> Any:
        """The fork choice of the fork whose rules hold in `slot`."""
        return self._choices[self.schedule.get_fork_at_slot(slot)]

    def at_time(self, store: Store) -> Any:
        """The fork choice of the fork whose rules hold now: it answers for weights and a proposer's head."""
        first = next(iter(self._choices.values()))  # all forks have slots of one length
        return self.at_slot(first.get_current_slot(store))

    def get_forkchoice_store(self, anchor_state: State, anchor_block: BeaconBlock) -> Store:
        """A store that trusts a block and the state after it. Raises Misuse unless they belong together."""
        choice = self._choices[self.schedule.get_fork_of(anchor_state)]
        store: Store = choice.get_forkchoice_store(anchor_state, anchor_block)
        return store

    def on_tick(self, store: Store, time_ms: int) -> None:
        """Lets time pass, as `ForkChoice.on_tick`."""
        self.at_time(store).on_tick(store, time_ms)

    def on_block(self, store: Store, signed_block: SignedBeaconBlock) -> None:
        """Takes a block, as `ForkChoice.on_block`, under the rules of its slot."""
        block = signed_block.message
        self.schedule.verify_block_form(block)
        self.at_slot(block.slot).on_block(store, signed_block)

    def on_attestation(self, store: Store, attestation: Attestation, is_from_block: bool = False) -> None:
        """Takes a vote, as `ForkChoice.on_attestation`: in the form of its slot's fork, or its block's."""
        slot = attestation.data.slot
        forks = self.schedule.forks[self.schedule.forks.index(self.schedule.get_fork_at_slot(slot)) :]
        known = [fork for fork in forks if type(attestation) is fork.records["Attestation"]]
        require(
            bool(known) and (is_from_block or known[0] is forks[0]),
            lambda: f"A vote of slot {slot} is not in the form of {forks[0].name}, whose slot it is.",
        )
        self._choices[known[0]].on_attestation(store, attestation, is_from_block)

    def on_attester_slashing(self, store: Store, attester_slashing: AttesterSlashing) -> None:
        """Takes evidence that validators equivocate, as `ForkChoice.on_attester_slashing`."""
        self.at_time(store).on_attester_slashing(store, attester_slashing)

    def get_head(self, store: Store) -> ForkChoiceNode:
        """The node to build on and to vote for, by the rules of now."""
        head: ForkChoiceNode = self.at_time(store).get_head(store)
        return head

    def is_within_weak_subjectivity_period(
        self, store: Store, ws_state: State, ws_checkpoint: Checkpoint
    ) -> bool:
        """Whether a checkpoint can be trusted now, as `ForkChoice.is_within_weak_subjectivity_period`."""
        choice = self.at_time(store)
        return bool(choice.is_within_weak_subjectivity_period(store, ws_state, ws_checkpoint))
