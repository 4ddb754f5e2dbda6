"""Following finality by light client: from a verified state or a bootstrap, through sync committee periods.

Events and polls only say when to look. What counts is what the light client's rules accept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from anchor.chain.beacon.answers import to_light_client_record, to_light_client_updates
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.chain.beacon.http import ACCEPT, MIB, Client
from anchor.chain.beacon.networks import Network
from anchor.consensus.bls import Bls, Signatures
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.hardcoded import TABLES, Table, get_table, verify_root
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms, Header
from anchor.consensus.light_client.store import (
    LightClient,
    LightClientStore,
    get_finalized,
    is_better_update,
    is_sync_committee_update,
)
from anchor.errors import AnchorError, InvalidUpdate, NotServed, StaleTrust
from anchor.merkle.scope import hash_tree_root
from anchor.params import MAX_REQUEST_LIGHT_CLIENT_UPDATES
from anchor.types import Slot

MAX_UPDATES: Final = 64 * MIB
CLOCK_TOLERANCE: Final = 1
"""Slots by which a clock may lag."""
ROOT: Final = "/eth/v1/beacon/light_client"


@dataclass(frozen=True, slots=True)
class Followed:
    """A light client's store, and the records that brought it there."""

    store: LightClientStore
    updates: dict[int, Any]
    """By period, the update that brought its next committee: what other light clients need."""
    finality_update: Any | None = None
    """The newest that was accepted."""

    @property
    def finalized(self) -> Header:
        """The newest final header."""
        return self.store.finalized_header


