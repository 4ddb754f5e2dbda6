"""What the fork choice knows (phase0/fork-choice, Store)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anchor.consensus.containers.gloas import PayloadAttestationData
from anchor.consensus.containers.phase0 import BeaconBlock, Checkpoint
from anchor.consensus.fork_choice.tree import Tree
from anchor.consensus.fork_choice.votes import Votes
from anchor.consensus.forks.phase0.base import State
from anchor.consensus.hardcoded import Table
from anchor.types import Epoch, Root, Slot

Envelope = Any
"""An ExecutionPayloadEnvelope."""
PayloadVotes = list[bool | None]
"""By place in the payload committee: what its member said, or None."""


class PayloadVote(NamedTuple):
    """What a member of a payload committee said."""

    place: int
    """In the committee."""
    data: PayloadAttestationData


@dataclass
class Store:
    """The specification's Store. `latest_messages` and `equivocating_indices` are columns of `votes`;
    `checkpoint_states` follow from `block_states`."""

    time_ms: int
    """Unix milliseconds."""
    genesis_time_ms: int
    justified_checkpoint: Checkpoint
    finalized_checkpoint: Checkpoint
    unrealized_justified_checkpoint: Checkpoint
    """What blocks justify as soon as their epoch ends."""
    unrealized_finalized_checkpoint: Checkpoint
    table: Table
    """The network's checkpoints in the code: no branch that conflicts with one is taken (rule 22)."""
    proposer_boost_root: Root = bytes(32)
    """The first block of this slot that came in time, or zero."""
    blocks: dict[Root, BeaconBlock] = field(default_factory=dict)
    block_states: dict[Root, State] = field(default_factory=dict)
    """The states after the blocks; they share all columns that are equal."""
    block_timeliness: dict[Root, tuple[bool, ...]] = field(default_factory=dict)
    """Whether a block came before each of its slot's deadlines."""
    unrealized_justifications: dict[Root, Checkpoint] = field(default_factory=dict)
    """What each block justifies as soon as its epoch ends."""

    payloads: dict[Root, Envelope] = field(default_factory=dict)
    """Since gloas: the verified payloads, by block."""
    payload_timeliness_vote: dict[Root, PayloadVotes] = field(default_factory=dict)
    payload_data_availability_vote: dict[Root, PayloadVotes] = field(default_factory=dict)

    optimistic_roots: set[Root] = field(default_factory=set)
    """Since bellatrix: blocks whose payloads the execution layer has yet to judge (OptimisticStore)."""

    tree: Tree = field(default_factory=Tree)
    votes: Votes = field(default_factory=Votes)
    roots_at_slot: dict[Slot, list[Root]] = field(default_factory=dict)
    basis: tuple[Checkpoint, Checkpoint, Epoch] | None = None
    """The justified and finalised checkpoints and the epoch by which the tree's weights and choices stand."""
