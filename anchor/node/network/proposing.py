"""What a block brings: what counts most of all that waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from anchor.consensus.bls import Bls
from anchor.consensus.containers.phase0 import Attestation
from anchor.consensus.duties import Contents
from anchor.consensus.forks.ledger import Ledger
from anchor.errors import Invalid
from anchor.merkle.lazy import np
from anchor.node.network.entries import EntryPool
from anchor.node.network.gossip import Gossip
from anchor.node.network.pools import VotePool

if TYPE_CHECKING:
    from numpy.typing import NDArray

State = Any
"""The ledger's BeaconState."""
T = TypeVar("T")


def select_contents(
    ledger: Ledger, state: State, bls: Bls, gossip: Gossip, entries: EntryPool, parent: bytes
) -> Contents:
    """The contents of the block of a state's slot, upon block `parent`; `state` is left as it is.

    `ledger` checks signatures: what is in the pools was checked, but on another branch its index may have
    been another validator's. Votes are known by their target.
    """
    preset, operations, ahead = ledger.preset, gossip.operations, state.copy()

    def take(waiting: Iterable[T], limit: int, process: Callable[[State, T], None]) -> tuple[T, ...]:
        return select(ahead, waiting, limit, process)

    return Contents(
        timestamp=ledger.compute_time_at_slot(state.genesis_time, state.slot),
        sync_aggregate=gossip.syncs.aggregate(bls, state.slot - 1, parent),
        attestations=select_votes(ledger, state, bls, gossip.votes),
        # In the order in which a block processes them: one may forbid the next.
        proposer_slashings=take(
            operations.proposer_slashings.values(),
            preset.MAX_PROPOSER_SLASHINGS,
            ledger.process_proposer_slashing,
        ),
        attester_slashings=take(
            operations.attester_slashings, preset.MAX_ATTESTER_SLASHINGS, ledger.process_attester_slashing
        ),
        voluntary_exits=take(
            operations.exits.values(), preset.MAX_VOLUNTARY_EXITS, ledger.process_voluntary_exit
        ),
        entries=entries.select(ahead),
    )


def select(
    state: State, waiting: Iterable[T], limit: int, process: Callable[[State, T], None]
) -> tuple[T, ...]:
    """As many operations as may follow each other upon `state`, which they change."""
    chosen: list[T] = []
    for operation in waiting:
        if len(chosen) == limit:
            break
        ahead = state.copy()
        try:
            process(ahead, operation)
        except Invalid:
            continue
        process(state, operation)
        chosen.append(operation)
    return tuple(chosen)


def select_votes(ledger: Ledger, state: State, bls: Bls, pool: VotePool) -> tuple[Attestation, ...]:
    """Votes that give most voters a flag that they do not have yet: greedily, one after the other."""
    candidates = [
        (vote, *found)
        for vote in pool.aggregate(bls)
        if (found := find_flags(ledger, state, vote)) is not None
    ]
    earned = {
        epoch: ledger.get_epoch_participation(state, epoch).array.copy()
        for epoch in (ledger.get_previous_epoch(state), ledger.get_current_epoch(state))
    }

    def count(vote: Attestation, voters: NDArray[np.int64], flags: int) -> int:
        return int(np.count_nonzero(~earned[vote.data.target.epoch][voters] & flags))

    chosen: list[Attestation] = []
    while candidates and len(chosen) < ledger.preset.MAX_ATTESTATIONS:
        counted = [(count(*candidate), candidate) for candidate in candidates]
        best, (vote, voters, flags) = max(counted, key=lambda pair: pair[0])
        if not best:
            break
        chosen.append(vote)
        earned[vote.data.target.epoch][voters] |= flags
        candidates = [candidate for number, candidate in counted if number and candidate[0] is not vote]
    return tuple(chosen)


def find_flags(ledger: Ledger, state: State, vote: Attestation) -> tuple[NDArray[np.int64], int] | None:
    """Who makes a vote, and the flags that it earns in a block of the state's slot; None if it may not."""
    data = vote.data
    try:
        ledger.verify_attestation(state, vote)
        if data.target.root != ledger.get_block_root(state, data.target.epoch):
            return None  # of another branch, whose committees are other people
        delay = state.slot - data.slot
        indices = ledger.get_attestation_participation_flag_indices(state, data, delay)
        voters = ledger.get_attesting_indices(state, vote)
    except Invalid:
        return None
    return voters, sum([1 << index for index in indices])
