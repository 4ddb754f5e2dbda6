"""From bytes to a verified checkpoint: pure, the clock an argument.

A state and its block hold to a trusted `root:epoch` when, in this order,

1. the state names the network: genesis, and a fork that the network has scheduled for its slot;
2. both are the one valid encoding of that fork's records;
3. the block's root is the trusted one;
4. the block is not after the first slot of the trusted epoch (that slot may be empty: then the block is
   older, and the epoch stays what the checkpoint says);
5. the state's own root is the one that the block commits to. So a state that was advanced over empty slots is
   refused, however right its header looks: nothing signed commits to what it holds;
6. no checkpoint in the code is contradicted, by the checkpoint itself or by the blocks that its state
   names as its own past;
7. the state's slot is not in the future, and within the weak-subjectivity period by its own fork. Age counts
   from the proven slot, never from the claimed epoch (rule 21).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from anchor.bundle.verify import CLOCK_SKEW
from anchor.chain.beacon.networks import Fork, Network, verify_genesis
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.consensus.hardcoded import TABLES, Table, get_table, look_back, verify_branch
from anchor.consensus.weak_subjectivity import compute_expiry_by_timestamp, compute_weak_subjectivity_period
from anchor.errors import InvalidCheckpoint, MalformedSSZ, StaleTrust, WrongNetwork
from anchor.merkle.scope import hash_tree_root
from anchor.types import Epoch, Root, Slot, Version

STATE_HEAD: Final = 176
"""Bytes that every fork's state begins with: genesis, slot, fork, the latest block's header."""
BLOCK_HEAD: Final = 108
"""Bytes of a signed block up to its slot: an offset, a signature, the slot."""
CLOCK_TOLERANCE: Final = 1
"""Slots by which a clock may lag."""


@dataclass(frozen=True, slots=True)
class StateHead:
    """What stands at the same bytes of every fork's state."""

    genesis_time: int
    genesis_validators_root: Root
    slot: Slot
    version: Version
    """The current fork's."""
    header: BeaconBlockHeader
    """Of the latest block; its state root is zero in the block's own state."""


@dataclass(frozen=True, slots=True)
class VerifiedBlock:
    """A block whose root is the trusted one."""

    fork: Fork
    root: Root
    block: Any
    """A SignedBeaconBlock."""

    @property
    def slot(self) -> Slot:
        """The block's slot."""
        return self.block.message.slot  # type: ignore[no-any-return]

    @property
    def state_root(self) -> Root:
        """The root of the state that the block leads to."""
        return self.block.message.state_root  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class VerifiedCheckpoint:
    """A checkpoint with its block and state, all of which hold."""

    network: Network
    checkpoint: Checkpoint
    block: VerifiedBlock
    state: Any
    """A BeaconState of the block's fork."""
    state_bytes: bytes
    period: Epoch
    """The weak-subjectivity period by this state, in epochs."""
    is_expired: bool = False
    """Whether the period is over, and the user chose to go on."""


def read_state_head(data: bytes) -> StateHead:
    """The fixed head of a state's bytes. Raises MalformedSSZ when there are too few."""
    if len(data) < STATE_HEAD:
        raise MalformedSSZ(f"{len(data)} bytes are too few for a state: it begins with {STATE_HEAD}.")
    names = ("slot", "proposer_index")
    values = {name: int.from_bytes(data[64 + 8 * i : 72 + 8 * i], "little") for i, name in enumerate(names)}
    roots = [data[start : start + 32] for start in range(80, STATE_HEAD, 32)]
    parent, state, body = roots
    return StateHead(
        genesis_time=int.from_bytes(data[:8], "little"),
        genesis_validators_root=data[8:40],
        slot=int.from_bytes(data[40:48], "little"),
        version=data[52:56],
        header=BeaconBlockHeader(**values, parent_root=parent, state_root=state, body_root=body),
    )


def find_state_fork(network: Network, head: StateHead) -> Fork:
    """The fork of a state. Raises WrongNetwork for another network, an unknown fork, another schedule."""
    verify_genesis(network, head.genesis_validators_root, head.genesis_time)
    versions = {network.get_version(fork): fork for fork in network.forks.values()}
    scheduled = network.get_fork_at_slot(head.slot)
    if head.version not in versions:
        raise WrongNetwork(
            f"The state is of an unknown fork, version 0x{head.version.hex()}; at slot {head.slot} "
            f"{network.name} has {scheduled.name}, 0x{network.get_version(scheduled).hex()}.",
            fix="Another network, or a fork that is newer than this program: update it.",
        )
    if network.get_version(scheduled) != head.version:
        raise WrongNetwork(
            f"The state of slot {head.slot} is of {versions[head.version].name}, where {network.name} "
            f"schedules {scheduled.name}.",
        )
    return scheduled


def find_block_fork(network: Network, data: bytes) -> Fork:
    """The fork that is scheduled for a signed block's slot. Raises MalformedSSZ when bytes are too few."""
    if len(data) < BLOCK_HEAD:
        raise MalformedSSZ(f"{len(data)} bytes are too few for a block: its slot ends at {BLOCK_HEAD}.")
    return network.get_fork_at_slot(int.from_bytes(data[100:BLOCK_HEAD], "little"))


