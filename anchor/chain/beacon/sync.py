"""The driver: asks endpoints in turn until one gives what holds, and tells why the others did not.

What takes long is done in another thread: whoever serves meanwhile goes on to answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from anchor.chain.beacon.answers import (
    JSON,
    read_child_slots,
    read_data,
    read_finalized,
    read_genesis,
    read_head_slot,
    to_block_bytes,
    to_state_bytes,
)
from anchor.chain.beacon.checkpoint import VerifiedBlock, VerifiedCheckpoint, verify_block, verify_checkpoint
from anchor.chain.beacon.claims import Claim
from anchor.chain.beacon.follow import advance
from anchor.chain.beacon.http import ACCEPT, MIB, Client, Progress, show_nothing
from anchor.chain.beacon.light import start_light
from anchor.chain.beacon.networks import Network, identify, verify_genesis, verify_spec
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import (
    AnchorError,
    InvalidCheckpoint,
    MalformedAnswer,
    Misuse,
    NotServed,
    Unavailable,
    WrongNetwork,
)

MAX_BLOCK: Final = 64 * MIB
MAX_STATE: Final = 2048 * MIB
CLOCK_TOLERANCE: Final = 2
"""Slots that an endpoint's head may be ahead of the clock before that is worth a word."""
Note = Callable[[str], None]
"""Told, in a sentence, what is going on."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """How to sync."""

    network: Network | None = None
    """None: the one in the code with the endpoint's genesis, else the endpoint's own account."""
    accept_expired: bool = False
    note: Note = lambda _: None
    progress: Progress = show_nothing


async def ask_in_turn(clients: Sequence[Client], ask: Callable[[Client], Awaitable[T]], note: Note) -> T:
    """What the first endpoint gives that gives anything that holds.

    Raises what the last one failed with; where one was refused and not just out of reach, InvalidCheckpoint.
    """
    problems: list[AnchorError] = []
    for client in clients:
        try:
            with discreet(client):
                return await ask(client)
        except AnchorError as error:
            problems.append(error)
            if client is not clients[-1]:
                note(f"{place(client, error)} Trying the next endpoint.")
    if len(problems) == 1:
        raise problems[0]
    told = " ".join([place(*pair) for pair in zip(clients, problems, strict=True)])
    if any(not isinstance(problem, Unavailable) for problem in problems):
        raise InvalidCheckpoint(f"No endpoint gave what holds. {told}")
    raise Unavailable(f"No endpoint gave what was asked for. {told}")


@contextmanager
def discreet(client: Client) -> Iterator[None]:
    """Lets errors of the body pass, without what is secret in the endpoint's address."""
    try:
        yield
    except AnchorError as error:
        error.what = client.endpoint.redact(error.what)
        error.args = (error.what,)
        raise


def place(client: Client, error: AnchorError) -> str:
    """What went wrong, and with which endpoint."""
    return error.what if error.what.startswith(client.label) else f"{client.label}: {error.what}"


async def get_network(client: Client, settings: Settings, now: float) -> Network:
    """The network that an endpoint is on, checked before anything else is asked. Raises WrongNetwork."""
    root, time = read_genesis(await client.get("genesis", "/eth/v1/beacon/genesis"))
    if settings.network is not None:
        verify_genesis(settings.network, root, time)
    spec = read_data(await client.get("configuration", "/eth/v1/config/spec"))
    if not isinstance(spec, dict):
        raise WrongNetwork(f"{client.label}: the configuration is no mapping.")
    try:
        network = settings.network or identify(spec, root, time)
    except Misuse as error:
        raise WrongNetwork(f"{client.label}: {error.what}", fix="Use another endpoint.") from None
    verify_genesis(network, root, time)
    network = network.with_genesis(root, time)
    verify_spec(network, spec, network.compute_epoch_at_slot(network.compute_slot(now)))
    return network


async def sync_checkpoint(
    clients: Sequence[Client], checkpoint: Checkpoint, settings: Settings, now: float
) -> VerifiedCheckpoint:
    """The trusted checkpoint's block and state, from the first endpoint that has them right."""

    async def ask(client: Client) -> VerifiedCheckpoint:
        network = await get_network(client, settings, now)
        block = await get_block(client, network, checkpoint)
        try:
            return await get_state(client, network, checkpoint, block, settings, now)
        except NotServed as error:
            settings.note(f"{error.what} Following the light client from the trusted block to a newer one.")
            return await _sync_newer(client, network, checkpoint, settings, now, error)

    return await ask_in_turn(clients, ask, settings.note)


