"""One store that crosses an upgrade: blocks, votes and evidence of two forks, payloads as of gloas."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from anchor.consensus.containers.phase0 import AttesterSlashing, Checkpoint
from anchor.consensus.fork_choice.schedule import ScheduledForkChoice
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.consensus.fork_epochs import FORK_NAMES
from anchor.errors import InvalidTransition, Misuse, Premature
from anchor.params import PAYLOAD_STATUS_EMPTY, PAYLOAD_STATUS_FULL, PAYLOAD_STATUS_PENDING
from tests.consensus.chains import SLOTS, Builder, make_genesis, make_schedule

FORK_EPOCH = 3
START = FORK_EPOCH * SLOTS
SECOND = 1000
UPGRADES = list(pairwise(FORK_NAMES))


class Network:
    """A fork choice, its store, and a chain that feeds it."""

    def __init__(self, first: str, fork_epoch: int = FORK_EPOCH) -> None:
        self.schedule = make_schedule(first, fork_epoch)
        self.choice = ScheduledForkChoice(self.schedule)
        state, block = make_genesis(self.schedule)
        self.store = self.choice.get_forkchoice_store(state, block)
        self.chain = Builder(self.schedule, state)

    def tick_to(self, slot: int) -> None:
        """The time when the slot's block is due."""
        config = self.schedule.forks[0].config
        time = self.store.genesis_time_ms + slot * config.SLOT_DURATION_MS + SECOND
        self.choice.on_tick(self.store, max(time, self.store.time_ms))

    def add(self, slot: int, **options: Any) -> Any:
        """The next block comes in time, with the votes that are in it."""
        self.tick_to(slot)
        block = self.chain.make_block(slot, **options)
        self.choice.on_block(self.store, block)
        for vote in block.message.body.attestations:
            self.choice.on_attestation(self.store, vote, is_from_block=True)
        return block

    def run_to(self, slot: int) -> None:
        for number in range(self.chain.state.slot + 1, slot + 1):
            self.add(number)
            if self.schedule.get_fork_at_slot(number).name == "gloas":
                self.reveal()

    def reveal(self) -> None:
        """The newest block's payload comes."""
        self.choice.at_slot(START).on_execution_payload_envelope(self.store, self.chain.make_envelope())


@pytest.mark.parametrize(("first", "second"), UPGRADES)
def test_a_chain_is_followed_and_finalised_across_the_upgrade(first: str, second: str) -> None:
    network = Network(first)
    store = network.store
    for slot in range(1, START + 3 * SLOTS):
        network.run_to(slot)
        head = network.choice.get_head(store)
        assert head.root == network.chain.get_newest_root()
        assert store.block_states[head.root] == network.chain.state
        assert network.choice.at_time(store).rules.name == (first if slot < START else second)
        assert network.schedule.get_fork_of(store.block_states[head.root]).name == (
            first if slot < START else second
        )
    assert store.justified_checkpoint.epoch == FORK_EPOCH + 1
    assert store.finalized_checkpoint.epoch == FORK_EPOCH
    assert store.finalized_checkpoint.root in store.blocks


@pytest.mark.parametrize(("first", "second"), UPGRADES)
def test_a_store_weighs_votes_by_a_state_of_the_fork_before(first: str, second: str) -> None:
    """Nothing has been justified since the upgrade, the slots of which are empty; two branches follow."""
    network = Network(first)
    network.run_to(START - 3)
    store, fork_point = network.store, network.chain.state
    network.tick_to(START + 2)
    roots = []
    for number in range(2):
        network.chain.state = fork_point
        block = network.chain.make_block(START + 1, graffiti=bytes([number]) * 32)
        network.choice.on_block(store, block)
        roots.append(network.chain.get_newest_root())
        rules = network.choice.at_time(store).rules
        assert rules.name == second
        if number == 0:
            votes = network.chain.make_votes(rules)
    assert network.choice.get_head(store).root == max(roots)
    for vote in votes:
        network.choice.on_attestation(store, vote)
    assert network.choice.get_head(store).root == roots[0]
    weight = network.choice.at_time(store).get_weight(store, ForkChoiceNode(roots[0]))
    balances = fork_point.validators.column("effective_balance")
    assert weight == int(balances.sum()) // SLOTS


