"""Chains of real blocks across upgrades: every validator votes in every slot, and nobody signs."""

from __future__ import annotations

from typing import Any

from anchor.consensus.bls import NoSignatures
from anchor.consensus.containers.phase0 import AttestationData, Checkpoint, Fork
from anchor.consensus.fork_epochs import FORK_NAMES
from anchor.consensus.forks.schedule import ForkSchedule
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.merkle.bits import Bits
from anchor.merkle.scope import hash_tree_root
from anchor.params import BUILDER_INDEX_SELF_BUILD, FAR_FUTURE_EPOCH, G2_POINT_AT_INFINITY
from tests.consensus.samples import get_chain

SLOTS = MINIMAL.SLOTS_PER_EPOCH


def make_schedule(first: str, fork_epoch: int) -> ForkSchedule:
    """A network that starts with the fork `first`, and upgrades to the next in `fork_epoch`."""
    count = len(FORK_NAMES) - 1
    place = FORK_NAMES.index(first)
    epochs = ([0] * place + [fork_epoch] + [FAR_FUTURE_EPOCH] * count)[:count]
    keys = [f"{name.upper()}_FORK_EPOCH" for name in FORK_NAMES[1:]]
    config = MINIMAL_CONFIG.replace("upgrading", **dict(zip(keys, epochs, strict=True)))
    return ForkSchedule(MINIMAL, config, NoSignatures())


def make_genesis(schedule: ForkSchedule) -> tuple[Any, Any]:
    """A first state with the validators of a vector, in the form of the fork that comes first; its block."""
    sample, phase0 = get_chain("phase0")[0][0], schedule.forks[0]
    version = phase0.config.GENESIS_FORK_VERSION
    state = phase0.scope.schema("BeaconState").default()
    state.fork = Fork(previous_version=version, current_version=version, epoch=0)
    state.validators, state.balances = sample.validators.copy(), sample.balances.copy()
    first: Any = schedule.get_fork_at_slot(0)
    for fork in schedule.forks[1 : schedule.forks.index(first) + 1]:
        state = fork.upgrade(state)
    block = first.scope.schema("BeaconBlock").default()
    body_root = first.hash_tree_root(block.body)
    state.latest_block_header = state.latest_block_header.replace(body_root=body_root)
    return state, block.replace(state_root=first.hash_tree_root(state))


