"""A chain as the Beacon API shows it, of any network: what was verified, and nothing else. No HTTP here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from anchor.bundle.types import TrustedBlock
from anchor.chain.beacon.networks import Fork, Network
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import NoSuchRecord
from anchor.node.clock import Clock
from anchor.types import Root, Slot

T = TypeVar("T")


class ShownBlock(NamedTuple):
    """A block."""

    fork: Fork
    root: Root
    signed: Any
    """A SignedBeaconBlock of that fork."""
    is_final: bool


class ShownState(NamedTuple):
    """The state that a block leads to."""

    block: ShownBlock
    state: Any
    encode: Callable[[], bytes]
    """Gives its SSZ."""


class Standing(NamedTuple):
    """How far a chain has come."""

    head: Slot
    """Of the newest block that is shown."""
    distance: int
    """Slots from there to the clock."""
    is_healthy: bool


class BeaconView(Protocol):
    """One moment of a chain. What is not there raises NoSuchRecord.

    An id is `head`, `finalized`, `justified`, `genesis`, a slot, or a root in lower case (a block's, or a
    state's where a state is asked for).
    """

    @property
    def network(self) -> Network:
        """The network that it is of."""

    def find_block(self, block_id: str) -> ShownBlock:
        """A block."""

    def find_state(self, state_id: str) -> ShownState:
        """The state that a block leads to; never one that was advanced over empty slots."""

    def get_finality(self, state_id: str) -> tuple[Checkpoint, Checkpoint, Checkpoint]:
        """Justified before, justified and final, as a state has it; of the newest state, as is known now."""

    def get_standing(self, now: float) -> Standing:
        """How far it has come at Unix time `now`."""

    def make_bootstrap(self, root: Root) -> Any:
        """Where a light client starts that trusts a final block."""

    def list_updates(self, start: int, count: int) -> Sequence[Any]:
        """Light-client updates of successive periods, from `start` on; as many as there are, or fewer."""

    def get_finality_update(self) -> Any:
        """What a light client is told of the newest finality."""

    def make_trusted_block(self, root: Root) -> TrustedBlock:
        """On a ledger: a final block, and what its state says of network, clock and age, with its proof."""


class BeaconNode(Protocol):
    """What answers questions about such a chain."""

    clock: Clock

    async def show(self, question: Callable[[BeaconView], T]) -> T:
        """What a question is answered with, off the event loop."""


def find_form(network: Network, record: Any, name: str) -> Fork:
    """The fork in whose form a light-client record is: of several with one form, the one of its slot."""
    header = getattr(record, "attested_header", None) or record.header
    scheduled = network.get_fork_at_slot(header.beacon.slot)
    forks = [scheduled, *reversed(network.forks.values())]
    return next(fork for fork in forks if fork.scope.schema(name).record is type(record))


def missing(what: str, name: str) -> NoSuchRecord:
    """The refusal of what was not verified."""
    return NoSuchRecord(f"This node has not verified a {what} {name}.")