@pytest.mark.parametrize(("first", "second"), UPGRADES)
def test_a_vote_has_the_form_of_its_slot(first: str, second: str) -> None:
    network = Network(first)
    network.run_to(START - 1)
    old, new = network.schedule.forks[-2:]
    votes = {rules.name: network.chain.make_votes(rules)[0] for rules in (old, new)}
    network.tick_to(START)
    network.choice.on_attestation(network.store, votes[first])
    network.choice.on_attestation(network.store, votes[second], is_from_block=True)
    if type(votes[first]) is not type(votes[second]):
        with pytest.raises(InvalidTransition, match=f"not in the form of {first}"):
            network.choice.on_attestation(network.store, votes[second])
    network.run_to(START)
    if type(votes[first]) is not type(votes[second]):
        late = network.chain.make_votes(old)[0]
        with pytest.raises(InvalidTransition, match=f"not in the form of {second}"):
            network.choice.on_attestation(network.store, late, is_from_block=True)


@pytest.mark.parametrize(("first", "second"), UPGRADES)
def test_a_block_has_the_form_of_its_slot(first: str, second: str) -> None:
    network = Network(first)
    network.run_to(START - 1)
    block = network.chain.make_block(START)
    wrong = block.replace(message=block.message.replace(slot=START - 1))
    network.tick_to(START)
    before = set(network.store.blocks)
    if network.schedule.forks[-2].records["BeaconBlockBody"] is not type(block.message.body):
        with pytest.raises(InvalidTransition, match=f"not in the form of {first}"):
            network.choice.on_block(network.store, wrong)
    assert set(network.store.blocks) == before
    network.choice.on_block(network.store, block)


@pytest.mark.parametrize(("first", "second"), UPGRADES)
def test_a_vote_of_before_the_upgrade_gives_way_to_one_after_it(first: str, second: str) -> None:
    """The older one says a target epoch, the newer one (since gloas) a slot."""
    network = Network(first)
    store, votes = network.store, network.store.votes
    network.run_to(START)
    assert votes.times.tolist() == [START - 1] * 64
    network.run_to(START + SLOTS)
    assert votes.times.min() >= START
    supported = {store.blocks[store.tree.nodes[place].root].slot for place in votes.places}
    assert supported == set(range(START, START + SLOTS))


@pytest.mark.parametrize(("first", "second"), UPGRADES)
def test_equivocators_of_before_the_upgrade_count_no_more(first: str, second: str) -> None:
    network = Network(first)
    network.run_to(START + 1)
    record = network.schedule.forks[-2].records["IndexedAttestation"]
    data = network.chain.make_vote_data(network.schedule.forks[-1], 0)
    votes = [
        record(
            attesting_indices=(1, 5),
            data=data.replace(slot=START - 1, beacon_block_root=bytes([number]) * 32),
            signature=bytes(96),
        )
        for number in range(2)
    ]
    network.choice.on_attester_slashing(
        network.store, AttesterSlashing(attestation_1=votes[0], attestation_2=votes[1])
    )
    assert network.store.votes.equivocating.nonzero()[0].tolist() == [1, 5]


@pytest.mark.parametrize(("first", "second"), UPGRADES)
def test_a_checkpoint_of_either_fork_is_trusted_for_its_period(first: str, second: str) -> None:
    network = Network(first)
    network.run_to(SLOTS)
    old, old_root = network.chain.state, network.chain.get_newest_root()
    network.run_to(START)
    choice, store = network.choice, network.store
    for state, root, epoch in ((old, old_root, 1), (network.chain.state, network.chain.get_newest_root(), 3)):
        checkpoint = Checkpoint(epoch=epoch, root=root)
        assert choice.is_within_weak_subjectivity_period(store, state, checkpoint)
        with pytest.raises(InvalidTransition, match="not at the checkpoint"):
            choice.is_within_weak_subjectivity_period(store, state, checkpoint.replace(epoch=2))
    network.tick_to(SLOTS * 10**6)
    assert not choice.is_within_weak_subjectivity_period(store, old, Checkpoint(epoch=1, root=old_root))


def test_the_merge_does_not_follow_a_block_that_holds_no_payload() -> None:
    network = Network("altair")
    network.run_to(START - 1)
    choice, store, root = network.choice.at_slot(START), network.store, network.chain.get_newest_root()
    assert not choice.is_merged(store, root)
    assert not choice.is_execution_block(store.blocks[root])
    network.tick_to(START)
    assert not choice.is_optimistic_candidate_block(store, network.chain.make_block(START).message)


