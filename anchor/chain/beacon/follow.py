"""Following finality by light client: from a verified state or a bootstrap, through sync committee periods.

Events and polls only say when to look. What counts is what the light client's rules accept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from anchor.chain.beacon.answers import read_header, to_light_client_record, to_light_client_updates
from anchor.chain.beacon.checkpoint import VerifiedCheckpoint
from anchor.chain.beacon.http import ACCEPT, MIB, Client
from anchor.chain.beacon.networks import Network
from anchor.consensus.bls import Bls, Signatures
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.consensus.hardcoded import TABLES, Table, get_newest_checkpoint, get_table, verify_root
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms, Header
from anchor.consensus.light_client.store import (
    LightClient,
    LightClientStore,
    get_finalized,
    is_better_update,
    is_sync_committee_update,
)
from anchor.consensus.text import format_checkpoint
from anchor.errors import AnchorError, InvalidCheckpoint, InvalidUpdate, NotServed, StaleTrust
from anchor.merkle.scope import hash_tree_root
from anchor.params import MAX_REQUEST_LIGHT_CLIENT_UPDATES
from anchor.types import Slot

MAX_UPDATES: Final = 64 * MIB
CLOCK_TOLERANCE: Final = 1
"""Slots by which a clock may lag."""
MAX_ANCESTORS: Final = 1024
"""Headers that are asked for to show that what is final descends from a checkpoint in the code."""
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
        """From a trusted root alone. Raises InvalidUpdate, also for a header after the checkpoint's epoch,
        InvalidCheckpoint for a root that the code contradicts.
        """
        store = self.client.initialize_light_client_store(checkpoint.root, bootstrap)
        verify_root(self._table, checkpoint.epoch, checkpoint.root)
        slot = store.finalized_header.beacon.slot
        if slot > checkpoint.epoch * self.network.preset.SLOTS_PER_EPOCH:
            raise InvalidUpdate(f"The trusted block is of slot {slot}, after the start of its epoch.")
        return Followed(store, {})

    def verify_floor(self, followed: Followed, now: float, accept_expired: bool) -> None:
        """Raises InvalidUpdate for a block from the future, StaleTrust for one that is too old.

        Without a state there is no registry, so the least period of any counts.
        """
        network, slot = self.network, followed.finalized.beacon.slot
        if slot > network.compute_slot(now) + CLOCK_TOLERANCE:
            raise InvalidUpdate(
                f"The trusted block is of slot {slot}, and by this machine's clock it is slot "
                f"{network.compute_slot(now)}.",
                fix="Check the clock.",
            )
        configs = network.config, network.get_careful_config()
        period = min(config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY for config in configs)
        epoch = -(-slot // network.preset.SLOTS_PER_EPOCH)
        current = network.compute_age_epoch(now)
        if current > epoch + period and not accept_expired:
            raise StaleTrust(
                f"The trusted block is of epoch {epoch}, and it is epoch {current}: more than the {period} "
                "epochs that hold for every registry.",
                fix="Sync with a state, take a newer checkpoint, or say --allow-stale-trust.",
            )

    def apply(
        self, followed: Followed, update: Any, slot: Slot, ancestors: Sequence[BeaconBlockHeader] = ()
    ) -> Followed:
        """What is known after an update; the same where it brings nothing new.

        `ancestors` are headers before the one that the update makes final: as many as it takes to show a
        checkpoint in the code that lies on the way. Raises InvalidUpdate; InvalidCheckpoint where what is
        final conflicts with such a checkpoint, or passes it by.
        """
        if not self._is_news(followed.store, update):
            return followed
        limit = slot + CLOCK_TOLERANCE
        store = self.client.process_light_client_update(followed.store, update, limit)
        self._verify_hardcoded(followed.finalized, store.finalized_header, ancestors)
        updates, newest = dict(followed.updates), followed.finality_update
        if is_sync_committee_update(update):
            period = self.forms.compute_sync_committee_period_at_slot(update.attested_header.beacon.slot)
            best = updates.get(period)
            if best is None or is_better_update(self.forms, update, best):
                updates[period] = update
        elif get_finalized(update) is not None:
            newest = update
        return Followed(store, updates, newest)

    def find_passed_by(self, known: Header, final: Header) -> Checkpoint | None:
        """The newest checkpoint in the code between two final headers, if neither is it (rule 22)."""
        before, after = self.to_checkpoint(known), self.to_checkpoint(final)
        entry = get_newest_checkpoint(self._table, after.epoch)
        if entry is None or entry.epoch <= before.epoch or entry.root in (before.root, after.root):
            return None
        return entry

    def _verify_hardcoded(self, known: Header, final: Header, ancestors: Sequence[BeaconBlockHeader]) -> None:
        """Whatever the weight of what made it final: it is that checkpoint, or descends from it."""
        place, entry = self.to_checkpoint(final), self.find_passed_by(known, final)
        verify_root(self._table, place.epoch, place.root)
        if entry is None:
            return
        headers = {hash_tree_root(header): header for header in ancestors}
        header, root = final.beacon, place.root
        while header.slot > entry.epoch * self.network.preset.SLOTS_PER_EPOCH:
            root = header.parent_root
            if root not in headers:
                raise InvalidCheckpoint(
                    f"What is final now, slot {final.beacon.slot}, passes epoch {entry.epoch} by, whose "
                    "checkpoint this program knows, and it is not shown to descend from that.",
                    fix=f"Start there: --trust {format_checkpoint(entry)}",
                )
            header = headers[root]
        verify_root(self._table, entry.epoch, root)

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
    newest = await asyncio.to_thread(to_light_client_record, network, answer, "LightClientFinalityUpdate")
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
    return await _take(client, follower, followed, newest, slot)


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
    updates = await asyncio.to_thread(to_light_client_updates, follower.network, answer)
    if len(updates) > count:
        raise InvalidUpdate(f"{client.label} gave {len(updates)} updates where {count} were asked for.")
    for update in updates:
        followed = await _take(client, follower, followed, update, slot)
    return followed


async def _take(client: Client, follower: Follower, followed: Followed, update: Any, slot: Slot) -> Followed:
    """What is known after an update, and after asking for what it leaves out."""
    final = get_finalized(update)
    entry = None if final is None else follower.find_passed_by(followed.finalized, final)
    if entry is None or final is None:
        return await asyncio.to_thread(follower.apply, followed, update, slot)
    follower.client.verify_light_client_update(
        followed.store, update, slot + CLOCK_TOLERANCE
    )  # before asking
    start = entry.epoch * follower.network.preset.SLOTS_PER_EPOCH
    ancestors = await _get_ancestors(client, final.beacon, start)
    return await asyncio.to_thread(follower.apply, followed, update, slot, ancestors)


async def _get_ancestors(client: Client, header: BeaconBlockHeader, start: Slot) -> list[BeaconBlockHeader]:
    """The headers before one, the newest first, down to one of `start` or earlier; none where those are many.

    Ends with the first that is another than the one that was asked for.
    """
    found: list[BeaconBlockHeader] = []
    while start < header.slot <= start + MAX_ANCESTORS:
        root = header.parent_root
        header = read_header(await client.get("a header", f"/eth/v1/beacon/headers/0x{root.hex()}"))
        if hash_tree_root(header) != root:
            break
        found.append(header)
    return found


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