class Builder:
    """Makes the next block of a chain, and the votes and payloads that follow it."""

    def __init__(self, schedule: ForkSchedule, state: Any) -> None:
        self.schedule, self.state = schedule, state

    def make_block(self, slot: int, *, full: bool = True, graffiti: bytes = bytes(32)) -> Any:
        """The block of `slot` on the newest one, with all votes of that one's slot; the chain moves on to it.

        Since gloas it builds on its parent's payload, or (not `full`) on none.
        """
        rules: Any = self.schedule.get_fork_at_slot(slot)
        state = self.schedule.process_slots(self.state.copy(), slot)
        signed = rules.scope.schema("SignedBeaconBlock").default()
        changes = {"eth1_data": state.eth1_data, "graffiti": graffiti, "attestations": self.make_votes(rules)}
        if "sync_aggregate" in signed.message.body.fields:
            aggregate = signed.message.body.sync_aggregate
            changes["sync_aggregate"] = aggregate.replace(sync_committee_signature=G2_POINT_AT_INFINITY)
        changes |= self.make_payload(rules, state, signed.message.body, full)
        block = signed.message.replace(
            slot=slot,
            proposer_index=rules.get_beacon_proposer_index(state),
            parent_root=rules.hash_tree_root(state.latest_block_header),
            body=signed.message.body.replace(**changes),
        )
        rules.process_block(state, block)
        self.state = state
        return signed.replace(message=block.replace(state_root=rules.hash_tree_root(state)))

    # Votes

    def get_newest_root(self) -> bytes:
        """The root of the newest block."""
        root = self.schedule.get_fork_of(self.state).hash_tree_root(self.state)
        return hash_tree_root(self.state.latest_block_header.replace(state_root=root))

    def make_votes(self, rules: Any, index: int = 0) -> tuple[Any, ...]:
        """All votes of the newest block's slot, in the form of a fork; none before the first block."""
        state, slot = self.state, self.state.slot
        if slot == 0:
            return ()
        committees = range(rules.get_committee_count_per_slot(state, slot // SLOTS))
        sizes = [len(rules.get_beacon_committee(state, slot, number)) for number in committees]
        data, kind = self.make_vote_data(rules, index), rules.records["Attestation"]
        if "committee_bits" in kind.fields:
            bits = Bits([number in committees for number in range(MINIMAL.MAX_COMMITTEES_PER_SLOT)])
            everyone = Bits([True] * sum(sizes))
            return (kind(aggregation_bits=everyone, data=data, signature=bytes(96), committee_bits=bits),)
        parts = [(Bits([True] * size), data.replace(index=number)) for number, size in enumerate(sizes)]
        return tuple([kind(aggregation_bits=bits, data=part, signature=bytes(96)) for bits, part in parts])

    def make_vote_data(self, rules: Any, index: int) -> AttestationData:
        state, root, start = self.state, self.get_newest_root(), self.state.slot // SLOTS * SLOTS
        target = root if start == state.slot else rules.get_block_root_at_slot(state, start)
        return AttestationData(
            slot=state.slot,
            index=index,
            beacon_block_root=root,
            source=state.current_justified_checkpoint,
            target=Checkpoint(epoch=start // SLOTS, root=target),
        )

    # Payloads

    def make_payload(self, rules: Any, state: Any, body: Any, full: bool) -> dict[str, Any]:
        """What a body says of a payload. Up to bellatrix there is none: the merge comes later."""
        if "signed_execution_payload_bid" in body.fields:
            return {"signed_execution_payload_bid": self.make_bid(rules, state, body, full)}
        if "execution_payload" not in body.fields or rules.name == "bellatrix":
            return {}
        payload = body.execution_payload.replace(
            parent_hash=state.latest_execution_payload_header.block_hash,
            prev_randao=rules.get_randao_mix(state, rules.get_current_epoch(state)),
            timestamp=rules.compute_time_at_slot(state.genesis_time, state.slot),
            block_hash=b"%32d" % state.slot,
            withdrawals=rules.get_expected_withdrawals(state).withdrawals,
        )
        return {"execution_payload": payload}

    def make_bid(self, rules: Any, state: Any, body: Any, full: bool) -> Any:
        """The proposer's own bid."""
        bid, parent = body.signed_execution_payload_bid, state.latest_execution_payload_bid
        message = bid.message.replace(
            parent_block_hash=parent.block_hash if full else state.latest_block_hash,
            parent_block_root=rules.hash_tree_root(state.latest_block_header),
            block_hash=b"%32d" % state.slot,
            prev_randao=rules.get_randao_mix(state, rules.get_current_epoch(state)),
            builder_index=BUILDER_INDEX_SELF_BUILD,
            slot=state.slot,
            execution_requests_root=rules.hash_tree_root(body.parent_execution_requests),
        )
        return bid.replace(message=message, signature=G2_POINT_AT_INFINITY)

    def make_envelope(self) -> Any:
        """The payload of the newest block, of gloas."""
        rules: Any = self.schedule.get_fork_of(self.state)
        state, bid = self.state, self.state.latest_execution_payload_bid
        signed = rules.scope.schema("SignedExecutionPayloadEnvelope").default()
        payload = signed.message.payload.replace(
            parent_hash=state.latest_block_hash,
            prev_randao=bid.prev_randao,
            block_hash=bid.block_hash,
            slot_number=state.slot,
            timestamp=rules.compute_time_at_slot(state.genesis_time, state.slot),
            withdrawals=state.payload_expected_withdrawals,
        )
        message = signed.message.replace(
            payload=payload,
            builder_index=bid.builder_index,
            beacon_block_root=self.get_newest_root(),
            parent_beacon_block_root=state.latest_block_header.parent_root,
        )
        return signed.replace(message=message)