async def _sync_newer(
    client: Client,
    network: Network,
    checkpoint: Checkpoint,
    settings: Settings,
    now: float,
    missing: NotServed,
) -> VerifiedCheckpoint:
    """The newest final checkpoint, proven by light client, where the trusted state is gone."""
    expired = settings.accept_expired
    try:
        follower, followed = await start_light(client, network, checkpoint, now, accept_expired=expired)
        followed = await advance(client, follower, followed, now)
        newer = follower.to_checkpoint(followed.finalized)
    except Unavailable as error:
        raise NotServed(f"{missing.what} {error.what}", status=missing.status, fix=missing.fix) from None
    if newer.root == checkpoint.root:
        raise missing
    return await sync_newer(client, network, newer, settings, now)


async def sync_newer(
    client: Client, network: Network, newer: Checkpoint, settings: Settings, now: float
) -> VerifiedCheckpoint:
    """The block and state of a checkpoint that the light client has proven final."""
    block = await get_block(client, network, newer)
    return await get_state(client, network, newer, block, settings, now)


async def get_block(client: Client, network: Network, checkpoint: Checkpoint) -> VerifiedBlock:
    """The trusted block, asked for by its root. Raises AnchorError."""
    path = f"/eth/v2/beacon/blocks/0x{checkpoint.root.hex()}"
    answer = await client.get("the trusted block", path, accept=ACCEPT, limit=MAX_BLOCK)
    data = await asyncio.to_thread(to_block_bytes, network, answer)
    block = await asyncio.to_thread(verify_block, network, checkpoint, data)
    await _require_no_later_block(client, network, checkpoint, block)
    return block


async def _require_no_later_block(
    client: Client, network: Network, checkpoint: Checkpoint, block: VerifiedBlock
) -> None:
    """Where the epoch's first slot has no block of its own, none may stand between it and the trusted one.

    A child that the endpoint shows only speaks against it: one that it does not show proves nothing.
    """
    start = checkpoint.epoch * network.preset.SLOTS_PER_EPOCH
    if block.slot == start:
        return
    path = f"/eth/v1/beacon/headers?parent_root=0x{checkpoint.root.hex()}"
    try:
        slots = read_child_slots(await client.get("children of the trusted block", path))
    except (NotServed, MalformedAnswer):
        return
    if slots and min(slots) <= start:
        raise InvalidCheckpoint(
            f"The trusted block is of slot {block.slot}, and {client.label} has one of slot {min(slots)} on "
            f"top of it: it is not the checkpoint of epoch {checkpoint.epoch}, which starts at slot {start}.",
            fix="Check the epoch that you were given.",
        )


async def get_state(
    client: Client,
    network: Network,
    checkpoint: Checkpoint,
    block: VerifiedBlock,
    settings: Settings,
    now: float,
) -> VerifiedCheckpoint:
    """The state that the trusted block leads to: by its root, or as `finalized` where it still is that one.

    Raises NotServed when the endpoint has pruned it, InvalidCheckpoint when it gives another.
    """

    async def ask(state_id: str) -> VerifiedCheckpoint:
        path, limit = f"/eth/v2/debug/beacon/states/{state_id}", MAX_STATE
        progress, expired = settings.progress, settings.accept_expired
        answer = await client.get("the state", path, accept=ACCEPT, limit=limit, progress=progress)
        state = await asyncio.to_thread(to_state_bytes, network, answer)
        verify = partial(verify_checkpoint, now=now, accept_expired=expired)
        return await asyncio.to_thread(verify, network, checkpoint, block, state)

    try:
        return await ask(f"0x{block.state_root.hex()}")
    except NotServed as error:
        missing = error
    try:
        return await ask("finalized")
    except (NotServed, InvalidCheckpoint) as error:
        raise _tell_missing(block, missing, error) from None


def _tell_missing(block: VerifiedBlock, missing: NotServed, error: AnchorError) -> NotServed:
    return NotServed(
        f"{missing.what.rstrip('.')}: it knows the trusted block, and not its state 0x"
        f"{block.state_root.hex()}; as `finalized` it gives none that is it ({error.what.rstrip('.')}).",
        status=missing.status,
        fix="States are pruned: take a newer checkpoint, use another endpoint, or follow with --light.",
    )


async def survey(clients: Sequence[Client]) -> list[Claim]:
    """What every endpoint says is final, all asked at once."""
    return list(await asyncio.gather(*[_get_claim(client) for client in clients]))


async def _get_claim(client: Client) -> Claim:
    path = "/eth/v1/beacon/states/head/finality_checkpoints"
    try:
        with discreet(client):
            return Claim(client.label, read_finalized(await client.get("finality", path)))
    except AnchorError as error:
        return Claim(client.label, None, place(client, error).rstrip("."))


async def find_skew(client: Client, network: Network, now: float) -> str:
    """A warning where an endpoint's head is ahead of this machine's clock; empty where it is not."""
    try:
        head = read_head_slot(await client.get("syncing", "/eth/v1/node/syncing", accept=JSON))
    except AnchorError:
        return ""
    local = network.compute_slot(now)
    if head <= local + CLOCK_TOLERANCE:
        return ""
    return (
        f"{client.label} is at slot {head}, and by this machine's clock it is slot {local}: check the clock."
    )