# The passage to gloas


def test_the_first_block_of_gloas_builds_on_a_block_with_its_payload() -> None:
    network = Network("fulu")
    network.run_to(START - 1)
    store, gloas = network.store, network.choice.at_slot(START)
    last = network.chain.get_newest_root()
    network.tick_to(START)
    assert network.choice.get_head(store) == ForkChoiceNode(last, PAYLOAD_STATUS_PENDING)
    assert gloas.should_build_on_full(store, network.choice.get_head(store), START)
    with pytest.raises(InvalidTransition, match="older than gloas"):
        envelope = gloas.rules.scope.schema("SignedExecutionPayloadEnvelope").default()
        envelope = envelope.replace(message=envelope.message.replace(beacon_block_root=last))
        gloas.on_execution_payload_envelope(store, envelope)
    message = gloas.rules.scope.schema("PayloadAttestationMessage").default()
    vote = message.data.replace(beacon_block_root=last, slot=START - 1)
    with pytest.raises(InvalidTransition, match="not known"):
        gloas.on_payload_attestation_message(store, message.replace(data=vote))
    network.add(START)
    first = network.chain.get_newest_root()
    assert network.choice.get_head(store) == ForkChoiceNode(first, PAYLOAD_STATUS_EMPTY)
    assert gloas.get_parent_node(store, first) == ForkChoiceNode(last)
    network.reveal()
    network.tick_to(START + 1)
    assert network.choice.get_head(store) == ForkChoiceNode(first, PAYLOAD_STATUS_FULL)


def test_a_late_vote_for_a_block_of_before_gloas_may_say_that_its_payload_came() -> None:
    network = Network("fulu")
    network.run_to(START - 1)
    store, gloas = network.store, network.choice.at_slot(START)
    root = network.chain.get_newest_root()
    state = network.schedule.process_slots(network.chain.state.copy(), START)
    network.tick_to(START + 1)
    data = network.chain.make_vote_data(gloas.rules, 1)
    data = data.replace(slot=START, target=Checkpoint(epoch=FORK_EPOCH, root=root))
    vote = network.chain.make_votes(gloas.rules)[0]
    size = len(gloas.rules.get_beacon_committee(state, START, 0))
    assert len(vote.aggregation_bits) >= size
    network.choice.on_attestation(store, vote.replace(data=data))
    assert store.votes.times.max() == START


def test_a_payload_that_does_not_come_is_not_built_on() -> None:
    network = Network("fulu")
    network.run_to(START - 1)
    network.add(START)
    before, network.chain.state = network.chain.state, network.chain.state
    with pytest.raises(Premature, match="has not come"):
        network.add(START + 1, full=True)
    network.chain.state = before
    network.add(START + 1, full=False)
    assert network.choice.get_head(network.store).root == network.chain.get_newest_root()


def test_equivocation_in_the_last_slot_before_gloas() -> None:
    """The boosted block of the first slot stands on a weak one, whose proposer made two in time."""
    network = Network("fulu")
    network.run_to(START - 2)
    store, before = network.store, network.chain.state
    network.add(START - 1, graffiti=bytes([1]) * 32)
    after, network.chain.state = network.chain.state, before
    network.add(START - 1, graffiti=bytes([2]) * 32)
    network.chain.state = after
    network.tick_to(START)
    block = network.chain.make_block(START)
    network.choice.on_block(store, block)
    assert store.proposer_boost_root == network.chain.get_newest_root()
    assert not network.choice.at_slot(START).should_apply_proposer_boost(store)


# Wrong networks


def test_a_ledgers_state_is_of_no_fork_here() -> None:
    """Its version is one that the schedule has, and it inherits from altair."""
    from tests.consensus.ledgers import Chain

    chain, schedule = Chain(), make_schedule("phase0", FORK_EPOCH)
    config = schedule.forks[0].config
    for version in (config.GENESIS_FORK_VERSION, config.ALTAIR_FORK_VERSION):
        state = chain.state.copy()
        state.fork = state.fork.replace(current_version=version)
        with pytest.raises(Misuse, match="whose states have this form"):
            schedule.get_fork_of(state)