class Follower:
    """The rules of following on one network."""

    def __init__(
        self, network: Network, signatures: Signatures | None = None, tables: Sequence[Table] = TABLES
    ) -> None:
        self.network = network
        root = network.genesis_validators_root or bytes(32)
        self.client = LightClient(network.preset, network.config, root, signatures or Bls())
        self.forms = Forms(network.preset, network.config)
        self._table = get_table(root, tables)

    def start(self, anchor: VerifiedCheckpoint) -> Followed:
        """From a verified state, which holds both committees: no bootstrap is needed."""
        scope = anchor.block.fork.scope
        header = Deriver(self.forms, scope).block_to_light_client_header(anchor.block.block)
        state = anchor.state
        committees = state.current_sync_committee, state.next_sync_committee
        return Followed(LightClientStore(header, *committees, None, header), {})

    def start_from_bootstrap(self, checkpoint: Checkpoint, bootstrap: Any) -> Followed:
        """From a trusted root alone. Raises InvalidUpdate, also for a header after the checkpoint's epoch."""
        store = self.client.initialize_light_client_store(checkpoint.root, bootstrap)
        slot = store.finalized_header.beacon.slot
        if slot > checkpoint.epoch * self.network.preset.SLOTS_PER_EPOCH:
            raise InvalidUpdate(f"The trusted block is of slot {slot}, after the start of its epoch.")
        return Followed(store, {})

    def verify_floor(self, followed: Followed, now: float, accept_expired: bool) -> None:
        """Raises StaleTrust: without a state there is no registry, so the network's least period counts."""
        network, period = self.network, self.network.config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY
        epoch = -(-followed.finalized.beacon.slot // network.preset.SLOTS_PER_EPOCH)
        current = network.compute_epoch_at_slot(network.compute_slot(now))
        if current > epoch + period and not accept_expired:
            raise StaleTrust(
                f"The trusted block is of epoch {epoch}, and it is epoch {current}: more than the {period} "
                "epochs that hold for every registry.",
                fix="Sync with a state, take a newer checkpoint, or say --accept-expired.",
            )

    def apply(self, followed: Followed, update: Any, slot: Slot) -> Followed:
        """What is known after an update; the same where it brings nothing new.

        Raises InvalidUpdate; InvalidCheckpoint where what is final conflicts with a checkpoint in the code.
        """
        if not self._is_news(followed.store, update):
            return followed
        limit = slot + CLOCK_TOLERANCE
        store = self.client.process_light_client_update(followed.store, update, limit)
        final = self.to_checkpoint(store.finalized_header)
        verify_root(self._table, final.epoch, final.root)  # rule 22: whatever its weight
        updates, newest = dict(followed.updates), followed.finality_update
        if is_sync_committee_update(update):
            period = self.forms.compute_sync_committee_period_at_slot(update.attested_header.beacon.slot)
            best = updates.get(period)
            if best is None or is_better_update(self.forms, update, best):
                updates[period] = update
        elif get_finalized(update) is not None:
            newest = update
        return Followed(store, updates, newest)

    def _is_news(self, store: LightClientStore, update: Any) -> bool:
        period = self.forms.compute_sync_committee_period_at_slot
        attested, known = update.attested_header.beacon.slot, store.finalized_header.beacon.slot
        brings_committee = store.next_sync_committee is None and is_sync_committee_update(update)
        return attested > known or (brings_committee and period(attested) == period(known))

    def to_checkpoint(self, header: Header) -> Checkpoint:
        """The checkpoint that a final header stands for at the earliest: its epoch counts up, not down."""
        epoch = -(-header.beacon.slot // self.network.preset.SLOTS_PER_EPOCH)
        return Checkpoint(epoch=epoch, root=hash_tree_root(header.beacon))


async def get_bootstrap(client: Client, network: Network, checkpoint: Checkpoint) -> Any:
    """The bootstrap of a trusted root. No other root is taken in its stead. Raises AnchorError."""
    try:
        answer = await client.get(
            "the bootstrap", f"{ROOT}/bootstrap/0x{checkpoint.root.hex()}", accept=ACCEPT
        )
    except NotServed as error:
        raise NotServed(
            f"{error.what.rstrip('.')}: nodes keep bootstraps for some blocks only, mostly of full epochs.",
            status=error.status,
            fix="Sync with the state instead (without --light), use another endpoint or another checkpoint.",
        ) from None
    return to_light_client_record(network, answer, "LightClientBootstrap")


async def advance(client: Client, follower: Follower, followed: Followed, now: float) -> Followed:
    """What is known after asking an endpoint for the updates that lead to its newest finality update.

    Raises InvalidUpdate, MalformedAnswer, MalformedSSZ, WrongNetwork for what does not hold; Unavailable.
    """
    network, slot = follower.network, follower.network.compute_slot(now)
    answer = await client.get("the finality update", f"{ROOT}/finality_update", accept=ACCEPT)
    newest = to_light_client_record(network, answer, "LightClientFinalityUpdate")
    period = follower.forms.compute_sync_committee_period_at_slot
    target = min(period(newest.signature_slot), period(slot + CLOCK_TOLERANCE))
    while True:
        known = period(followed.finalized.beacon.slot)
        if followed.store.next_sync_committee is not None and target <= known + 1:
            break
        before = followed
        followed = await _get_updates(client, follower, followed, (known, target), slot)
        if followed is before or period(followed.finalized.beacon.slot) >= target:
            break
    return follower.apply(followed, newest, slot)


async def _get_updates(
    client: Client, follower: Follower, followed: Followed, periods: tuple[int, int], slot: Slot
) -> Followed:
    """After the updates of a run of periods; the same where the endpoint has none yet."""
    start, stop = periods
    count = min(stop - start + 1, MAX_REQUEST_LIGHT_CLIENT_UPDATES)
    path = f"{ROOT}/updates?start_period={start}&count={count}"
    try:
        answer = await client.get("light-client updates", path, accept=ACCEPT, limit=MAX_UPDATES)
    except NotServed:
        if start < stop:
            raise
        return followed
    updates = to_light_client_updates(follower.network, answer)
    if len(updates) > count:
        raise InvalidUpdate(f"{client.label} gave {len(updates)} updates where {count} were asked for.")
    for update in updates:
        followed = follower.apply(followed, update, slot)
    return followed


class News:
    """Wakes a follower: at an endpoint's event of a finalised checkpoint, or after `poll` seconds."""

    def __init__(self, clients: Sequence[Client], poll: float) -> None:
        self._clients, self._poll = clients, poll
        self._event = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.events = 0
        """How many events came."""

    async def __aenter__(self) -> News:
        self._tasks = [asyncio.create_task(self._listen(client)) for client in self._clients]
        return self

    async def __aexit__(self, *failure: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait(self) -> None:
        """Returns when it is time to look again."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), self._poll)
        self._event.clear()

    async def _listen(self, client: Client) -> None:
        """Listens as long as the follower runs; a stream that ends is opened again after a pause."""
        while True:
            with suppress(AnchorError):
                async for name in read_events(client):
                    if name == "finalized_checkpoint":
                        self.events += 1
                        self._event.set()
            await asyncio.sleep(self._poll)


async def read_events(client: Client) -> AsyncIterator[str]:
    """The names of the events that an endpoint sends; what they hold is not used. Raises AnchorError."""
    name = ""
    async for line in client.read_lines("/eth/v1/events?topics=finalized_checkpoint"):
        if line.startswith("event:"):
            name = line.removeprefix("event:").strip()
        elif not line and name:
            yield name
            name = ""
