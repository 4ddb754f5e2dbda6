"""Light-client data of our own: blocks and states of any fork, and the keys of sync committees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from anchor.consensus.bls import Bls
from anchor.consensus.bls_backends import ORDER
from anchor.consensus.containers.altair import SyncAggregate, SyncCommittee
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.fork_epochs import compute_fork_version, get_fork_name
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.store import LightClient, LightClientStore
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG, Preset
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.consensus.vectors.ssz import get_scope
from anchor.merkle.bits import Bits
from anchor.merkle.scope import Scope, hash_tree_root
from anchor.params import DOMAIN_SYNC_COMMITTEE, G2_POINT_AT_INFINITY
from anchor.types import Root, Slot, Version

BLS = Bls()
NETWORK = b"\x07" * 32
SEATS = MINIMAL.SYNC_COMMITTEE_SIZE
PERIOD = MINIMAL.SLOTS_PER_EPOCH * MINIMAL.EPOCHS_PER_SYNC_COMMITTEE_PERIOD
"""Slots of a sync committee period."""
EVERYONE = range(SEATS)


def make_config(**epochs: int) -> Any:
    """A network that starts with altair; `capella=2` schedules that fork, and those before it no later."""
    names = ["altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas"]
    changes, epoch = {}, 0
    for name in names[: max([names.index(name) for name in epochs], default=0) + 1]:
        epoch = epochs.get(name, epoch)
        changes[f"{name.upper()}_FORK_EPOCH"] = epoch
    return MINIMAL_CONFIG.replace("forks", **changes)


@cache
def make_secret_keys(number: int, size: int) -> list[int]:
    """Of committee `number`."""
    return [int.from_bytes(sha256(b"seat %d %d" % (number, seat)).digest()) % ORDER for seat in range(size)]


@cache
def make_committee(number: int, size: int = SEATS) -> SyncCommittee:
    """The committee of period `number`, unless a test says otherwise."""
    pubkeys = tuple([BLS.sk_to_pk(key) for key in make_secret_keys(number, size)])
    return SyncCommittee(pubkeys=pubkeys, aggregate_pubkey=BLS.eth_aggregate_pubkeys(pubkeys))


def sign(message: Root, number: int, seats: Iterable[int], size: int) -> SyncAggregate:
    """What those seats of committee `number` say of `message`."""
    seats = set(seats)
    total = sum([make_secret_keys(number, size)[seat] for seat in seats]) % ORDER
    return SyncAggregate(
        sync_committee_bits=Bits([seat in seats for seat in range(size)]),
        sync_committee_signature=BLS.sign(total, message) if seats else G2_POINT_AT_INFINITY,
    )


@dataclass(frozen=True)
class Made:
    """A block, and the state that it leads to."""

    block: Any
    state: Any
    header: Any
    """Of light clients, in the form of the block's fork."""
    deriver: Deriver

    @property
    def root(self) -> Root:
        return hash_tree_root(self.header.beacon)

    @property
    def slot(self) -> Slot:
        return self.block.message.slot  # type: ignore[no-any-return]


class World:
    """A network, its light client, and whatever blocks a test asks for."""

    def __init__(self, preset: Preset = MINIMAL, **epochs: int) -> None:
        self.preset, self.config = preset, make_config(**epochs)
        self.client = LightClient(preset, self.config, NETWORK, BLS)
        self.forms = self.client.forms

    def get_period(self, slot: Slot) -> int:
        return self.forms.compute_sync_committee_period_at_slot(slot)

    def get_scope(self, slot: Slot) -> Scope:
        """The records of the fork that rules in `slot`."""
        return get_scope(self.preset.name, get_fork_name(self.config, self.forms.compute_epoch_at_slot(slot)))

    def make(
        self,
        slot: Slot,
        final: Made | None = None,
        *,
        parent: Made | None = None,
        aggregate: SyncAggregate | None = None,
        **changes: Any,
    ) -> Made:
        """The block of `slot`; `changes` replace fields of its state."""
        scope = self.get_scope(slot)
        state, period = scope.schema("BeaconState").default(), self.get_period(slot)
        state.slot = slot
        state.current_sync_committee = make_committee(period, self.preset.SYNC_COMMITTEE_SIZE)
        state.next_sync_committee = make_committee(period + 1, self.preset.SYNC_COMMITTEE_SIZE)
        if final is not None:
            epoch = -(-final.slot // self.preset.SLOTS_PER_EPOCH)
            state.finalized_checkpoint = Checkpoint(epoch=epoch, root=final.root if final.slot else bytes(32))
        for name, value in changes.items():
            setattr(state, name, value)
        block = scope.schema("SignedBeaconBlock").default()
        body = self._fill(block.message.body, slot)
        if aggregate is not None:
            body = body.replace(sync_aggregate=aggregate)
        message = block.message.replace(
            slot=slot,
            parent_root=parent.root if parent else bytes(32),
            state_root=scope.hash_tree_root(state),
            body=body,
        )
        block, deriver = block.replace(message=message), Deriver(self.forms, scope)
        return Made(block, state, deriver.block_to_light_client_header(block), deriver)

    def _fill(self, body: Any, slot: Slot) -> Any:
        """The body with something to prove in it."""
        body = body.replace(graffiti=b"%32d" % slot)
        if "execution_payload" in body.fields:
            payload = body.execution_payload.replace(
                block_number=slot, block_hash=b"%32d" % slot, transactions=(b"one", b"two")
            )
            return body.replace(execution_payload=payload)
        if "signed_execution_payload_bid" in body.fields:
            bid = body.signed_execution_payload_bid
            message = bid.message.replace(parent_block_hash=b"%32d" % slot)
            return body.replace(signed_execution_payload_bid=bid.replace(message=message))
        return body

    def start(self, made: Made) -> LightClientStore:
        """The store of who trusts a block."""
        bootstrap = made.deriver.create_light_client_bootstrap(made.header, made.state)
        return self.client.initialize_light_client_store(made.root, bootstrap)

    def prepare(self, attested: Made, final: Made | None = None) -> Any:
        """The update that attests `attested`, not signed yet."""
        return attested.deriver.create_unsigned_update(
            attested.header, attested.state, final.header if final else None
        )

    def sign(
        self,
        update: Any,
        slot: Slot | None = None,
        *,
        seats: Iterable[int] | None = None,
        committee: int | None = None,
        version: Version | None = None,
        network: Root = NETWORK,
    ) -> Any:
        """`update` as its committee signs it in `slot`: by default all of it, in the slot after."""
        slot = update.attested_header.beacon.slot + 1 if slot is None else slot
        epoch = self.forms.compute_epoch_at_slot(max(slot, 1) - 1)
        version = version or compute_fork_version(self.config, epoch)
        message = compute_signing_root(
            hash_tree_root(update.attested_header.beacon),
            compute_domain(DOMAIN_SYNC_COMMITTEE, version, network),
        )
        number = self.get_period(slot) if committee is None else committee
        size = self.preset.SYNC_COMMITTEE_SIZE
        aggregate = sign(message, number, range(size) if seats is None else seats, size)
        return update.replace(sync_aggregate=aggregate, signature_slot=slot)

    def update(self, attested: Made, final: Made | None = None, **signing: Any) -> Any:
        """An update as an honest node derives it."""
        return self.sign(self.prepare(attested, final), **signing)