def verify_block(network: Network, checkpoint: Checkpoint, data: bytes) -> VerifiedBlock:
    """The block of a trusted checkpoint. Steps 2 to 4; raises MalformedSSZ, InvalidCheckpoint."""
    fork = find_block_fork(network, data)
    block = fork.scope.schema("SignedBeaconBlock").decode(data)
    root = fork.hash_tree_root(block.message)
    if root != checkpoint.root:
        raise InvalidCheckpoint(
            f"The block of slot {block.message.slot} has root 0x{root.hex()}, and the trusted one is "
            f"0x{checkpoint.root.hex()}.",
            fix="Use another endpoint, or check the root that you were given.",
        )
    start = checkpoint.epoch * network.preset.SLOTS_PER_EPOCH
    if block.message.slot > start:
        raise InvalidCheckpoint(
            f"The trusted block is of slot {block.message.slot}, after the start of epoch "
            f"{checkpoint.epoch} at slot {start}: it cannot be that epoch's checkpoint."
        )
    return VerifiedBlock(fork, root, block)


def verify_pair(
    network: Network,
    checkpoint: Checkpoint,
    block: bytes,
    state: bytes,
    *,
    now: float,
    accept_expired: bool = False,
) -> VerifiedCheckpoint:
    """A block and a state from files: the network first, then as `verify_block` and `verify_checkpoint`."""
    find_state_fork(network, read_state_head(state))
    verified = verify_block(network, checkpoint, block)
    return verify_checkpoint(network, checkpoint, verified, state, now=now, accept_expired=accept_expired)


def verify_checkpoint(
    network: Network,
    checkpoint: Checkpoint,
    block: VerifiedBlock,
    state: bytes,
    *,
    now: float,
    accept_expired: bool = False,
    tables: Sequence[Table] = TABLES,
) -> VerifiedCheckpoint:
    """The checkpoint with the state that `block` leads to. `now` is Unix time.

    Raises WrongNetwork, MalformedSSZ, InvalidCheckpoint, StaleTrust: see the head of this file.
    """
    head = read_state_head(state)
    fork = find_state_fork(network, head)
    if fork is not block.fork:
        raise InvalidCheckpoint(f"The state is of {fork.name}, and its block of {block.fork.name}.")
    record = fork.scope.schema("BeaconState").decode(state)
    _verify_state_root(block, head, fork.hash_tree_root(record))
    past = look_back(checkpoint, record, network.preset.SLOTS_PER_EPOCH)
    verify_branch(get_table(head.genesis_validators_root, tables), past)
    period = _compute_period(network, fork, record)
    known = network.with_genesis(head.genesis_validators_root, head.genesis_time)
    known = known.with_clock(record.network) if known.is_ledger else known
    _verify_clock(known, checkpoint, record, now)
    is_expired = _verify_age(known, record, block.slot, period, now, accept_expired)
    return VerifiedCheckpoint(known, checkpoint, block, record, state, period, is_expired)


def _compute_period(network: Network, fork: Fork, state: Any) -> Epoch:
    """The weak-subjectivity period; the shorter one where the configuration is no more than a claim."""
    period = compute_weak_subjectivity_period(fork, state)
    if not network.is_claimed:
        return period
    careful = type(fork)(network.preset, network.get_careful_config(), fork.signatures)
    return min(period, compute_weak_subjectivity_period(careful, state))


def _verify_state_root(block: VerifiedBlock, head: StateHead, root: Root) -> None:
    if root == block.state_root:
        return
    what = f"The state of slot {head.slot} has root 0x{root.hex()}"
    if head.slot > block.slot and block.root in (hash_tree_root(head.header), _fill(head.header, block)):
        raise InvalidCheckpoint(
            f"{what}: it was advanced from its block's slot {block.slot} over empty slots, and nothing "
            f"commits to it. The block's own state is 0x{block.state_root.hex()}.",
            fix="Give that state.",
        )
    raise InvalidCheckpoint(
        f"{what}, and the trusted block commits to 0x{block.state_root.hex()}.", fix="Use another endpoint."
    )


def _fill(header: BeaconBlockHeader, block: VerifiedBlock) -> Root:
    """The root of a state's latest header, once the block's state root is in it."""
    return hash_tree_root(header.replace(state_root=block.state_root))


def _verify_clock(network: Network, checkpoint: Checkpoint, state: Any, now: float) -> None:
    """Neither the state nor the epoch that is claimed for it is in the future."""
    if network.is_ledger and state.timestamp > now + CLOCK_SKEW:
        raise InvalidCheckpoint(
            f"The state was made {int(state.timestamp - now)} seconds ahead of this machine's clock.",
            fix="Set the clock.",
        )
    if network.has_logical_clock:
        return
    current = network.compute_slot(now)
    start = checkpoint.epoch * network.preset.SLOTS_PER_EPOCH
    if max(state.slot, start) > current + CLOCK_TOLERANCE:
        raise InvalidCheckpoint(
            f"The checkpoint is of slot {start} and its state of slot {state.slot}, and by this machine's "
            f"clock it is slot {current}.",
            fix="Check the clock, and the epoch that you were given.",
        )


def _verify_age(
    network: Network, state: Any, slot: Slot, period: Epoch, now: float, accept_expired: bool
) -> bool:
    """Whether the period is over. Raises StaleTrust where that is not accepted."""
    size = network.preset.SLOTS_PER_EPOCH
    if network.has_logical_clock:
        seconds = state.network.seconds_per_slot
        is_expired = now >= compute_expiry_by_timestamp(state.timestamp, period, seconds, size)
        age = f"of {int(now) - state.timestamp} seconds ago"
    else:
        current = network.compute_age_epoch(now)
        epoch = -(-slot // size)  # of the checkpoint that the block stands for at the earliest
        is_expired = current > epoch + period
        age = f"of epoch {epoch}, and it is epoch {current}"
    if is_expired and not accept_expired:
        raise StaleTrust(
            f"The checkpoint is {age}: its weak-subjectivity period of {period} epochs is over, and who has "
            "left since could forge what follows.",
            fix="Take a newer checkpoint from a source that you trust (or say --allow-stale-trust).",
        )
    return is_expired
